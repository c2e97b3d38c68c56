-- schema 104
-- Until 0.1.0 is released, a change of the tables raises this number, also for the other engine.

-- The same tables as for SQLite; ../../sqlite/migrations/0001_queue.sql explains them. Its INTEGER
-- is bigint here, its REAL double precision (real has four bytes), its BLOB bytea. Keys are
-- compared as bytes, as in SQLite.

CREATE TABLE jobs (
    id bigint PRIMARY KEY, -- assigned by the store: see deleted_jobs
    model text COLLATE "C" NOT NULL,
    lane text COLLATE "C" NOT NULL,
    seq bigint,
    state text COLLATE "C" NOT NULL
        CHECK (state IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    version bigint NOT NULL DEFAULT 1,
    attempt bigint NOT NULL DEFAULT 0,
    sendings bigint NOT NULL DEFAULT 0,
    not_before double precision NOT NULL,
    due_at double precision,
    expires_at double precision,
    queued_at double precision NOT NULL,
    started_at double precision,
    finished_at double precision,
    acknowledged bigint NOT NULL DEFAULT 0 CHECK (acknowledged IN (0, 1)),
    suspect bigint NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)),
    bulk bigint NOT NULL DEFAULT 0 CHECK (bulk IN (0, 1)),
    moved bigint NOT NULL DEFAULT 0 CHECK (moved IN (0, 1)),
    gpu_s double precision NOT NULL DEFAULT 0,
    owner text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL UNIQUE,
    parent bigint,
    runner text,
    backend text,
    remembered_by text,
    reply_to text NOT NULL,
    error text,
    request text NOT NULL,
    CHECK ((state IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

CREATE UNIQUE INDEX jobs_waiting ON jobs (model, lane, seq) WHERE state = 'pending';
CREATE INDEX jobs_processing ON jobs (started_at) WHERE state = 'processing';
CREATE INDEX jobs_open ON jobs (owner, seq) WHERE finished_at IS NULL;
CREATE INDEX jobs_undelivered ON jobs (id) WHERE finished_at IS NOT NULL AND acknowledged = 0;
CREATE INDEX jobs_ended ON jobs (finished_at) WHERE finished_at IS NOT NULL AND acknowledged = 1;
CREATE INDEX jobs_due ON jobs (due_at) WHERE state = 'pending' AND due_at IS NOT NULL;
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE state = 'pending' AND expires_at IS NOT NULL;
CREATE INDEX jobs_held ON jobs (id) WHERE state = 'pending' AND not_before >= 1000000000000.0;
CREATE INDEX jobs_of_owner ON jobs (owner, bulk, id);
-- SQLite finds these among an owner's open jobs; PostgreSQL's planner would read all ended jobs.
CREATE INDEX jobs_overflow ON jobs (owner, bulk, id) WHERE finished_at IS NULL AND seq IS NULL;
CREATE INDEX jobs_made_for ON jobs (parent) WHERE parent IS NOT NULL;

-- The highest deleted id, so that no id is reused. SQLite's AUTOINCREMENT does this by itself.
-- Ids up to `reserved` may have been used by commits that a failover or a restored backup has lost.
CREATE TABLE deleted_jobs (
    one bigint PRIMARY KEY CHECK (one = 1),
    highest bigint NOT NULL,
    reserved bigint NOT NULL DEFAULT 0
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

-- Reserves at least 1000 ids before they are used.
CREATE FUNCTION reserve_ids() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE deleted_jobs SET reserved = added.id + 2000
    FROM (SELECT max(id) AS id FROM new_jobs) AS added WHERE added.id + 1000 > reserved;
    RETURN NULL;
END $$;

CREATE TRIGGER reserve_ids AFTER INSERT ON jobs
REFERENCING NEW TABLE AS new_jobs FOR EACH STATEMENT EXECUTE FUNCTION reserve_ids();

CREATE TABLE inputs (
    job_id bigint NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number bigint NOT NULL,
    name text NOT NULL,
    mime text NOT NULL,
    data bytea NOT NULL,
    UNIQUE (job_id, number)
);
-- Uncompressed: images do not shrink, and a piece can be read without the rest.
ALTER TABLE inputs ALTER COLUMN data SET STORAGE EXTERNAL;

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

CREATE TABLE scores (
    category text COLLATE "C" NOT NULL,
    slot bigint NOT NULL,
    number bigint NOT NULL,
    value double precision NOT NULL,
    PRIMARY KEY (category, slot)
);

CREATE TABLE sizes (
    model text COLLATE "C" PRIMARY KEY,
    vram_mb bigint NOT NULL
);

CREATE TABLE pauses (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('everything', 'model', 'host')),
    name text COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, name)
);

CREATE TABLE awake (
    host text COLLATE "C" PRIMARY KEY,
    until double precision NOT NULL
);

CREATE TABLE charges (
    job_id bigint PRIMARY KEY,
    owner text COLLATE "C" NOT NULL,
    at double precision NOT NULL
);

CREATE TABLE gpu_use (
    owner text COLLATE "C" NOT NULL,
    at double precision NOT NULL,
    seconds double precision NOT NULL,
    PRIMARY KEY (owner, at)
);

-- The roles that one process holds at a time. SQLite has none: only one process opens a file.
CREATE TABLE roles (
    name text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    address text NOT NULL,
    epoch bigint NOT NULL,
    until double precision NOT NULL,
    about text NOT NULL DEFAULT '', -- the holder's version and configuration, for other processes
    written bigint NOT NULL DEFAULT 0 -- counts the holders' transactions: lower means an older copy
) WITH (fillfactor = 50);
-- In a separate table: an account that only reads (for graphs, say) need not see them.
CREATE TABLE lease_secrets (
    name text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL,
    secret bytea NOT NULL
);

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
