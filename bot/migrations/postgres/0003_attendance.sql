-- As 0012_attendance.sql.

CREATE TABLE attendance (
    job_id bigint NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    run text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('here', 'left', 'given up')),
    PRIMARY KEY (job_id, run)
);
