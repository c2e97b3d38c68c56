-- Keys of the HTTP API. A key is the person it was made by, or the service it was made for.
-- `digest` is the SHA-256 of the key, which is shown once and stored nowhere.
-- `service` is 1 for those of a service, whose "user" begins with "service:".
-- `people` is 1 where the callers of a service name the people behind them.
CREATE TABLE api_keys (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    user          TEXT NOT NULL,
    user_name     TEXT NOT NULL,
    name          TEXT NOT NULL,
    digest        BLOB NOT NULL UNIQUE,
    created_at    REAL NOT NULL,
    used_at       REAL,
    service       INTEGER NOT NULL,
    people        INTEGER NOT NULL,
    style         TEXT NOT NULL
) STRICT;
CREATE INDEX api_keys_of ON api_keys (user);
