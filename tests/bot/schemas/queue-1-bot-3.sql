-- A database as the first version wrote it (queue schema 1, bot schema 3): jobs in every state,
-- their bytes and messages, people, notes, what was learned. Made by its own code; never edited.
BEGIN TRANSACTION;
CREATE TABLE audit (
    id            INTEGER PRIMARY KEY,
    at            REAL NOT NULL,
    actor         TEXT NOT NULL,
    action        TEXT NOT NULL,
    subject       TEXT NOT NULL,
    detail        TEXT NOT NULL
) STRICT;
INSERT INTO "audit" VALUES(1,1000.0,'telegram:1','ban','telegram:8','spam');
CREATE TABLE deliveries (
    job_id        INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    part          TEXT NOT NULL,
    state         TEXT NOT NULL CHECK (state IN ('attempting', 'sent', 'unclear')),
    message       TEXT,
    changed_at    REAL NOT NULL,
    PRIMARY KEY (job_id, part)
) STRICT, WITHOUT ROWID;
INSERT INTO "deliveries" VALUES(2,'ping','attempting',NULL,2012.5);
CREATE TABLE estimates (
    kind TEXT NOT NULL CHECK (kind IN ('service', 'load')),
    model TEXT NOT NULL,
    host TEXT NOT NULL,
    size TEXT NOT NULL,
    samples INTEGER NOT NULL,
    median_s REAL NOT NULL,
    spread_s REAL NOT NULL,
    PRIMARY KEY (kind, model, host, size)
) STRICT, WITHOUT ROWID;
INSERT INTO "estimates" VALUES('service','flux','gpu-1','1024x1024:20',3,12.0,1.0);
CREATE TABLE inputs (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    mime TEXT NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (job_id, number)
) STRICT;
INSERT INTO "inputs" VALUES(1,1,'cat.png','image/png',X'89504E470D0A1A0A');
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: old buttons carry it
    model TEXT NOT NULL,
    lane TEXT NOT NULL,
    seq INTEGER, -- place in its line; NULL in its owner's back row
    state TEXT NOT NULL
        CHECK (state IN ('pending', 'processing', 'completed', 'failed', 'cancelled')),
    version INTEGER NOT NULL DEFAULT 1,
    attempt INTEGER NOT NULL DEFAULT 0,
    not_before REAL NOT NULL,
    queued_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    acknowledged INTEGER NOT NULL DEFAULT 0 CHECK (acknowledged IN (0, 1)),
    suspect INTEGER NOT NULL DEFAULT 0 CHECK (suspect IN (0, 1)),
    owner TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE,
    parent INTEGER,
    runner TEXT,
    backend TEXT,
    reply_to TEXT NOT NULL,
    error TEXT,
    request TEXT NOT NULL, -- JSON, last: long ones must not push the other columns off the page
    CHECK ((state IN ('completed', 'failed', 'cancelled')) = (finished_at IS NOT NULL))
) STRICT;
INSERT INTO "jobs" VALUES(1,'flux','normal',1,'completed',3,1,0.0,1001.0,2000.0,2010.0,1,0,'telegram:7','telegram:1',NULL,'r1','comfy','{"platform":"telegram","chat":"100","group":false,"user":"telegram:7","user_name":"Ada","language":"de","key":"telegram:1","request":"1"}',NULL,'{"kind":"text-to-image","prompt":"cat 1","negative":"dog","width":768,"height":1024,"steps":20,"seed":1,"count":1}');
INSERT INTO "jobs" VALUES(2,'qwen','normal',1,'completed',3,1,0.0,1002.0,2000.0,2012.0,0,0,'telegram:7','telegram:2',NULL,'r1','comfy','{"platform":"telegram","chat":"100","group":false,"user":"telegram:7","user_name":"Ada","language":"de","key":"telegram:2","request":"2"}',NULL,'{"kind":"chat","messages":[{"role":"user","text":"why?","pictures":[]}]}');
INSERT INTO "jobs" VALUES(3,'flux','normal',2,'failed',3,1,0.0,1003.0,2000.0,2013.0,0,0,'telegram:7','telegram:3',NULL,'r1','comfy','{"platform":"telegram","chat":"100","group":false,"user":"telegram:7","user_name":"Ada","language":"de","key":"telegram:3","request":"3"}','failed.no_memory','{"kind":"text-to-image","prompt":"cat 3","negative":"dog","width":768,"height":1024,"steps":20,"seed":3,"count":1}');
INSERT INTO "jobs" VALUES(4,'flux','normal',3,'cancelled',2,0,0.0,1004.0,NULL,2014.0,0,0,'telegram:7','telegram:4',NULL,NULL,NULL,'{"platform":"telegram","chat":"100","group":false,"user":"telegram:7","user_name":"Ada","language":"de","key":"telegram:4","request":"4"}',NULL,'{"kind":"text-to-image","prompt":"cat 4","negative":"dog","width":768,"height":1024,"steps":20,"seed":4,"count":1}');
INSERT INTO "jobs" VALUES(5,'flux','normal',4,'processing',2,1,0.0,1005.0,2000.0,NULL,0,0,'telegram:7','telegram:5',NULL,'r1','comfy','{"platform":"telegram","chat":"100","group":false,"user":"telegram:7","user_name":"Ada","language":"de","key":"telegram:5","request":"5"}',NULL,'{"kind":"text-to-image","prompt":"cat 5","negative":"dog","width":768,"height":1024,"steps":20,"seed":5,"count":1}');
INSERT INTO "jobs" VALUES(6,'flux','vip',1,'pending',1,0,0.0,1006.0,NULL,NULL,0,0,'telegram:7','telegram:6',NULL,NULL,NULL,'{"platform":"telegram","chat":"100","group":false,"user":"telegram:7","user_name":"Ada","language":"de","key":"telegram:6","request":"6"}',NULL,'{"kind":"text-to-image","prompt":"cat 6","negative":"dog","width":768,"height":1024,"steps":20,"seed":6,"count":1}');
INSERT INTO "jobs" VALUES(7,'flux','normal',5,'pending',1,0,0.0,1007.0,NULL,NULL,0,0,'telegram:7','telegram:7',NULL,NULL,NULL,'{"platform":"telegram","chat":"100","group":false,"user":"telegram:7","user_name":"Ada","language":"de","key":"telegram:7","request":"7"}',NULL,'{"kind":"text-to-image","prompt":"cat 7","negative":"dog","width":768,"height":1024,"steps":20,"seed":7,"count":1}');
INSERT INTO "jobs" VALUES(8,'flux','normal',NULL,'pending',1,0,0.0,1008.0,NULL,NULL,0,0,'telegram:7','telegram:8',NULL,NULL,NULL,'{"platform":"telegram","chat":"100","group":false,"user":"telegram:7","user_name":"Ada","language":"de","key":"telegram:8","request":"8"}',NULL,'{"kind":"text-to-image","prompt":"cat 8","negative":"dog","width":768,"height":1024,"steps":20,"seed":8,"count":1}');
INSERT INTO "jobs" VALUES(9,'flux','normal',NULL,'pending',1,0,0.0,1009.0,NULL,NULL,0,0,'telegram:7','telegram:9',NULL,NULL,NULL,'{"platform":"telegram","chat":"100","group":false,"user":"telegram:7","user_name":"Ada","language":"de","key":"telegram:9","request":"9"}',NULL,'{"kind":"text-to-image","prompt":"cat 9","negative":"dog","width":768,"height":1024,"steps":20,"seed":9,"count":1}');
INSERT INTO "jobs" VALUES(10,'flux','normal',NULL,'pending',1,0,0.0,1010.0,NULL,NULL,0,0,'telegram:7','telegram:10',NULL,NULL,NULL,'{"platform":"telegram","chat":"100","group":false,"user":"telegram:7","user_name":"Ada","language":"de","key":"telegram:10","request":"10"}',NULL,'{"kind":"text-to-image","prompt":"cat 10","negative":"dog","width":768,"height":1024,"steps":20,"seed":10,"count":1}');
CREATE TABLE messages (
    job_id        INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    platform      TEXT NOT NULL,
    chat          TEXT NOT NULL,
    message       TEXT NOT NULL,
    sent_at       REAL NOT NULL
) STRICT;
INSERT INTO "messages" VALUES(1,'telegram','100','501',1500.0);
INSERT INTO "messages" VALUES(2,'telegram','100','502',1500.0);
INSERT INTO "messages" VALUES(3,'telegram','100','503',1500.0);
INSERT INTO "messages" VALUES(4,'telegram','100','504',1500.0);
INSERT INTO "messages" VALUES(5,'telegram','100','505',1500.0);
INSERT INTO "messages" VALUES(6,'telegram','100','506',1500.0);
INSERT INTO "messages" VALUES(7,'telegram','100','507',1500.0);
INSERT INTO "messages" VALUES(8,'telegram','100','508',1500.0);
INSERT INTO "messages" VALUES(9,'telegram','100','509',1500.0);
INSERT INTO "messages" VALUES(10,'telegram','100','510',1500.0);
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
INSERT INTO "meta" VALUES('schema:queue','1');
INSERT INTO "meta" VALUES('schema:bot','3');
INSERT INTO "meta" VALUES('database_id','65af5a94-fe54-4ace-a2a5-651c1f7da213');
CREATE TABLE notes (
    name          TEXT PRIMARY KEY,
    value         TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "notes" VALUES('discord:commands','abc');
CREATE TABLE outputs (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    mime TEXT NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (job_id, number)
) STRICT;
INSERT INTO "outputs" VALUES(1,0,'','text/plain; charset=utf-8',X'');
INSERT INTO "outputs" VALUES(1,1,'cat.png','image/png',X'89504E470D0A1A0A');
INSERT INTO "outputs" VALUES(2,0,'','text/plain; charset=utf-8',X'426563617573652E0AC38420E2809C78E2809D');
CREATE TABLE people (
    user          TEXT PRIMARY KEY,
    language      TEXT,
    image_model   TEXT,
    ask_model     TEXT,
    size          TEXT,
    style         TEXT,
    lane          TEXT,
    max_open      INTEGER,
    per_hour      INTEGER,
    banned_at     REAL,
    banned_until  REAL,
    ban_reason    TEXT
) STRICT, WITHOUT ROWID;
INSERT INTO "people" VALUES('telegram:7','de','flux',NULL,NULL,NULL,'vip',20,NULL,NULL,NULL,NULL);
INSERT INTO "people" VALUES('telegram:8',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,1000.0,NULL,'spam');
CREATE TABLE residency (
    host TEXT NOT NULL,
    backend TEXT NOT NULL,
    model TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('loading', 'ready', 'unloading')),
    pinned INTEGER NOT NULL CHECK (pinned IN (0, 1)),
    PRIMARY KEY (model, backend)
) STRICT, WITHOUT ROWID;
INSERT INTO "residency" VALUES('gpu-1','comfy','flux','ready',1);
CREATE TABLE spent (
    job_id        INTEGER PRIMARY KEY,
    user          TEXT NOT NULL,
    at            REAL NOT NULL
) STRICT;
INSERT INTO "spent" VALUES(5,'telegram:7',1005.0);
CREATE TABLE unreachable (
    job_id        INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    since         REAL NOT NULL,
    tries         INTEGER NOT NULL,
    given_up      INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO "unreachable" VALUES(2,2020.0,1,0);
CREATE TABLE web_files (
    chat          TEXT NOT NULL,
    message       TEXT NOT NULL,
    id            TEXT NOT NULL,
    name          TEXT NOT NULL,
    mime          TEXT NOT NULL,
    data          BLOB NOT NULL,
    PRIMARY KEY (chat, id),
    FOREIGN KEY (chat, message) REFERENCES web_messages (chat, message) ON DELETE CASCADE
) STRICT;
CREATE TABLE web_messages (
    chat          TEXT NOT NULL,
    message       TEXT NOT NULL,
    number        INTEGER NOT NULL UNIQUE,
    place         INTEGER NOT NULL,
    at            REAL NOT NULL,
    shown         TEXT,
    PRIMARY KEY (chat, message)
) STRICT;
INSERT INTO "web_messages" VALUES('local','msg-1',1,1,1001.0,'{"author":"usher","body":[{"kind":"text","text":"hello"}],"files":[],"buttons":[],"quiet":false,"reply_to":null}');
CREATE UNIQUE INDEX jobs_waiting ON jobs (model, lane, seq) WHERE state = 'pending';
CREATE INDEX jobs_processing ON jobs (started_at) WHERE state = 'processing';
CREATE INDEX jobs_open ON jobs (owner, seq) WHERE finished_at IS NULL;
CREATE INDEX jobs_undelivered ON jobs (id) WHERE finished_at IS NOT NULL AND acknowledged = 0;
CREATE INDEX jobs_ended ON jobs (finished_at) WHERE finished_at IS NOT NULL AND acknowledged = 1;
CREATE VIEW job_status AS
SELECT
    jobs.id,
    jobs.model,
    jobs.lane,
    jobs.owner,
    jobs.seq,
    jobs.queued_at,
    CASE
        WHEN jobs.state <> 'pending' THEN jobs.state
        WHEN EXISTS (SELECT 1 FROM residency AS copy
            WHERE copy.model = jobs.model AND copy.state = 'ready') THEN 'ready'
        WHEN EXISTS (SELECT 1 FROM residency AS copy
            WHERE copy.model = jobs.model AND copy.state = 'loading') THEN 'needs-loading'
        ELSE 'pending'
    END AS shown
FROM jobs;
CREATE INDEX messages_by_ref ON messages (platform, chat, message);
CREATE INDEX web_messages_by_number ON web_messages (chat, number);
CREATE INDEX web_messages_by_place ON web_messages (chat, place);
CREATE INDEX web_files_by_message ON web_files (chat, message);
CREATE INDEX spent_by_user ON spent (user, at);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('jobs',10);
COMMIT;
