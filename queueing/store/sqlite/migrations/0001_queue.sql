-- schema 104
-- Until 0.1.0 is released, a change of the tables raises this number, also for the other engine.

-- Jobs and everything the queue stores about them. Times are UNIX seconds.

CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused: buttons of old messages contain it
    model TEXT NOT NULL,
    lane TEXT NOT NULL,
    seq INTEGER, -- place among the jobs of its model and lane; NULL for an owner's overflow jobs
    state TEXT NOT NULL
        CHECK (state IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    version INTEGER NOT NULL DEFAULT 1, -- incremented by every change of the job
    attempt INTEGER NOT NULL DEFAULT 0, -- decremented if an attempt does not count
    sendings INTEGER NOT NULL DEFAULT 0, -- never decremented: keys of attempts contain it
    not_before REAL NOT NULL,
    due_at REAL, -- deadline of a deferred job, or NULL
    expires_at REAL, -- when it ends unless it has started; NULL: never
    queued_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    acknowledged INTEGER NOT NULL DEFAULT 0 CHECK (acknowledged IN (0, 1)), -- 1: delivered
    suspect INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)), -- 1: runs alone
    bulk INTEGER NOT NULL DEFAULT 0 CHECK (bulk IN (0, 1)), -- has separate limits; in no history
    moved INTEGER NOT NULL DEFAULT 0 CHECK (moved IN (0, 1)), -- 1: an admin moved it to the front
    gpu_s REAL NOT NULL DEFAULT 0, -- expected use; counts against its owner's limit until it ends
    owner TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE, -- of the message or call: repeating it creates no other job
    parent INTEGER, -- the job whose prompt it writes
    runner TEXT,
    backend TEXT,
    remembered_by TEXT, -- the backend that has the conversation in its cache
    reply_to TEXT NOT NULL,
    error TEXT,
    request TEXT NOT NULL, -- JSON; last, so that a long one does not push columns off the page
    CHECK ((state IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX jobs_waiting ON jobs (model, lane, seq) WHERE state = 'pending';
CREATE INDEX jobs_processing ON jobs (started_at) WHERE state = 'processing';
CREATE INDEX jobs_open ON jobs (owner, seq) WHERE finished_at IS NULL;
CREATE INDEX jobs_undelivered ON jobs (id) WHERE finished_at IS NOT NULL AND acknowledged = 0;
CREATE INDEX jobs_ended ON jobs (finished_at) WHERE finished_at IS NOT NULL AND acknowledged = 1;
CREATE INDEX jobs_due ON jobs (due_at) WHERE state = 'pending' AND due_at IS NOT NULL;
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE state = 'pending' AND expires_at IS NOT NULL;
-- Held jobs, which start only after they get another request. Found without reading all that wait.
CREATE INDEX jobs_held ON jobs (id) WHERE state = 'pending' AND not_before >= 1000000000000.0;
-- A person's jobs, newest first: every index ends with the row's id. Each job is in one of the two,
-- so that a history is read without its owner's bulk.
CREATE INDEX jobs_of_owner ON jobs (owner) WHERE bulk = 0;
CREATE INDEX bulk_of_owner ON jobs (owner) WHERE bulk = 1;

-- Files are not in the job's row, where they would slow down every start.
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

-- The models in the memory of each backend, including those being loaded or unloaded.
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

-- The errors of the latest estimates by category of jobs.
CREATE TABLE scores (
    category TEXT NOT NULL,
    slot INTEGER NOT NULL,
    number INTEGER NOT NULL, -- counts the scores of the category
    value REAL NOT NULL, -- as a share of the time that the estimate looked ahead
    PRIMARY KEY (category, slot)
) STRICT, WITHOUT ROWID;

-- The memory that models took when they were loaded.
CREATE TABLE sizes (
    model TEXT PRIMARY KEY,
    vram_mb INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What an admin has paused: everything (with an empty name), a model or a host.
CREATE TABLE pauses (
    kind TEXT NOT NULL CHECK (kind IN ('everything', 'model', 'host')),
    name TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- Hosts that an admin keeps at work during their quiet hours, and until when.
CREATE TABLE awake (
    host TEXT NOT NULL PRIMARY KEY,
    until REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- The jobs accepted in the last hour, for hourly quotas. A row outlives its job, so that deleting a
-- job does not evade the quota. A failed job has none.
CREATE TABLE charges (
    job_id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    at REAL NOT NULL
) STRICT;

-- Each person's GPU time in quarters of an hour, which make up the days of every time zone.
-- Added in the transaction that ends a job.
CREATE TABLE gpu_use (
    owner TEXT NOT NULL,
    at REAL NOT NULL,
    seconds REAL NOT NULL,
    PRIMARY KEY (owner, at)
) STRICT, WITHOUT ROWID;

-- The state of a job as people see it: for a waiting one, whether its model is loaded or loading.
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
