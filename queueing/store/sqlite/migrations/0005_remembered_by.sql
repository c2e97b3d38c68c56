-- The server that has read the conversation a question goes on with: it answers sooner than others.
ALTER TABLE jobs ADD COLUMN remembered_by TEXT;
