-- How often a job was given to a server: the ids of its attempts are made of it, so it never goes
-- back. Until now they were made of `attempt`, which does when an attempt is given back: a waiting
-- job that once ran may have used the number above it.
ALTER TABLE jobs ADD COLUMN sendings INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET sendings = attempt + (state = 'pending') WHERE backend IS NOT NULL;
