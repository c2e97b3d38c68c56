-- Pictures that programs send ahead of the jobs that use them, until they expire.
CREATE TABLE uploads (
    id            TEXT PRIMARY KEY, -- random
    user          TEXT NOT NULL,
    name          TEXT NOT NULL,
    mime          TEXT NOT NULL,
    size          INTEGER NOT NULL, -- bytes
    created_at    REAL NOT NULL,
    expires_at    REAL NOT NULL,
    data          BLOB NOT NULL
) STRICT;
CREATE INDEX uploads_of ON uploads (user, created_at);
CREATE INDEX uploads_by_age ON uploads (expires_at);
