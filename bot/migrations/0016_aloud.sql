-- 1: answers to a person's recordings are read aloud as well. NULL: never chosen.
ALTER TABLE people ADD COLUMN aloud INTEGER;
