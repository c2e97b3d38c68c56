-- What models were seen to take in memory when they were loaded.
CREATE TABLE sizes (
    model TEXT PRIMARY KEY,
    vram_mb INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
