-- schema 111
-- Until 0.1.0 is released, a change of the tables raises this number, also for the other engine.

-- What the bot stores: its messages, people, the web chat, the API and an operator's history. Times
-- are UNIX seconds.

-- ---------------------------------------------------------------- messages

-- The status message of each job. Later edits, buttons and replies find it here.
CREATE TABLE messages (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    platform TEXT NOT NULL,
    chat TEXT NOT NULL,
    message TEXT NOT NULL,
    sent_at REAL NOT NULL
) STRICT;
CREATE INDEX messages_by_ref ON messages (platform, chat, message);

-- Messages sent in addition to edits (further messages, albums, pings), so that none is sent twice,
-- and those that show a result again.
CREATE TABLE deliveries (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    part TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('attempting', 'sent', 'unclear')),
    platform TEXT, -- NULL, like the chat: that of the job's status message
    chat TEXT,
    message TEXT,
    number INTEGER, -- of the result's image that the message shows; NULL: none, several or unknown
    changed_at REAL NOT NULL,
    PRIMARY KEY (job_id, part)
) STRICT, WITHOUT ROWID;
-- Further messages of an answer. Replies to them continue the conversation, as to the first one.
CREATE INDEX deliveries_by_message ON deliveries (message) WHERE message IS NOT NULL;

