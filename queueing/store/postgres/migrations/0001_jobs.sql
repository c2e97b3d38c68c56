-- Jobs and all that belongs to them. Moments are UNIX seconds. The tables are those of SQLite:
-- its INTEGER is bigint here, its REAL double precision (real has four bytes), its BLOB bytea.
-- Keys are compared as bytes, as there.

CREATE TABLE jobs (
    id bigint PRIMARY KEY, -- given by the store and never used twice: old buttons carry it
    model text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    seq bigint, -- place in its line; NULL in its owner's back row
    state text COLLATE "C" NOT NULL
        CHECK (state IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    version bigint NOT NULL DEFAULT 1,
    attempt bigint NOT NULL DEFAULT 0,
    not_before double precision NOT NULL,
    queued_at double precision NOT NULL,
    started_at double precision,
    finished_at double precision,
    acknowledged bigint NOT NULL DEFAULT 0 CHECK (acknowledged IN (0, 1)),
    suspect bigint NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)),
    owner text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL UNIQUE,
    parent bigint,
    runner text,
    backend text,
    reply_to text NOT NULL,
    error text,
    request text NOT NULL,
    sendings bigint NOT NULL DEFAULT 0,
    remembered_by text,
    CHECK ((state IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE UNIQUE INDEX jobs_waiting ON jobs (model, lane, seq) WHERE state = 'pending';
CREATE INDEX jobs_processing ON jobs (started_at) WHERE state = 'processing';
CREATE INDEX jobs_open ON jobs (owner, seq) WHERE finished_at IS NULL;
CREATE INDEX jobs_undelivered ON jobs (id) WHERE finished_at IS NOT NULL AND acknowledged = 0;
CREATE INDEX jobs_ended ON jobs (finished_at) WHERE finished_at IS NOT NULL AND acknowledged = 1;
CREATE INDEX jobs_of_owner ON jobs (owner, id);
-- SQLite finds these among an owner's open jobs; here the planner would walk past all that ended.
CREATE INDEX jobs_overflow ON jobs (owner, id) WHERE finished_at IS NULL AND seq IS NULL;
CREATE INDEX jobs_made_for ON jobs (parent) WHERE parent IS NOT NULL;

-- SQLite counts the numbers it gave; here the highest that was deleted is noted as it goes.
CREATE TABLE deleted_jobs (
    one bigint PRIMARY KEY CHECK (one = 1),
    highest bigint NOT NULL
);
INSERT INTO deleted_jobs (one, highest) VALUES (1, 0);

CREATE FUNCTION note_deleted_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE deleted_jobs SET highest = gone.id
    FROM (SELECT max(id) AS id FROM old_jobs) AS gone WHERE gone.id > highest;
    RETURN NULL;
END $$;

CREATE TRIGGER note_deleted_jobs AFTER DELETE ON jobs
REFERENCING OLD TABLE AS old_jobs FOR EACH STATEMENT EXECUTE FUNCTION note_deleted_jobs();

-- Bytes live beside the job, never in its row: they would cost every claim.
CREATE TABLE inputs (
    job_id bigint NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number bigint NOT NULL,
    name text NOT NULL,
    mime text NOT NULL,
    data bytea NOT NULL,
    UNIQUE (job_id, number)
);
ALTER TABLE inputs ALTER COLUMN data SET STORAGE EXTERNAL; -- pictures do not shrink; read in pieces

-- Number 0 is the text, present even when empty: no row means that retention removed the output.
CREATE TABLE outputs (
    job_id bigint NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number bigint NOT NULL,
    name text NOT NULL,
    mime text NOT NULL,
    data bytea NOT NULL,
    UNIQUE (job_id, number)
);
ALTER TABLE outputs ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE residency (
    host text NOT NULL,
    backend text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('loading', 'ready', 'unloading')),
    pinned bigint NOT NULL CHECK (pinned IN (0, 1)),
    PRIMARY KEY (model, backend)
);

CREATE TABLE estimates (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('service', 'load')),
    model text COLLATE "C" NOT NULL,
    host text COLLATE "C" NOT NULL,
    size text COLLATE "C" NOT NULL,
    samples bigint NOT NULL,
    median_s double precision NOT NULL,
    spread_s double precision NOT NULL,
    PRIMARY KEY (kind, model, host, size)
);

-- What models were seen to take in memory when they were loaded.
CREATE TABLE sizes (
    model text COLLATE "C" PRIMARY KEY,
    vram_mb bigint NOT NULL
);

-- What an admin has paused: everything (its name is empty), a model or a host.
CREATE TABLE pauses (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('everything', 'model', 'host')),
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, name)
);

-- What people asked for within the last hour, for hourly quotas. A row outlives its job: deleting
-- it is no way round a quota. A job that failed has none.
CREATE TABLE charges (
    job_id bigint PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    at double precision NOT NULL
);

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
