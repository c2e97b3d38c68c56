-- As 0011_uploads.sql.

CREATE TABLE uploads (
    id text COLLATE "C" PRIMARY KEY,
    "user" text COLLATE "C" NOT NULL,
    name text NOT NULL,
    mime text NOT NULL,
    size bigint NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    data bytea NOT NULL
);
CREATE INDEX uploads_of ON uploads ("user", created_at);
CREATE INDEX uploads_by_age ON uploads (expires_at);
