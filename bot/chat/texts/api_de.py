"""German texts about the HTTP API and its keys."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "command.key": "Deine Schlüssel für Programme (die HTTP-API)",
    "param.key_action": "new, list oder revoke",
    "param.key_name": "ein Name für einen neuen Schlüssel; die Nummer des Schlüssels, der enden soll",
    "param.service": "für einen Dienst mit eigenen Grenzen (Admins)",
    "param.people": "für einen Dienst, dessen Nutzer eigene Personen sind (Admins)",
    "param.key_style": "das Programm, für das er ist, wenn es etwas Besonderes braucht",
    "refused.no_api": "Hier gibt es keine API: In der Konfiguration fehlt der Abschnitt „api“.",
    "refused.key_in_group": "Ein Schlüssel ist wie ein Passwort, und hier lesen andere mit. Frag mich in einem privaten Chat.",
    "refused.too_many_keys": "Du hast schon {limit} Schlüssel. /key list zeigt sie, /key revoke beendet einen.",
    "refused.which_key": "Welchen Schlüssel? /key list zeigt ihre Nummern.",
    "refused.no_such_key": "Du hast keinen Schlüssel #{number}. /key list zeigt deine.",
    "refused.which_service": "Ein Dienst braucht einen Namen: /key new n8n --service.",
    "key.new": "Schlüssel #{number}. Er wird nur jetzt gezeigt; Programme, die ihn haben, handeln als du:\n{secret}\nSie senden ihn als „Authorization: Bearer …“. /key revoke {number} beendet ihn.",
    "key.new_service": "Schlüssel #{number} für {person}. Er wird nur jetzt gezeigt:\n{secret}\n/limit {person} setzt die Grenzen, /key revoke {number} beendet ihn.",
    "key.none": "Es gibt keine Schlüssel. /key new erstellt einen.",
    "key.list": "Schlüssel:",
    "key.line": "#{number} · {name} · erstellt {moment}",
    "key.used": " · zuletzt benutzt {moment}",
    "key.unused": " · nie benutzt",
    "key.revoked": "Schlüssel #{number} gilt nicht mehr.",
}
