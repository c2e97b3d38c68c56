-- As 0015_usual_models.sql.
ALTER TABLE people ADD COLUMN edit_model text;
ALTER TABLE people ADD COLUMN film_model text;
ALTER TABLE people ADD COLUMN music_model text;
ALTER TABLE people ADD COLUMN speak_model text;
ALTER TABLE people ADD COLUMN transcribe_model text;
