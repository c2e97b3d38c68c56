-- The hosts an admin has put to work although they would rest, and until when (UNIX seconds).
CREATE TABLE awake (
    host TEXT NOT NULL PRIMARY KEY,
    until REAL NOT NULL
) STRICT, WITHOUT ROWID;
