"""German texts about the HTTP API and its keys."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "command.key": "Deine Schlüssel für Programme (die HTTP-API)",
    "param.key_action": "new, list oder revoke",
    "param.key_name": "ein Name für einen neuen Schlüssel; die Nummer des Schlüssels, der ungültig werden soll",
    "param.service": "für einen Dienst mit eigenen Limits (Admins)",
    "param.people": "für einen Dienst, dessen Nutzer als einzelne Personen zählen (Admins)",
    "param.key_days": "nach wie vielen Tagen ein neuer Schlüssel abläuft; auch hinter seinem Namen: 30min, 12h, 30d, 2w",
    "param.key_style": "das Programm, für das der Schlüssel ist, falls es etwas Besonderes braucht",
    "refused.no_api": "Hier gibt es keine API: In der Konfiguration fehlt der Abschnitt „api“.",
    "refused.key_in_group": "Ein Schlüssel ist wie ein Passwort, und hier lesen andere mit. Frag mich in einem privaten Chat.",
    "refused.too_many_keys": "Du hast schon {limit} Schlüssel. /key list zeigt sie, /key revoke macht einen ungültig.",
    "refused.which_key": "Welchen Schlüssel? /key list zeigt ihre Nummern.",
    "refused.key_lasts": "„{given}“ ist keine Dauer, nach der ein Schlüssel abläuft. Nenne sie als letztes Wort: 30min, 12h, 30d oder 2w, höchstens 3650 Tage.",
    "refused.no_such_key": "Du hast keinen Schlüssel #{number}. /key list zeigt deine.",
    "refused.which_service": "Ein Dienst braucht einen Namen: /key new n8n --service.",
    "key.new": "Schlüssel #{number}. Er wird nur dieses eine Mal angezeigt; Programme, die ihn haben, handeln in deinem Namen:\n{secret}\nSie senden ihn als „Authorization: Bearer …“. /key revoke {number} macht ihn ungültig.",
    "key.new_service": "Schlüssel #{number} für {person}. Er wird nur dieses eine Mal angezeigt:\n{secret}\nEr hat die Limits einer einzelnen Person, /limit {person} setzt andere, /key revoke {number} macht ihn ungültig.",
    "key.none": "Es gibt keine Schlüssel. /key new erstellt einen.",
    "key.list": "Schlüssel:",
    "key.line": "#{number} · {name} · erstellt {moment}",
    "key.ends": " · läuft ab {moment}",
    "key.used": " · zuletzt benutzt {moment}",
    "key.unused": " · nie benutzt",
    "key.revoked": "Schlüssel #{number} gilt nicht mehr.",
}
