"""Explains why a model's jobs wait, in one sentence without a full stop, in every language.

The texts are in the table `reason`. A key is the cause, followed by each known detail for which
there is a text: `offline` without a host, `offline_host` with one.
"""

from collections.abc import Callable, Collection

from bot.core.content import Body, Moment
from bot.texts.catalogue import CATALOGUES, DEFAULT_LANGUAGE, Value, plain, say, word
from queueing.core.snapshot import Reason, WaitCause

DETAILS = ("host", "backend", "other", "since", "until")


def because(reason: Reason, language: str) -> Body:
    """Return the sentence for the person who waits. Moments stay `Moment`s."""
    known = {name: value for name in DETAILS if (value := getattr(reason, name))}
    if reason.why is WaitCause.SUSPECT and reason.other == reason.model:
        del known["other"]
    host = known.get("host")
    values: dict[str, Value] = {
        "model": reason.model,
        "host": host or word(language, "reason.its_host"),
        "on": word(language, "reason.on", host=host) if host else "",
        "other": word(language, "reason.another"),
    }
    for name, value in known.items():
        values[name] = Moment(value, clock=True) if isinstance(value, float) else value
    return say(language, _key(reason.why, known), **values)


def sentence(reason: Reason, language: str, clock: Callable[[float], str]) -> str:
    """Return the sentence as plain text, with moments formatted by `clock`."""
    body = because(reason, language)
    return "".join(clock(each.at) if isinstance(each, Moment) else plain((each,)) for each in body)


def _key(why: WaitCause, known: Collection[str]) -> str:
    """Return the key of the text that names the most of the known details."""
    key = f"reason.{why.replace('-', '_')}"
    for name in known:
        if f"{key}_{name}" in CATALOGUES[DEFAULT_LANGUAGE]:
            key += f"_{name}"
    return key
