-- Jobs and all that belongs to them. Moments are UNIX seconds.

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: old buttons carry it
    model TEXT NOT NULL,
    lane TEXT NOT NULL,
    seq INTEGER, -- place in its line; NULL in its owner's back row
    state TEXT NOT NULL
        CHECK (state IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL,
    queued_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    acknowledged INTEGER NOT NULL DEFAULT 0 CHECK (acknowledged IN (0, 1)),
    suspect INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)),
    owner TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE,
    parent INTEGER,
    runner TEXT,
    backend TEXT,
    reply_to TEXT NOT NULL,
    error TEXT,
    request TEXT NOT NULL, -- JSON, last: long ones must not push the other columns off the page
    CHECK ((state IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX jobs_waiting ON jobs (model, lane, seq) WHERE state = 'pending';
CREATE INDEX jobs_processing ON jobs (started_at) WHERE state = 'processing';
CREATE INDEX jobs_open ON jobs (owner, seq) WHERE finished_at IS NULL;
CREATE INDEX jobs_undelivered ON jobs (id) WHERE finished_at IS NOT NULL AND acknowledged = 0;
CREATE INDEX jobs_ended ON jobs (finished_at) WHERE finished_at IS NOT NULL AND acknowledged = 1;

-- Bytes live beside the job, never in its row: they would cost every claim.
CREATE TABLE inputs (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    mime TEXT NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (job_id, number)
) STRICT;

-- Number 0 is the text, present even when empty: no row means that retention removed the output.
CREATE TABLE outputs (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    mime TEXT NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (job_id, number)
) STRICT;

CREATE TABLE residency (
    host TEXT NOT NULL,
    backend TEXT NOT NULL,
    model TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('loading', 'ready', 'unloading')),
    pinned INTEGER NOT NULL CHECK (pinned IN (0, 1)),
    PRIMARY KEY (model, backend)
) STRICT, WITHOUT ROWID;

CREATE TABLE estimates (
    kind TEXT NOT NULL CHECK (kind IN ('service', 'load')),
    model TEXT NOT NULL,
    host TEXT NOT NULL,
    size TEXT NOT NULL,
    samples INTEGER NOT NULL,
    median_s REAL NOT NULL,
    spread_s REAL NOT NULL,
    PRIMARY KEY (kind, model, host, size)
) STRICT, WITHOUT ROWID;

-- What people read: a waiting job's model is in memory, on its way, or neither.
CREATE VIEW job_status AS
SELECT
    jobs.id,
    jobs.model,
    jobs.lane,
    jobs.owner,
    jobs.seq,
    jobs.queued_at,
    CASE
        WHEN jobs.state <> 'pending' THEN jobs.state
        WHEN EXISTS (SELECT 1 FROM residency AS copy
            WHERE copy.model = jobs.model AND copy.state = 'ready') THEN 'ready'
        WHEN EXISTS (SELECT 1 FROM residency AS copy
            WHERE copy.model = jobs.model AND copy.state = 'loading') THEN 'needs-loading'
        ELSE 'pending'
    END AS shown
FROM jobs;
