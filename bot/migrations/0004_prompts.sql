-- Our messages that ask for a reply, and the command and job the reply is meant for.
CREATE TABLE prompts (
    platform      TEXT NOT NULL,
    chat          TEXT NOT NULL,
    message       TEXT NOT NULL,
    command       TEXT NOT NULL,
    job_id        INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (platform, chat, message)
) STRICT, WITHOUT ROWID;

CREATE INDEX prompts_by_job ON prompts (job_id);

-- A reply to a further part of an answer continues it as a reply to its first message does.
CREATE INDEX deliveries_by_message ON deliveries (message) WHERE message IS NOT NULL;
