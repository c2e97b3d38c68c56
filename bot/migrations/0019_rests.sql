-- Why a host did nothing: its quiet hours, another program on its card, a pause, sleep.
ALTER TABLE history_hosts ADD COLUMN quiet_s REAL NOT NULL DEFAULT 0;
ALTER TABLE history_hosts ADD COLUMN yielding_s REAL NOT NULL DEFAULT 0;
ALTER TABLE history_hosts ADD COLUMN paused_s REAL NOT NULL DEFAULT 0;
ALTER TABLE history_hosts ADD COLUMN asleep_s REAL NOT NULL DEFAULT 0;

CREATE TABLE rested_segments (
    host TEXT NOT NULL,
    begins REAL NOT NULL,
    ends REAL NOT NULL,
    kind TEXT NOT NULL CHECK (
        kind IN ('load', 'run', 'idle', 'quiet', 'yielding', 'paused', 'asleep', 'down')
    ),
    models TEXT NOT NULL, -- one a line
    PRIMARY KEY (host, begins)
) STRICT, WITHOUT ROWID;
INSERT INTO rested_segments SELECT host, begins, ends, kind, models FROM history_segments;
DROP TABLE history_segments;
ALTER TABLE rested_segments RENAME TO history_segments;
