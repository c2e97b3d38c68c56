-- Small work of programs in great numbers: it has limits of its own, and no line in a history.
ALTER TABLE jobs ADD COLUMN bulk bigint NOT NULL DEFAULT 0 CHECK (bulk IN (0, 1));

DROP INDEX jobs_of_owner;
CREATE INDEX jobs_of_owner ON jobs (owner, bulk, id);
DROP INDEX jobs_overflow;
CREATE INDEX jobs_overflow ON jobs (owner, bulk, id) WHERE finished_at IS NULL AND seq IS NULL;
