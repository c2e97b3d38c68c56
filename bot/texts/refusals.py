"""The sentence for each reason why a request is refused or has failed."""

from math import ceil

from bot.core.content import Body
from bot.core.refusals import Phrase, Refusal
from bot.texts.catalogue import say, word
from queueing.core.errors import Problem, ProblemKind

OF_MODELS = {  # for models, not for requests
    ProblemKind.MEMORY: "failure.memory_of_model",
    ProblemKind.CRASHED: "failure.crashed_of_model",
    ProblemKind.FAILED: "failure.failed_of_model",
}


def told(problem: Problem, language: str) -> str:
    """Return one or two sentences for the person or admin who asked."""
    values: dict[str, str | float] = dict(problem.values)
    if (field := values.get("field")) is not None:
        values["field"] = word(language, f"field.{field}")
    if problem.what is ProblemKind.UNHEARD:
        values["cause"] = told(Problem.read(str(values.get("cause", ""))), language)
    of_request = f"failure.{problem.what}"
    key = OF_MODELS.get(problem.what, of_request) if problem.unloadable else of_request
    if problem.what is ProblemKind.BUSY and (seconds := values.get("seconds")):
        key, values["minutes"] = "failure.busy_for", ceil(float(seconds) / 60)
    text = word(language, key, **values)
    if problem.attempts > 1:
        text = word(language, "failure.tried", problem=text, count=problem.attempts)
    if problem.unloadable:
        text = word(language, "failure.unloadable", model=problem.unloadable, problem=text)
    return text


def sentence(refusal: Refusal, language: str, command: str = "") -> Body:
    """Return the sentence for a person who called that command."""
    values = {
        name: word(language, value.key, **value.values) if isinstance(value, Phrase) else value
        for name, value in refusal.values.items()
    }
    key = refusal.kind.value.text
    files = ("name", "names") if key.startswith("problem.") else ()
    blank = [name for name in files if values.get(name) == ""]
    values |= {name: word(language, _nameless(key)) for name in blank}
    body = say(language, key, **{"command": command, **values})
    return _capitalised(body) if blank else body


def _nameless(key: str) -> str:
    """Return the words for a file without a name."""
    if key.startswith("problem.sound_"):
        return "file.recording"
    return "file.video" if key == "problem.not_video" else "file.file"


def _capitalised(body: Body) -> Body:
    first, *rest = body
    return (f"{first[:1].upper()}{first[1:]}", *rest) if isinstance(first, str) else body
