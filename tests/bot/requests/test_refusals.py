"""Every reason not to accept a request is a value of its own, and a sentence in each language."""

from typing import get_args

from backends.media.documents import Fault
from backends.media.sounds import SoundFault
from bot.core import refusals
from bot.core.refusals import Refusal
from bot.texts.catalogue import CATALOGUES, plain, say
from bot.texts.refusals import RefusalContext, sentence
from queueing.core.errors import (
    LimitReached,
    NoServer,
    NotAccepting,
    NotCapable,
    Refused,
    UnknownModel,
)
from queueing.core.requests import Capability

NOW = 1_000_000.0
REFUSALS: tuple[Refusal, ...] = (
    refusals.Banned(until=None, reason=None),
    refusals.Banned(until=NOW, reason="rude"),
    refusals.UnwantedWord(word="snow crash"),
    refusals.QuotaUsedUp(limit=3, free_at=NOW),
    refusals.FilesUsedUp(free_at=NOW),
    refusals.GpuUsedUp(limit_s=1200.0, used_s=360.0, held_s=900.0, free_at=NOW),
    refusals.TooManyOpen(limit=10, done_at=None),
    refusals.TooManyOpen(limit=10, done_at=NOW),
    refusals.QueueFull(model="flux", limit=100, again_at=None),
    refusals.QueueFull(model="flux", limit=100, again_at=NOW),
    refusals.UnknownStyle(name="noir", known=()),
    refusals.UnknownStyle(name="noir", known=("film noir", "comic")),
    refusals.OptionNotTaken(model="flux", option="negative"),
    *(
        refusals.BeyondModel(model="flux", what=what, asked=4e6, most=2e6)
        for what in ("pixels", "steps", "count", "seconds", "frames", "memory")
    ),
    *(refusals.NoModel(capability=each) for each in Capability),
    refusals.NoImage(),
    refusals.NoMask(),
    refusals.NoRecording(),
    refusals.NoText(),
    refusals.TextTooLong(length=5000, limit=4000),
    refusals.TooManyImages(count=5, limit=4),
    refusals.NotAImage(),
    refusals.ImageTooHeavy(size_mb=21, limit_mb=20),
    refusals.TooManyPixels(limit=40),
    refusals.LargeEnough(limit=16),
    refusals.NotText(name="a.exe"),
    refusals.TextTooHeavy(name="a.txt", limit_kb=200),
    refusals.FilesTooLong(length=30000, limit=20000),
    *(refusals.NotASound(name="a.ogg", why=why, minutes=30) for why in SoundFault),
    refusals.NotAVideo(name="a.mp4"),
    refusals.NotWatched(names="a.mp4", model=None),
    refusals.NotWatched(names="", model="qwen"),
    *(refusals.PaperUnread(name="a.pdf", why=why) for why in (*Fault, "scanned")),
    refusals.FileTooHeavy(name="a.ogg", size_mb=30, limit_mb=20),
    refusals.NoLongerWaiting(job_id=7),
    UnknownModel("flx", nearest=("flux",)),
    UnknownModel("xyz", able=("qwen",)),
    UnknownModel("xyz"),
    NotCapable("flux", Capability.VISION, able=("qwen",)),
    NotCapable("flux", Capability.UPSCALE),
    NoServer("flux", None),
    NoServer("flux", NOW),
    LimitReached("owner", 10),
    NotAccepting("the disk is full", full_disk=True),
    NotAccepting("damaged"),
)


def test_no_reason_is_left_out_here() -> None:
    """A new reason would reach people as "Usher is restarting"."""
    made = {type(each) for each in REFUSALS}
    assert made == {*get_args(Refusal), *Refused.__subclasses__()} - {Refused}


def test_each_reason_has_its_own_sentence() -> None:
    """A person would be told nothing, or that something else is wrong."""
    for language in CATALOGUES:
        for refusal in REFUSALS:
            key, values = sentence(refusal, RefusalContext(language, ("flux", "qwen"), "ask"))
            text = plain(say(language, key, **values))
            assert len(text) > 10, refusal
            assert "None" not in text, refusal
            assert (key == "refused.not_accepting") == (
                isinstance(refusal, NotAccepting) and not refusal.full_disk
            ), refusal


def test_a_sentence_holds_the_numbers_and_names_of_its_reason() -> None:
    """People would not know what to change, or when to come back."""
    for language in CATALOGUES:
        for refusal, told in (
            (refusals.QuotaUsedUp(limit=37, free_at=NOW), "37"),
            (refusals.QueueFull(model="flux", limit=100, again_at=NOW), "100"),
            (refusals.GpuUsedUp(limit_s=1200, used_s=360, held_s=900, free_at=NOW), "20"),
            (refusals.UnwantedWord(word="snow crash"), "snow crash"),
            (refusals.TextTooLong(length=5000, limit=4000), "5000"),
            (refusals.UnknownStyle(name="x", known=("comic",)), "comic"),
            (UnknownModel("flx", nearest=("flux",)), "flux"),
        ):
            key, values = sentence(refusal, RefusalContext(language, ("flux", "qwen"), "ask"))
            assert told in plain(say(language, key, **values)), language
