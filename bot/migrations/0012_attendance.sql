-- Which process has a call of the API about a job: those that serve it tell each other so that the
-- retry of an SDK takes over a job without a caller, and none that has one. The process that accepted
-- a job has its call unless a row says otherwise.

CREATE TABLE attendance (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    run TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('here', 'left', 'given up')),
    PRIMARY KEY (job_id, run)
) STRICT, WITHOUT ROWID;
