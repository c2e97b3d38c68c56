"""SQL statements for people, the audit log, and invitations to the web chat.

Written in the dialect that SQLite and PostgreSQL share. "user" is a reserved word there.
"""

from collections.abc import Sequence

# ruff: noqa: S608 - every name put into these texts is a constant; values are always parameters

PERSON_COLUMNS = (
    '"user", language, image_model, ask_model, size, style, lane, max_open, per_hour, banned_at,'
    " banned_until, ban_reason, ask_model_at, edit_model, video_model, music_model, speak_model,"
    " transcribe_model, aloud, gpu_per_day"
)
_SETTINGS = PERSON_COLUMNS.split(", ")[1:]
_OWN = (
    "language", "image_model", "ask_model", "size", "style", "ask_model_at", "edit_model",
    "video_model", "music_model", "speak_model", "transcribe_model", "aloud",
)  # fmt: skip

# ---------------------------------------------------------------- people

_SET_BY_ADMINS = ("lane", "max_open", "per_hour", "banned_at")

PERSON = f'SELECT {PERSON_COLUMNS} FROM people WHERE "user" = ?'
PEOPLE_SET_BY_ADMINS = (
    f"SELECT {PERSON_COLUMNS} FROM people WHERE "
    + " OR ".join(f"{column} IS NOT NULL" for column in _SET_BY_ADMINS)
    + ' ORDER BY "user"'
)
FORGET_CHOICES = (
    f'UPDATE people SET {", ".join(f"{column} = NULL" for column in _OWN)} WHERE "user" = ?'
)
DELETE_EMPTY_PERSON = 'DELETE FROM people WHERE "user" = ? AND ' + " AND ".join(
    f"{column} IS NULL" for column in _SETTINGS
)


def put_settings(columns: Sequence[str]) -> str:
    """Build the statement that sets these columns of a person and keeps all others."""
    unknown = set(columns).difference(_SETTINGS)
    if unknown:
        raise ValueError(f"unknown settings of a person: {sorted(unknown)}")
    return (
        f'INSERT INTO people ("user", {", ".join(columns)}) VALUES (?{", ?" * len(columns)})'
        ' ON CONFLICT ("user") DO UPDATE SET '
        + ", ".join(f"{column} = excluded.{column}" for column in columns)
        + f" RETURNING {PERSON_COLUMNS}"
    )


# ---------------------------------------------------------------- the audit log

ADD_ACT = "INSERT INTO audit (at, actor, action, subject, detail) VALUES (?, ?, ?, ?, ?)"
NEWEST_ACTS = "SELECT at, actor, action, subject, detail FROM audit ORDER BY id DESC LIMIT ?"

# ---------------------------------------------------------------- invitations

INVITING = "invitations"
"""Lock for assigning an id, which requires checking first that the name is free."""
INVITED = "SELECT digest, id, name FROM web_people WHERE digest IS NOT NULL"
WEB_IDS = "SELECT id FROM web_people"
INVITE = "INSERT INTO web_people (id, name, digest, invited_at) VALUES (?, ?, ?, ?)"
RENEW_INVITATION = "UPDATE web_people SET digest = ? WHERE id = ?"
UNINVITE = "UPDATE web_people SET digest = NULL WHERE id = ?"

# ---------------------------------------------------------------- API keys

