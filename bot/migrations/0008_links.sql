-- How often the links to a job's files were ended; links made before name a smaller number.
CREATE TABLE link_ends (
    job_id        INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    ends          INTEGER NOT NULL
) STRICT;
