-- As 0013_owed_within.sql.

ALTER TABLE owed ADD COLUMN within text;

CREATE OR REPLACE FUNCTION note_owed_of_deleted_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    spoken text;
    part_of text;
BEGIN
    BEGIN
        spoken := OLD.reply_to::json ->> 'language';
        part_of := OLD.reply_to::json ->> 'within';
    EXCEPTION WHEN data_exception THEN
        RETURN OLD; -- no JSON: no chat asked for it
    END;
    INSERT INTO owed (platform, chat, message, language, since, within)
    SELECT platform, chat, message, coalesce(spoken, 'en'),
        coalesce(OLD.finished_at, OLD.queued_at), part_of
    FROM messages WHERE job_id = OLD.id;
    RETURN OLD;
END $$;
