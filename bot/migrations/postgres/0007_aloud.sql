-- As 0016_aloud.sql.

ALTER TABLE people ADD COLUMN aloud bigint;
