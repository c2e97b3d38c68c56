-- The models a person chose for films, music, speech, transcripts and edited pictures.
ALTER TABLE people ADD COLUMN edit_model TEXT;
ALTER TABLE people ADD COLUMN film_model TEXT;
ALTER TABLE people ADD COLUMN music_model TEXT;
ALTER TABLE people ADD COLUMN speak_model TEXT;
ALTER TABLE people ADD COLUMN transcribe_model TEXT;
