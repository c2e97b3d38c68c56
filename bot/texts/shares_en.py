"""The English sentences about how much of the cards people use."""

from collections.abc import Mapping

TEXTS: Mapping[str, str] = {
    "settings.gpu": "GPU time",
    "gpu.used": "you used {used} min today",
    "gpu.used_of": "you used {used} of {limit} min today",
    "gpu.held": " ({held} min more are set aside for your open jobs)",
    "gpu.cost": "Takes about {cost} of your GPU minutes.",
    "refused.gpu": (
        "Your GPU time for today is used up: {used} of {limit} min used, {held} min set aside for"
        " your open jobs. You can ask again {moment:at }."
    ),
    "limit.gpu": "{shown} · GPU today: {used} of {limit} min",
    "limit.gpu_free": "{shown} · GPU today: {used} min",
    "limit.today": "GPU minutes used today:",
    "limit.unused": "No one has used a GPU today.",
    "param.today": "list who used how many GPU minutes today",
    "param.later": "run it when nothing else waits",
    "param.by": "the same, but done by this time of day (--by 8:00)",
    "refused.by": "I can't read “{text}” as a time of day. Write it like this: --by 8:00",
    "param.gpu_minutes": "GPU minutes per day, or “none” for no limit",
}
