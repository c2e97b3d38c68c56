-- How many bytes of files requests brought within the last hour, whichever process accepted them.

CREATE TABLE received (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL,
    at REAL NOT NULL,
    size INTEGER NOT NULL
) STRICT;
CREATE INDEX received_of ON received (user, at);
CREATE INDEX received_by_age ON received (at);
