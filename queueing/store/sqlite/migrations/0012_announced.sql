-- The start that may go out to a server before it is stored in the jobs: whose it is, and under which
-- number of its sendings. It counts only as long as the job has fewer.
CREATE TABLE announced (
    server TEXT NOT NULL PRIMARY KEY,
    job_id INTEGER NOT NULL,
    sending INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
