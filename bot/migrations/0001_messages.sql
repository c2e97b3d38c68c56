-- The one status message of each job, by which later edits, buttons and replies find it again.
CREATE TABLE messages (
    job_id        INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    platform      TEXT NOT NULL,
    chat          TEXT NOT NULL,
    message       TEXT NOT NULL,
    sent_at       REAL NOT NULL
) STRICT;

CREATE INDEX messages_by_ref ON messages (platform, chat, message);

-- What cannot be an edit (further messages, albums, pings) and so is never blindly sent twice.
CREATE TABLE deliveries (
    job_id        INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    part          TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('attempting', 'sent', 'unclear')),
    message       TEXT,
    changed_at    REAL NOT NULL,
    PRIMARY KEY (job_id, part)
) STRICT, WITHOUT ROWID;

-- Results whose chat could not be reached: since when, and how often it was tried.
CREATE TABLE unreachable (
    job_id        INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    since         REAL NOT NULL,
    tries         INTEGER NOT NULL,
    given_up      INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Small facts a platform keeps across restarts, such as the hash of the synced command tree.
CREATE TABLE notes (
    name          TEXT PRIMARY KEY,
    value         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
