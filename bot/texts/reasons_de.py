"""Why a model's jobs wait, in German; the English sentences are the queue's own."""

from datetime import UTC, datetime

from queueing.world import Blocked, Reason


def sentence(reason: Reason) -> str:  # noqa: PLR0911  one return for each reason
    """Return the reason as one sentence without a full stop, for the person who waits."""
    model, other = reason.model, reason.other or "etwas anderes"
    on = "" if reason.host is None else f" auf {reason.host}"
    match reason.why:
        case Blocked.IN_LINE:
            return f"hinter anderen in {model}"
        case Blocked.LOADING:
            return f"{model} wird{on} geladen{_about(reason)}"
        case Blocked.ROOM_BUSY:
            return f"{other} arbeitet{on}, bis der laufende Auftrag endet"
        case Blocked.LOADER_BUSY:
            return f"{other} wird{on} zuerst geladen{_about(reason)}"
        case Blocked.RESERVED | Blocked.GATED:
            return f"{other} wartet länger und ist{on} zuerst dran"
        case Blocked.NO_ROOM:
            return f"andere Programme belegen den Speicher{on}, den {model} braucht"
        case Blocked.PINNED:
            return f"ein Admin hält {other} im Speicher{on}"
        case _:
            return _stopped(reason, model, on)


def _stopped(reason: Reason, model: str, on: str) -> str:  # noqa: PLR0911  as above
    match reason.why:
        case Blocked.OFFLINE if reason.host is None:
            return f"kein Rechner hat {model}"
        case Blocked.OFFLINE:
            since = f" seit {_clock(reason.since)}" if reason.since else ""
            return f"{reason.host} ist{since} nicht erreichbar, kein anderer Rechner hat {model}"
        case Blocked.LOAD_PAUSE:
            return f"{model} ließ sich nicht laden, nächster Versuch{_at(reason)}"
        case Blocked.RETRY_PAUSE:
            return f"Pause nach einem gescheiterten Versuch, der nächste folgt{_at(reason)}"
        case Blocked.ENHANCING:
            return "ein Textmodell verbessert zuerst den Prompt"
        case Blocked.PAUSED:
            return f"{reason.host or model} ist von einem Admin angehalten"
        case Blocked.SUSPECT:
            return (
                f"{reason.other or model} läuft{on} zuerst allein, weil sein Server abgestürzt war"
            )
        case _:
            return "beginnt jetzt"


def _about(reason: Reason) -> str:
    return "" if reason.about_s is None else f", etwa {max(1, round(reason.about_s))} s"


def _at(reason: Reason) -> str:
    return " bald" if reason.until is None else f" um {_clock(reason.until)}"


def _clock(moment: float | None) -> str:
    return datetime.fromtimestamp(moment or 0.0, UTC).strftime("%H:%M UTC")
