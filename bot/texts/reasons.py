"""Why a model's jobs wait, in German; the English sentences are the queue's own."""

from queueing.core.reasons import Words
from queueing.core.snapshot import Reason, WaitCause


def words(reason: Reason) -> Words:  # noqa: PLR0911  # one return for each reason
    """Return the reason as one sentence without a full stop, for the person who waits."""
    model, other = reason.model, reason.other or "etwas anderes"
    on = "" if reason.host is None else f" auf {reason.host}"
    match reason.why:
        case WaitCause.QUEUED:
            return (f"hinter anderen Aufträgen für {model}",)
        case WaitCause.LOADING:
            return (f"{model} wird{on} geladen",)
        case WaitCause.ROOM_BUSY:
            return (f"{other} rechnet{on} noch am laufenden Auftrag",)
        case WaitCause.LOADER_BUSY:
            return (f"{other} wird{on} zuerst geladen",)
        case WaitCause.RESERVED | WaitCause.GATED:
            return (f"{other} wartet länger und ist{on} zuerst dran",)
        case WaitCause.NO_ROOM:
            return (f"andere Programme belegen den Speicher{on}, den {model} braucht",)
        case WaitCause.PINNED:
            return (f"ein Admin hält {other} im Speicher{on}",)
        case WaitCause.KEPT:
            stays = f"{other} bleibt im Speicher{on}, weil sein Server es nicht entladen kann"
            change = f"der Betreiber kann ihn beenden oder vram von {other} kleiner angeben"
            return (f"{stays}: {change}",)
        case _:
            return _stopped(reason, model, on)


def _stopped(reason: Reason, model: str, on: str) -> Words:  # noqa: C901, PLR0911  # as above
    match reason.why:
        case WaitCause.OFFLINE if reason.host is None:
            return (f"kein Rechner hat {model}",)
        case WaitCause.OFFLINE:
            since: Words = (" seit ", reason.since) if reason.since else ()
            other = "Server" if reason.backend else "Rechner"
            nowhere = f"nicht erreichbar, und kein anderer {other} hat {model}"
            away = f"{reason.backend} auf {reason.host}" if reason.backend else reason.host
            return (f"{away} ist", *since, f" {nowhere}")
        case WaitCause.LOAD_PAUSE:
            return (f"{model} ließ sich nicht laden, nächster Versuch", *_at(reason))
        case WaitCause.RETRY_PAUSE:
            return ("Pause nach einem gescheiterten Versuch, der nächste folgt", *_at(reason))
        case WaitCause.ENHANCING:
            return ("ein Textmodell verbessert zuerst den Prompt",)
        case WaitCause.HELD:
            return ("zuerst wird aufgeschrieben, was gesagt wurde",)
        case WaitCause.PAUSED:
            return (f"ein Admin hat {reason.host or model} angehalten",)
        case WaitCause.QUIET | WaitCause.QUIET_SOON | WaitCause.YIELDING:
            return _resting(reason)
        case WaitCause.WAKING | WaitCause.ASLEEP:
            return _sleeping(reason)
        case WaitCause.SUSPECT:
            alone = f"{reason.other or model} läuft{on} zuerst allein"
            return (f"{alone}, weil sein Server zuletzt abgestürzt ist",)
        case _:
            return _later(reason)


def _later(reason: Reason) -> Words:
    if reason.why is WaitCause.STARTING:
        return ("beginnt jetzt",)
    if reason.until is None:
        return ("läuft, wenn sonst nichts wartet",)
    if reason.why is WaitCause.LATE:
        return ("anderes kommt vorher dran, es könnte bis ", reason.until, " nicht fertig sein")
    return (
        "läuft, wenn sonst nichts wartet, und beginnt rechtzeitig, um bis ",
        reason.until,
        " fertig zu sein",
    )


def _sleeping(reason: Reason) -> Words:
    host = reason.host or "sein Rechner"
    if reason.why is WaitCause.ASLEEP:
        return (f"{host} schläft, bis er gebraucht wird",)
    return (f"{host} wacht gerade auf",)


def _resting(reason: Reason) -> Words:
    host = reason.host or "sein Rechner"
    since: Words = () if reason.since is None else (reason.since,)
    until: Words = () if reason.until is None else (" bis ", reason.until)
    if reason.why is WaitCause.QUIET:
        return (f"{host} hat Ruhezeit", *until)
    if reason.why is WaitCause.QUIET_SOON:
        begins: Words = (" von ", *since) if since else ()
        return (f"die Zeit reicht nicht mehr vor der Ruhezeit auf {host}", *begins, *until)
    seen: Words = (" seit ", *since) if since else ()
    return ("ein anderes Programm nutzt", *seen, f" die Grafikkarte von {host}")


def _at(reason: Reason) -> Words:
    return (" bald",) if reason.until is None else (" um ", reason.until)
