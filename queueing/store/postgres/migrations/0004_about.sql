-- What the holder of a post tells the other processes about itself: version and configuration.
ALTER TABLE posts ADD COLUMN about text NOT NULL DEFAULT '';
