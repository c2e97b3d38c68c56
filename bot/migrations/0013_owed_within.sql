-- What the chat of a message is part of, as in its job's origin: by it the processes that share out
-- the chats of a service know whose the message is. NULL: not known.
ALTER TABLE owed ADD COLUMN within TEXT;

DROP TRIGGER owed_of_deleted_jobs;

CREATE TRIGGER owed_of_deleted_jobs BEFORE DELETE ON jobs WHEN OLD.acknowledged = 0
BEGIN
    INSERT INTO owed (platform, chat, message, language, since, within)
    SELECT platform, chat, message, coalesce(json_extract(OLD.reply_to, '$.language'), 'en'),
        coalesce(OLD.finished_at, OLD.queued_at), json_extract(OLD.reply_to, '$.within')
    FROM messages WHERE job_id = OLD.id AND json_valid(OLD.reply_to);
END;
