-- What an admin has paused: everything (its name is empty), a model or a host.
CREATE TABLE pauses (
    kind TEXT NOT NULL CHECK (kind IN ('everything', 'model', 'host')),
    name TEXT NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- A person's jobs, newest first: the row's number follows the owner in every index.
CREATE INDEX jobs_of_owner ON jobs (owner);
