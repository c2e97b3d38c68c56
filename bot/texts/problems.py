"""What went wrong, in words; pure."""

from math import ceil

from bot.texts.catalogue import word
from queueing.core.problems import Problem, What

OF_MODELS = {  # not of any request
    What.MEMORY: "failure.memory_of_model",
    What.CRASHED: "failure.crashed_of_model",
    What.FAILED: "failure.failed_of_model",
}


def told(problem: Problem, language: str) -> str:
    """Return one sentence or two for the person, or the admin, who asked."""
    values: dict[str, str | float] = dict(problem.values)
    if (field := values.get("field")) is not None:
        values["field"] = word(language, f"field.{field}")
    if problem.what is What.UNHEARD:
        values["cause"] = told(Problem.read(str(values.get("cause", ""))), language)
    of_request = f"failure.{problem.what}"
    key = OF_MODELS.get(problem.what, of_request) if problem.unloadable else of_request
    if problem.what is What.BUSY and (seconds := values.get("seconds")):
        key, values["minutes"] = "failure.busy_for", ceil(float(seconds) / 60)
    text = word(language, key, **values)
    if problem.attempts > 1:
        text = word(language, "failure.tried", problem=text, count=problem.attempts)
    if problem.unloadable:
        text = word(language, "failure.unloadable", model=problem.unloadable, problem=text)
    return text
