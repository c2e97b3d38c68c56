-- Jobs that start only once they are given another request, found among a million that wait.
CREATE INDEX jobs_held ON jobs (id) WHERE state = 'pending' AND not_before >= 1000000000000.0;
