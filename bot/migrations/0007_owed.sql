-- Messages that do not show yet what they must come to show: the outcome of an admin's command, or
-- that a job was deleted. A row goes when its message is true.
CREATE TABLE owed (
    id            INTEGER PRIMARY KEY,
    platform      TEXT NOT NULL,
    chat          TEXT NOT NULL,
    message       TEXT, -- NULL: none is known
    request       TEXT, -- the caller's own message, to reply to
    language      TEXT NOT NULL,
    task          TEXT, -- NULL: the message is to say that its job was deleted
    outcome       TEXT, -- of the task, NULL until it is known
    runs          INTEGER NOT NULL DEFAULT 0, -- how often the task was begun
    since         REAL NOT NULL
) STRICT;

-- In the same transaction as the deletion, so that no crash and no stop comes in between.
CREATE TRIGGER owed_of_deleted_jobs BEFORE DELETE ON jobs WHEN OLD.acknowledged = 0
BEGIN
    INSERT INTO owed (platform, chat, message, language, since)
    SELECT platform, chat, message, coalesce(json_extract(OLD.reply_to, '$.language'), 'en'),
        coalesce(OLD.finished_at, OLD.queued_at)
    FROM messages WHERE job_id = OLD.id AND json_valid(OLD.reply_to);
END;