-- Results whose chat could not be reached, with the time of the first try and the number of tries.
CREATE TABLE unreachable (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    since REAL NOT NULL,
    tries INTEGER NOT NULL,
    given_up INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Messages that must still be updated: with the outcome of an admin's command, or because their
-- job was deleted. A row is deleted once its message is up to date.
CREATE TABLE owed (
    id INTEGER PRIMARY KEY,
    platform TEXT NOT NULL,
    chat TEXT NOT NULL,
    message TEXT, -- NULL: unknown
    request TEXT, -- the caller's own message, to reply to
    language TEXT NOT NULL,
    task TEXT, -- NULL: the message must say that its job was deleted
    outcome TEXT, -- of the task, NULL until it is known
    runs INTEGER NOT NULL DEFAULT 0, -- how often the task was started
    since REAL NOT NULL
) STRICT;

-- A trigger, so that this happens in the transaction of the deletion, whatever crashes.
CREATE TRIGGER owed_of_deleted_jobs BEFORE DELETE ON jobs WHEN OLD.acknowledged = 0
BEGIN
    INSERT INTO owed (platform, chat, message, language, since)
    SELECT platform, chat, message, coalesce(json_extract(OLD.reply_to, '$.language'), 'en'),
        coalesce(OLD.finished_at, OLD.queued_at)
    FROM messages WHERE job_id = OLD.id AND json_valid(OLD.reply_to);
END;

-- The bot's messages that ask for a reply, and the command and job that the reply is for.
CREATE TABLE prompts (
    platform TEXT NOT NULL,
    chat TEXT NOT NULL,
    message TEXT NOT NULL,
    command TEXT NOT NULL,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    PRIMARY KEY (platform, chat, message)
) STRICT, WITHOUT ROWID;
CREATE INDEX prompts_by_job ON prompts (job_id);

-- When a person last started a new conversation in a chat (/new).
CREATE TABLE fresh_starts (
    platform TEXT NOT NULL,
    chat TEXT NOT NULL,
    user TEXT NOT NULL,
    since REAL NOT NULL,
    PRIMARY KEY (platform, chat, user)
) STRICT, WITHOUT ROWID;

-- Small values kept across restarts, such as the hash of the synced command tree.
CREATE TABLE notes (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- ---------------------------------------------------------------- people

-- People's own settings and those that admins set for them. No row: nothing was ever set.
CREATE TABLE people (
    user TEXT PRIMARY KEY,
    language TEXT,
    image_model TEXT,
    edit_model TEXT,
    video_model TEXT,
    music_model TEXT,
    speak_model TEXT,
    transcribe_model TEXT,
    ask_model TEXT,
    ask_model_at REAL, -- when it was chosen; older conversations keep their own model
    size TEXT,
    style TEXT,
    aloud INTEGER, -- 1: answers to a person's recordings are also read aloud
    lane TEXT,
    max_open INTEGER,
    per_hour INTEGER,
    gpu_per_day INTEGER, -- seconds, instead of the role's; -1: without limit
    banned_at REAL,
    banned_until REAL,
    ban_reason TEXT
) STRICT, WITHOUT ROWID;

-- Every admin action, for `/audit`.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;

-- People's rights as chats last reported them, by place. Their API keys carry them.
CREATE TABLE carried_rights (
    user TEXT NOT NULL,
    place TEXT NOT NULL,
    rights TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (user, place)
) STRICT, WITHOUT ROWID;

-- Bytes of files in requests of the last hour, across all processes.
CREATE TABLE received (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL,
    at REAL NOT NULL,
    size INTEGER NOT NULL
) STRICT;
CREATE INDEX received_of ON received (user, at);
CREATE INDEX received_by_age ON received (at);

-- ---------------------------------------------------------------- web chat

-- The messages of the web chat. (Discord and Telegram store their own.)
CREATE TABLE web_messages (
    chat TEXT NOT NULL,
    message TEXT NOT NULL,
    number INTEGER NOT NULL UNIQUE, -- grows with every change of any message
    place INTEGER NOT NULL, -- orders a chat and never changes
    at REAL NOT NULL,
    words TEXT NOT NULL, -- its text in small letters, for the search
    shown TEXT,
    PRIMARY KEY (chat, message)
) STRICT;
CREATE INDEX web_messages_by_number ON web_messages (chat, number);
CREATE INDEX web_messages_by_place ON web_messages (chat, place);

-- The conversations of the web chat's people. Each is a chat.
CREATE TABLE web_conversations (
    chat TEXT PRIMARY KEY,
    person TEXT NOT NULL,
    name TEXT NOT NULL, -- chosen by the person; empty: its title is made from its first message
    at REAL NOT NULL, -- the time of its newest message
    news INTEGER NOT NULL, -- the number of the bot's newest finished message
    seen INTEGER NOT NULL -- the value of `news` when the person last had it open
) STRICT, WITHOUT ROWID;
CREATE INDEX web_conversations_of ON web_conversations (person, at);

CREATE TABLE web_files (
    chat TEXT NOT NULL,
    message TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    mime TEXT NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (chat, id),
    FOREIGN KEY (chat, message) REFERENCES web_messages (chat, message) ON DELETE CASCADE
) STRICT;
CREATE INDEX web_files_by_message ON web_files (chat, message);
CREATE INDEX web_files_by_id ON web_files (id);

-- The files of results that their owners marked in the gallery.
CREATE TABLE favourites (
    job_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (job_id, number),
    FOREIGN KEY (job_id, number) REFERENCES outputs (job_id, number) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- People invited to the web chat by an admin. They are identified by a token, not by a typed name.
CREATE TABLE web_people (
    id TEXT PRIMARY KEY, -- the row is kept, so that nobody else gets this id and its chat
    name TEXT NOT NULL,
    digest BLOB UNIQUE, -- SHA-256 of the token in their link; NULL: the invitation was revoked
    invited_at REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- ---------------------------------------------------------------- the HTTP API

-- A key belongs to the person who created it, or to the service it was created for.
CREATE TABLE api_keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL, -- begins with "service:" for a service
    user_name TEXT NOT NULL,
    name TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE, -- SHA-256 of the key, which is shown once and not stored
    created_at REAL NOT NULL,
    used_at REAL,
    service INTEGER NOT NULL, -- 1: belongs to a service
    people INTEGER NOT NULL, -- 1: the service's callers name the people behind them
    style TEXT NOT NULL,
    expires_at REAL -- NULL: never
) STRICT;
CREATE INDEX api_keys_of ON api_keys (user);

-- Files that programs upload for later jobs, until they expire.
CREATE TABLE uploads (
    id TEXT PRIMARY KEY, -- random
    user TEXT NOT NULL,
    name TEXT NOT NULL,
    mime TEXT NOT NULL,
    size INTEGER NOT NULL, -- bytes
    created_at REAL NOT NULL,
    expires_at REAL NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX uploads_of ON uploads (user, created_at);
CREATE INDEX uploads_by_age ON uploads (expires_at);

-- How often the links to a job's files were ended. A link is signed with the count at its creation.
CREATE TABLE link_ends (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    ends INTEGER NOT NULL
) STRICT;

-- Which process has an open call for a job. An SDK's retry may only take over a job that has no
-- caller and whose answer was not sent. Without a row, it is the process that accepted the job.
-- 'answering' becomes 'answered' once the answer is sent; a crash between them leaves it in doubt.
CREATE TABLE attendance (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    run TEXT NOT NULL,
    state TEXT NOT NULL
        CHECK (state IN ('here', 'left', 'given up', 'answering', 'answered', 'taken')),
    PRIMARY KEY (job_id, run)
) STRICT, WITHOUT ROWID;

-- ---------------------------------------------------------------- history

-- The operator's history, in buckets of `grain` seconds that start at `at`.
CREATE TABLE history_models (
    grain INTEGER NOT NULL,
    at INTEGER NOT NULL,
    model TEXT NOT NULL,
    done INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    service_s REAL NOT NULL,
    waits TEXT NOT NULL, -- a histogram: classes and their counts, as `12:3 40:1`
    services TEXT NOT NULL, -- a histogram too
    loads INTEGER NOT NULL,
    failed_loads INTEGER NOT NULL,
    load_s REAL NOT NULL,
    evictions INTEGER NOT NULL,
    given INTEGER NOT NULL, -- promises of an end
    kept INTEGER NOT NULL, -- the promises that were kept
    errors TEXT NOT NULL, -- failed jobs by cause, in the form of `waits`
    PRIMARY KEY (grain, at, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE history_hosts (
    grain INTEGER NOT NULL,
    at INTEGER NOT NULL,
    host TEXT NOT NULL,
    run_s REAL NOT NULL,
    loading_s REAL NOT NULL,
    idle_s REAL NOT NULL,
    quiet_s REAL NOT NULL DEFAULT 0, -- in its quiet hours
    yielding_s REAL NOT NULL DEFAULT 0, -- while another program used its GPU
    paused_s REAL NOT NULL DEFAULT 0,
    asleep_s REAL NOT NULL DEFAULT 0,
    down_s REAL NOT NULL,
    loads INTEGER NOT NULL,
    failed_loads INTEGER NOT NULL,
    load_s REAL NOT NULL,
    evictions INTEGER NOT NULL,
    PRIMARY KEY (grain, at, host)
) STRICT, WITHOUT ROWID;

CREATE TABLE history_segments (
    host TEXT NOT NULL,
    begins REAL NOT NULL,
    ends REAL NOT NULL,
    kind TEXT NOT NULL CHECK (
        kind IN ('load', 'run', 'idle', 'quiet', 'yielding', 'paused', 'asleep', 'down')
    ),
    models TEXT NOT NULL, -- one per line
    PRIMARY KEY (host, begins)
) STRICT, WITHOUT ROWID;

-- The jobs that the buckets contain, to find the missing ones after a crash.
CREATE TABLE history_counted (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE
) STRICT;

-- The end first promised to people for their open jobs.
CREATE TABLE history_promises (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    given_at REAL NOT NULL,
    earliest REAL NOT NULL,
    latest REAL NOT NULL
) STRICT;
