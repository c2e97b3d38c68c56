-- The seconds of cards a day that an admin allows a person, whatever their role's; -1: without limit.
ALTER TABLE people ADD COLUMN gpu_per_day bigint;
