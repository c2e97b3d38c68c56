-- People of the web chat whom an admin invited; nobody is known by the name they type.
-- `digest` is the SHA-256 of the token in their link; NULL: the invitation was taken back. The row
-- stays, so that nobody gets that id, and with it somebody else's chat, again.
CREATE TABLE web_people (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    digest        BLOB UNIQUE,
    invited_at    REAL NOT NULL
) STRICT, WITHOUT ROWID;
