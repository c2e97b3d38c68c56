-- The start that may go out to a server before it is stored in the jobs: whose it is, and under which
-- number of its sendings. It counts only as long as the job has fewer.
CREATE TABLE announced (
    server text COLLATE "C" PRIMARY KEY,
    job_id bigint NOT NULL,
    sending bigint NOT NULL
);
