-- What each person's jobs took of the cards, in quarters of an hour, which the days of every time
-- zone consist of. A job is counted with its end, in the same transaction.
CREATE TABLE gpu_use (
    owner TEXT NOT NULL,
    at REAL NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (owner, at)
) STRICT, WITHOUT ROWID;

-- What an open job is expected to take; it is held against its owner's limit until it ends.
ALTER TABLE jobs ADD COLUMN gpu_s REAL NOT NULL DEFAULT 0;
