-- As 0018_history.sql; the reasons stand there.

CREATE TABLE history_models (
    grain bigint NOT NULL,
    at bigint NOT NULL,
    model text COLLATE "C" NOT NULL,
    done bigint NOT NULL,
    failed bigint NOT NULL,
    cancelled bigint NOT NULL,
    service_s double precision NOT NULL,
    waits text COLLATE "C" NOT NULL,
    services text COLLATE "C" NOT NULL,
    loads bigint NOT NULL,
    failed_loads bigint NOT NULL,
    load_s double precision NOT NULL,
    evictions bigint NOT NULL,
    given bigint NOT NULL,
    kept bigint NOT NULL,
    errors text COLLATE "C" NOT NULL,
    PRIMARY KEY (grain, at, model)
);

CREATE TABLE history_hosts (
    grain bigint NOT NULL,
    at bigint NOT NULL,
    host text COLLATE "C" NOT NULL,
    run_s double precision NOT NULL,
    loading_s double precision NOT NULL,
    idle_s double precision NOT NULL,
    down_s double precision NOT NULL,
    loads bigint NOT NULL,
    failed_loads bigint NOT NULL,
    load_s double precision NOT NULL,
    evictions bigint NOT NULL,
    PRIMARY KEY (grain, at, host)
);

CREATE TABLE history_segments (
    host text COLLATE "C" NOT NULL,
    begins double precision NOT NULL,
    ends double precision NOT NULL,
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('load', 'run', 'idle', 'down')),
    models text COLLATE "C" NOT NULL,
    PRIMARY KEY (host, begins)
);

CREATE TABLE history_counted (
    job_id bigint PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE
);

CREATE TABLE history_promises (
    job_id bigint PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    given_at double precision NOT NULL,
    done_at double precision NOT NULL
);
