"""The SQL statements of the web chat, in the dialect that SQLite and PostgreSQL share."""

# ruff: noqa: S608 - every name put into these texts is a constant; values are always parameters

_ENTRY = "chat, message, number, place, at, shown"
NUMBERING = "web chat"
"""The lock for numbering messages. Pages continue from the highest number they have seen."""
NEXT_NUMBER = "SELECT coalesce(max(number), 0) + 1 FROM web_messages"
ADD_ENTRY = f"INSERT INTO web_messages ({_ENTRY}, words) VALUES (?, ?, ?, ?, ?, ?, ?)"
ENTRY = f"SELECT {_ENTRY} FROM web_messages WHERE chat = ? AND message = ?"
NEWEST_ENTRIES = (
    f"SELECT {_ENTRY} FROM web_messages WHERE chat = ? AND shown IS NOT NULL"
    " ORDER BY place DESC LIMIT ?"
)
CHANGED_ENTRIES = (
    f"SELECT {_ENTRY} FROM web_messages WHERE chat = ? AND number > ? ORDER BY number LIMIT ?"
)
EARLIER_ENTRIES = (
    f"SELECT {_ENTRY} FROM web_messages WHERE chat = ? AND place < ? AND shown IS NOT NULL"
    " ORDER BY place DESC LIMIT ?"
)
CHANGE_ENTRY = (
    f"UPDATE web_messages SET number = ({NEXT_NUMBER}), shown = ?, words = ?"
    " WHERE chat = ? AND message = ? AND shown IS NOT NULL"
)
SHOWN_IN_CHAT = "SELECT message FROM web_messages WHERE chat = ? AND shown IS NOT NULL"
DROP_OLDEST_ENTRIES = (
    "DELETE FROM web_messages WHERE chat = ? AND place <= (SELECT place FROM web_messages"
    " WHERE chat = ? ORDER BY place DESC LIMIT 1 OFFSET ?)"
)
_OLD = """at < ? AND NOT EXISTS (
    SELECT 1 FROM messages WHERE messages.platform = 'web'
    AND messages.chat = web_messages.chat AND messages.message = web_messages.message
)"""
_LAST = "(SELECT max(number) FROM web_messages)"
OLD_LAST_ENTRY = (
    f"SELECT chat, message FROM web_messages WHERE number = {_LAST} AND shown IS NOT NULL"
    f" AND {_OLD}"
)
DROP_OLD_ENTRIES = (
    "DELETE FROM web_messages WHERE number IN (SELECT number FROM web_messages"
    f" WHERE number < {_LAST} AND {_OLD} LIMIT ?)"
)

PUT_FILE = (
    "INSERT INTO web_files (chat, message, id, name, mime, data) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (chat, id) DO UPDATE SET message = excluded.message, name = excluded.name,"
    " mime = excluded.mime, data = excluded.data"
)
FILE = "SELECT name, mime, data FROM web_files WHERE chat = ? AND id = ?"
FILE_HEAD = (
    "SELECT chat, web_files.name, mime, length(data) FROM web_files"
    " JOIN web_conversations USING (chat) WHERE person = ? AND id = ?"
)
FILES_SIZE = "SELECT coalesce(sum(length(data)), 0) FROM web_files"
# Every change of a message rewrites its files, so files are as old as their message's number.
FILES_NEWEST_FIRST = (
    "SELECT chat, message, length(data) FROM web_files JOIN web_messages USING (chat, message)"
    " ORDER BY number DESC"
)
DROP_FILES = "DELETE FROM web_files WHERE chat = ? AND message = ?"

# ---------------------------------------------------------------- the gallery

_SEEN_OR_HEARD = "number > 0 AND substr(mime, 1, 6) IN ('image/', 'video/', 'audio/')"
# An ended link means that its owner deleted the result in a chat.
_RESULTS = f"""SELECT id, model, request, finished_at FROM jobs
    WHERE owner = ? AND bulk = 0 AND parent IS NULL AND state = 'completed' AND id < ?
    AND EXISTS (SELECT 1 FROM outputs WHERE job_id = jobs.id AND {_SEEN_OR_HEARD})
    AND NOT EXISTS (SELECT 1 FROM link_ends WHERE job_id = jobs.id)"""
RESULT_FILES = (
    "SELECT id, model, request, finished_at, number, name, mime, length(data),"
    " EXISTS (SELECT 1 FROM favourites WHERE favourites.job_id = id"
    " AND favourites.number = outputs.number)"
    f" FROM ({_RESULTS} ORDER BY id DESC LIMIT ?) AS results"
    f" JOIN outputs ON outputs.job_id = id WHERE {_SEEN_OR_HEARD} ORDER BY id DESC, number"
)
RESULT_MODELS = f"SELECT DISTINCT model FROM ({_RESULTS}) AS results ORDER BY model"
MARK = (
    "INSERT INTO favourites (job_id, number) SELECT job_id, number FROM outputs"
    " WHERE job_id = ? AND number = ? ON CONFLICT (job_id, number) DO NOTHING"
)
UNMARK = "DELETE FROM favourites WHERE job_id = ? AND number = ?"

# ------------------------------------------------------------ conversations

NOTE_MESSAGE = (
    "INSERT INTO web_conversations (chat, person, name, at, news, seen) VALUES (?, ?, '', ?, ?, 0)"
    " ON CONFLICT (chat) DO UPDATE SET at = excluded.at, news = CASE WHEN excluded.news > 0"
    " THEN excluded.news ELSE web_conversations.news END"
)
NOTE_NEWS = "UPDATE web_conversations SET news = ? WHERE chat = ?"
NOTE_SEEN = "UPDATE web_conversations SET seen = news WHERE chat = ?"
RENAME_CONVERSATION = "UPDATE web_conversations SET name = ? WHERE chat = ?"
_FIRST = (
    "(SELECT shown FROM web_messages WHERE web_messages.chat = web_conversations.chat"
    " AND shown IS NOT NULL ORDER BY place LIMIT 1)"
)
_SHOWN = (
    "EXISTS (SELECT 1 FROM web_messages WHERE web_messages.chat = web_conversations.chat"
    " AND shown IS NOT NULL)"
)
CONVERSATIONS = (
    "SELECT chat, name, at, CASE WHEN news > seen THEN news ELSE 0 END,"
    f" {_FIRST} FROM web_conversations WHERE person = ?"
    f" AND {_SHOWN} ORDER BY at DESC, chat LIMIT ?"
)
# A text that changes when the words are removed from it contains them.
CHATS_WITH_WORDS = (
    "SELECT DISTINCT chat FROM web_messages JOIN web_conversations USING (chat)"
    " WHERE person = ? AND replace(words, ?, '') <> words"
)
CHATS_OF = "SELECT chat FROM web_conversations WHERE person = ?"
HAS_CONVERSATION = "SELECT 1 FROM web_conversations WHERE chat = ?"
COUNT_CONVERSATIONS = "SELECT count(*) FROM web_conversations WHERE person = ?"
IN_WORK = (
    "SELECT 1 FROM messages JOIN jobs ON jobs.id = messages.job_id"
    " WHERE messages.platform = 'web' AND messages.chat = ? AND jobs.acknowledged = 0 LIMIT 1"
)
DROP_EMPTY_CONVERSATION = f"DELETE FROM web_conversations WHERE chat = ? AND NOT {_SHOWN}"
DROP_EMPTY_CONVERSATIONS = f"DELETE FROM web_conversations WHERE NOT {_SHOWN}"
