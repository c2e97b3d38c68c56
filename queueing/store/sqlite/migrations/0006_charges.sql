-- What people asked for within the last hour, for hourly quotas. A row outlives its job: deleting
-- it is no way round a quota. A job that failed has none.
CREATE TABLE charges (
    job_id INTEGER PRIMARY KEY,
    owner TEXT NOT NULL,
    at REAL NOT NULL
) STRICT;
