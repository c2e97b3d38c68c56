"""GPU minutes as people read them: what they used, and what a job will take."""

from bot.core.content import Body
from bot.texts.catalogue import join, say, word
from queueing.core.jobs import Job
from queueing.core.status import GpuTime

COSTLY_S = 60.0  # a limited person is told what a job takes from here on
_A_FEW_S = 600.0  # below it, a tenth of a minute counts


def minutes(seconds: float, language: str) -> str:
    """Return seconds as minutes, with a decimal if there are only a few."""
    if seconds >= _A_FEW_S:
        return f"{seconds / 60:.0f}"
    number = f"{seconds / 60:.1f}".removesuffix(".0")
    return number.replace(".", word(language, "number.point"))


def used_today(time: GpuTime, limit_s: float | None, language: str) -> Body:
    """Return what a person used today, of how much, and what is held for open jobs."""
    used = minutes(time.used_s, language)
    if limit_s is None:
        return say(language, "gpu.used", used=used)
    body = say(language, "gpu.used_of", used=used, limit=minutes(limit_s, language))
    if time.held_s:
        body += say(language, "gpu.held", held=minutes(time.held_s, language))
    return join(body)


def cost(job: Job, language: str) -> Body:
    """Return what a job will take of its owner's limited time, on a line of its own; often empty."""
    if job.gpu_s < COSTLY_S:
        return ()
    return ("\n", *say(language, "gpu.cost", cost=minutes(job.gpu_s, language)))
