-- The messages of the web chat: Discord and Telegram keep theirs, the page has only these.
-- `number` grows with every change of any message; `place` orders a chat and never changes.
CREATE TABLE web_messages (
    chat          TEXT NOT NULL,
    message       TEXT NOT NULL,
    number        INTEGER NOT NULL UNIQUE,
    place         INTEGER NOT NULL,
    at            REAL NOT NULL,
    shown         TEXT,
    PRIMARY KEY (chat, message)
) STRICT;

CREATE INDEX web_messages_by_number ON web_messages (chat, number);
CREATE INDEX web_messages_by_place ON web_messages (chat, place);

CREATE TABLE web_files (
    chat          TEXT NOT NULL,
    message       TEXT NOT NULL,
    id            TEXT NOT NULL,
    name          TEXT NOT NULL,
    mime          TEXT NOT NULL,
    data          BLOB NOT NULL,
    PRIMARY KEY (chat, id),
    FOREIGN KEY (chat, message) REFERENCES web_messages (chat, message) ON DELETE CASCADE
) STRICT;

CREATE INDEX web_files_by_message ON web_files (chat, message);