ADDING_KEYS = "API keys"
"""Lock for adding a key, which requires counting the existing ones first."""
_KEY_COLUMNS = 'id, "user", user_name, name, created_at, used_at, people, style, expires_at'
ADD_KEY = (
    'INSERT INTO api_keys ("user", user_name, name, digest, created_at, service, people, style,'
    " expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
KEY_BY_DIGEST = f"SELECT {_KEY_COLUMNS} FROM api_keys WHERE digest = ?"
KEYS_OF = f'SELECT {_KEY_COLUMNS} FROM api_keys WHERE "user" = ? ORDER BY id'
SERVICE_KEYS = f"SELECT {_KEY_COLUMNS} FROM api_keys WHERE service = 1 ORDER BY id"
NOTE_KEY_USED = "UPDATE api_keys SET used_at = ? WHERE id = ? AND coalesce(used_at, 0) < ?"
DROP_EXPIRED_KEYS = 'DELETE FROM api_keys WHERE "user" = ? AND expires_at <= ?'
REVOKE_KEY = 'DELETE FROM api_keys WHERE id = ? AND "user" = ?'
REVOKE_KEYS_OF = 'DELETE FROM api_keys WHERE "user" = ?'

# ---------------------------------------------------------------- rights that keys carry

DROP_OLD_RIGHTS = "DELETE FROM carried_rights WHERE at <= ?"
DROP_RIGHTS = 'DELETE FROM carried_rights WHERE "user" = ? AND place = ?'
ADD_RIGHTS = 'INSERT INTO carried_rights ("user", place, rights, at) VALUES (?, ?, ?, ?)'
RIGHTS_OF = 'SELECT rights FROM carried_rights WHERE "user" = ? AND at > ?'
STALE_RIGHTS = (
    'SELECT "user", place, at FROM carried_rights AS told WHERE at > ? AND at <= ? AND EXISTS'
    ' (SELECT 1 FROM api_keys WHERE api_keys."user" = told."user" AND used_at > ?)'
    " ORDER BY at LIMIT ?"
)
RENEW_RIGHTS = (
    """UPDATE carried_rights SET rights = ?, at = ? WHERE "user" = ? AND place = ? AND at = ?"""
)
DROP_STALE_RIGHTS = 'DELETE FROM carried_rights WHERE "user" = ? AND place = ? AND at = ?'
DELETE_RIGHTS_OF = 'DELETE FROM carried_rights WHERE "user" = ?'

# ---------------------------------------------------------------- files sent ahead

ADDING_UPLOADS = "uploads"
"""Lock for storing a file, because all processes share the limit."""
_UPLOAD_COLUMNS = 'id, "user", name, mime, size, created_at, expires_at'
ADD_UPLOAD = f"INSERT INTO uploads ({_UPLOAD_COLUMNS}, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
UPLOAD = f'SELECT {_UPLOAD_COLUMNS} FROM uploads WHERE id = ? AND "user" = ? AND expires_at > ?'
UPLOAD_DATA = 'SELECT data FROM uploads WHERE id = ? AND "user" = ? AND expires_at > ?'
UPLOADS_OF = (
    f'SELECT {_UPLOAD_COLUMNS} FROM uploads WHERE "user" = ? AND expires_at > ?'
    " ORDER BY created_at DESC, id"
)
UPLOADS_SIZE = "SELECT coalesce(sum(size), 0) FROM uploads"
DELETE_UPLOAD = 'DELETE FROM uploads WHERE id = ? AND "user" = ?'
DELETE_UPLOADS_OF = 'DELETE FROM uploads WHERE "user" = ?'
EXPIRE_UPLOADS = "DELETE FROM uploads WHERE expires_at <= ?"

# ---------------------------------------------------------------- bytes of the last hour

RECEIVING = "received"
"""Lock for counting bytes, which requires adding up the last hour first."""
EXPIRE_RECEIVED = "DELETE FROM received WHERE at <= ?"
RECEIVED_OF = 'SELECT at, size FROM received WHERE "user" = ? ORDER BY at, id'
ADD_RECEIVED = 'INSERT INTO received ("user", at, size) VALUES (?, ?, ?) RETURNING id'
DROP_RECEIVED = "DELETE FROM received WHERE id = ?"

# ---------------------------------------------------------------- ended links

END_LINKS = (
    "INSERT INTO link_ends (job_id, ends) SELECT id, 1 FROM jobs WHERE id = ?"
    " ON CONFLICT (job_id) DO UPDATE SET ends = link_ends.ends + 1"
)
LINK_ENDS = "SELECT ends FROM link_ends WHERE job_id = ?"
