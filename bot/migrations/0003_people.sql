-- What people set for themselves and what admins set for them. No row: nothing was ever set.
CREATE TABLE people (
    user          TEXT PRIMARY KEY,
    language      TEXT,
    image_model   TEXT,
    ask_model     TEXT,
    size          TEXT,
    style         TEXT,
    lane          TEXT,
    max_open      INTEGER,
    per_hour      INTEGER,
    banned_at     REAL,
    banned_until  REAL,
    ban_reason    TEXT
) STRICT, WITHOUT ROWID;

-- One row per accepted job, for hourly quotas; a failed job is given back.
CREATE TABLE spent (
    job_id        INTEGER PRIMARY KEY,
    user          TEXT NOT NULL,
    at            REAL NOT NULL
) STRICT;

CREATE INDEX spent_by_user ON spent (user, at);

-- Every act of an admin, for `/audit`.
CREATE TABLE audit (
    id            INTEGER PRIMARY KEY,
    at            REAL NOT NULL,
    actor         TEXT NOT NULL,
    action        TEXT NOT NULL,
    subject       TEXT NOT NULL,
    detail        TEXT NOT NULL
) STRICT;
