-- Duties that one process holds at a time. The secrets lie apart: an account that only reads (for
-- graphs, say) need not be given them.
CREATE TABLE posts (
    name text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    address text NOT NULL,
    epoch bigint NOT NULL,
    until double precision NOT NULL
);
CREATE TABLE post_secrets (
    name text COLLATE "C" PRIMARY KEY,
    epoch bigint NOT NULL,
    secret bytea NOT NULL
);
