-- The store of jobs counts quotas now, in the transaction that accepts. A job that failed and was
-- not delivered yet had not been given back.
INSERT INTO charges (job_id, owner, at)
SELECT spent.job_id, spent.user, spent.at
FROM spent LEFT JOIN jobs ON jobs.id = spent.job_id
WHERE jobs.state IS NULL OR jobs.state <> 'failed';

DROP TABLE spent;
