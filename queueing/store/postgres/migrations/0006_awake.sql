-- The hosts an admin has put to work although they would rest, and until when (UNIX seconds).
CREATE TABLE awake (
    host text COLLATE "C" PRIMARY KEY,
    until double precision NOT NULL
);
