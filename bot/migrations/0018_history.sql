-- What an operator is shown of the last hours. `grain` is how many seconds a bucket lasts, `at` its
-- first second. Times are classes and how many fell into each, as `12:3 40:1`; `errors` are failed
-- jobs by cause, likewise.
CREATE TABLE history_models (
    grain INTEGER NOT NULL,
    at INTEGER NOT NULL,
    model TEXT NOT NULL,
    done INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    service_s REAL NOT NULL,
    waits TEXT NOT NULL,
    services TEXT NOT NULL,
    loads INTEGER NOT NULL,
    failed_loads INTEGER NOT NULL,
    load_s REAL NOT NULL,
    evictions INTEGER NOT NULL,
    given INTEGER NOT NULL,
    kept INTEGER NOT NULL,
    errors TEXT NOT NULL,
    PRIMARY KEY (grain, at, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE history_hosts (
    grain INTEGER NOT NULL,
    at INTEGER NOT NULL,
    host TEXT NOT NULL,
    run_s REAL NOT NULL,
    loading_s REAL NOT NULL,
    idle_s REAL NOT NULL,
    down_s REAL NOT NULL,
    loads INTEGER NOT NULL,
    failed_loads INTEGER NOT NULL,
    load_s REAL NOT NULL,
    evictions INTEGER NOT NULL,
    PRIMARY KEY (grain, at, host)
) STRICT, WITHOUT ROWID;

CREATE TABLE history_segments (
    host TEXT NOT NULL,
    begins REAL NOT NULL,
    ends REAL NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('load', 'run', 'idle', 'down')),
    models TEXT NOT NULL, -- one a line
    PRIMARY KEY (host, begins)
) STRICT, WITHOUT ROWID;

-- The jobs that are in the buckets: those of the time before a crash that are not are found by it.
CREATE TABLE history_counted (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE
) STRICT;

-- What the people of open jobs were first told of their end.
CREATE TABLE history_promises (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    given_at REAL NOT NULL,
    done_at REAL NOT NULL
) STRICT;
