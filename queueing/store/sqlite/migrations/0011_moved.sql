-- Whether an admin has put a waiting job first: under a fair order its place alone does not say so.
ALTER TABLE jobs ADD COLUMN moved INTEGER NOT NULL DEFAULT 0 CHECK (moved IN (0, 1));
