"""English texts about the HTTP API and its keys."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "command.key": "Your keys for programs (the HTTP API)",
    "param.key_action": "new, list or revoke",
    "param.key_name": "a name for a new key; the number of the key to revoke",
    "param.service": "for a service with limits of its own (admins)",
    "param.people": "for a service whose users each count as a person (admins)",
    "param.key_days": "after how many days a new key expires; also behind its name: 30min, 12h, 30d, 2w",
    "param.key_style": "the program the key is for, if it needs special handling",
    "refused.no_api": "The API isn't set up here: the configuration has no “api” section.",
    "refused.key_in_group": "A key works like a password, and others can read this chat. Ask me in a private chat.",
    "refused.too_many_keys": "You already have {limit:key|keys}. /key list shows them; /key revoke revokes one.",
    "refused.which_key": "Which key? /key list shows their numbers.",
    "refused.key_lasts": "“{given}” isn't a time after which a key expires. Say one as the last word: 30min, 12h, 30d or 2w, 3650 days at most.",
    "refused.no_such_key": "You have no key #{number}. /key list shows yours.",
    "refused.which_service": "A service needs a name: /key new n8n --service.",
    "key.new": "Key #{number}. It's shown only once, and programs that have it act as you:\n{secret}\nThey send it as “Authorization: Bearer …”. /key revoke {number} revokes it.",
    "key.new_service": "Key #{number} for {person}. It's shown only once:\n{secret}\nIt has the limits of one person, and /limit {person} sets others; /key revoke {number} revokes it.",
    "key.none": "There are no keys. /key new creates one.",
    "key.list": "Keys:",
    "key.line": "#{number} · {name} · created {moment}",
    "key.ends": " · expires {moment}",
    "key.used": " · last used {moment}",
    "key.unused": " · never used",
    "key.revoked": "Key #{number} no longer works.",
}
