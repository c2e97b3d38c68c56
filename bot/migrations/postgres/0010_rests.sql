-- As 0019_rests.sql; the reasons stand there.

ALTER TABLE history_hosts ADD COLUMN quiet_s double precision NOT NULL DEFAULT 0;
ALTER TABLE history_hosts ADD COLUMN yielding_s double precision NOT NULL DEFAULT 0;
ALTER TABLE history_hosts ADD COLUMN paused_s double precision NOT NULL DEFAULT 0;
ALTER TABLE history_hosts ADD COLUMN asleep_s double precision NOT NULL DEFAULT 0;

ALTER TABLE history_segments DROP CONSTRAINT history_segments_kind_check;
ALTER TABLE history_segments ADD CONSTRAINT history_segments_kind_check CHECK (
    kind IN ('load', 'run', 'idle', 'quiet', 'yielding', 'paused', 'asleep', 'down')
);
