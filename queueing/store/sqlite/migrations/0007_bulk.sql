-- Small work of programs in great numbers: it has limits of its own, and no line in a history.
ALTER TABLE jobs ADD COLUMN bulk INTEGER NOT NULL DEFAULT 0 CHECK (bulk IN (0, 1));

-- Each job is in one of the two, so that a history is read without its owner's bulk.
DROP INDEX jobs_of_owner;
CREATE INDEX jobs_of_owner ON jobs (owner) WHERE bulk = 0;
CREATE INDEX bulk_of_owner ON jobs (owner) WHERE bulk = 1;
