-- When a job shall be done that otherwise runs when nothing else waits, and when one ends that has
-- not begun by then.
ALTER TABLE jobs ADD COLUMN due_at double precision;
ALTER TABLE jobs ADD COLUMN expires_at double precision;

CREATE INDEX jobs_due ON jobs (due_at) WHERE state = 'pending' AND due_at IS NOT NULL;
CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE state = 'pending' AND expires_at IS NOT NULL;
