-- Since when a person's conversation in a chat is a new one (/new): nothing asked before is told.
CREATE TABLE fresh_starts (
    platform      TEXT NOT NULL,
    chat          TEXT NOT NULL,
    user          TEXT NOT NULL,
    since         REAL NOT NULL,
    PRIMARY KEY (platform, chat, user)
) STRICT, WITHOUT ROWID;

-- When a person chose their usual model for questions: conversations before it go on with that one.
ALTER TABLE people ADD COLUMN ask_model_at REAL;
