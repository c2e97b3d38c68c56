"""The sentence for each reason why a request is not accepted, or has failed."""

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple

from bot.core.content import Moment
from bot.core.refusals import (
    Banned,
    BeyondModel,
    FilesTooLong,
    FilesUsedUp,
    FileTooHeavy,
    GpuUsedUp,
    ImageTooHeavy,
    LargeEnough,
    NoImage,
    NoLongerWaiting,
    NoMask,
    NoModel,
    NoRecording,
    NotAImage,
    NotASound,
    NotAVideo,
    NoText,
    NotText,
    NotWatched,
    OptionNotTaken,
    PaperUnread,
    QueueFull,
    QuotaUsedUp,
    Refusal,
    TextTooHeavy,
    TextTooLong,
    TooManyImages,
    TooManyOpen,
    TooManyPixels,
    UnknownStyle,
    UnwantedWord,
)
from bot.texts.catalogue import Value, minutes, word
from queueing.core.errors import (
    LimitReached,
    NoServer,
    NotAccepting,
    NotCapable,
    Problem,
    ProblemKind,
    UnknownModel,
)
from queueing.core.requests import Capability

OF_MODELS = {  # not of any request
    ProblemKind.MEMORY: "failure.memory_of_model",
    ProblemKind.CRASHED: "failure.crashed_of_model",
    ProblemKind.FAILED: "failure.failed_of_model",
}


def told(problem: Problem, language: str) -> str:
    """Return one sentence or two for the person, or the admin, who asked."""
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


_NAMED = 12
_NAME_SHOWN = 60


_NONE: Mapping[Capability, str] = {
    Capability.VISION: "refused.cannot_see",
    Capability.IMAGE_EDIT: "refused.none_edits",
    Capability.TEXT_TO_VIDEO: "refused.none_videos",
    Capability.IMAGE_TO_VIDEO: "refused.none_videos_images",
    Capability.TEXT_TO_AUDIO: "refused.none_plays",
    Capability.TEXT_TO_SPEECH: "refused.cannot_speak",
    Capability.SPEECH_TO_TEXT: "refused.cannot_hear",
}


_BEYOND: Mapping[str, str] = {
    "pixels": "refused.beyond_pixels",
    "steps": "refused.beyond_steps",
    "count": "refused.beyond_count",
    "seconds": "refused.beyond_seconds",
    "frames": "refused.beyond_frames",
    "memory": "refused.beyond_memory",
}


class Sentence(NamedTuple):
    """The key of a text and its values; "problem.…" says what is wrong with a call's form."""

    key: str
    values: Mapping[str, Value] = {}


class RefusalContext(NamedTuple):
    """What a sentence needs beside its refusal: the models there are, and what was called."""

    language: str
    models: Sequence[str]
    command: str


def sentence(refusal: Refusal, told: RefusalContext) -> Sentence:
    """Return what a person is told, the same for reasons they cannot change."""
    return _SENTENCES.get(type(refusal), _not_accepting)(refusal, told)


def _banned(refusal: Banned, _: RefusalContext) -> Sentence:
    reason = f" ({refusal.reason})" if refusal.reason else ""
    if refusal.until is None:
        return Sentence("refused.banned", {"reason": reason})
    values: dict[str, Value] = {"reason": reason, "moment": Moment(refusal.until)}
    return Sentence("refused.banned_until", values)


def _unwanted(refusal: UnwantedWord, _: RefusalContext) -> Sentence:
    return Sentence("refused.word", {"word": refusal.word})


def _quota(refusal: QuotaUsedUp, _: RefusalContext) -> Sentence:
    return Sentence("refused.quota", {"limit": refusal.limit, "moment": Moment(refusal.free_at)})


def _files(refusal: FilesUsedUp, _: RefusalContext) -> Sentence:
    return Sentence("refused.files", {"moment": Moment(refusal.free_at)})


def _gpu(refusal: GpuUsedUp, told: RefusalContext) -> Sentence:
    values: dict[str, Value] = {
        "used": minutes(refusal.used_s, told.language),
        "limit": minutes(refusal.limit_s, told.language),
        "held": minutes(refusal.held_s, told.language),
        "moment": Moment(refusal.free_at),
    }
    return Sentence("refused.gpu", values)


def _too_many(refusal: TooManyOpen, _: RefusalContext) -> Sentence:
    if refusal.done_at is None:
        return Sentence("refused.limit_owner", {"limit": refusal.limit})
    values: dict[str, Value] = {"limit": refusal.limit, "moment": Moment(refusal.done_at)}
    return Sentence("refused.limit_owner_until", values)


def _queue_full(refusal: QueueFull, _: RefusalContext) -> Sentence:
    values: dict[str, Value] = {"model": refusal.model, "limit": refusal.limit}
    if refusal.again_at is None:
        return Sentence("refused.queue_stands", values)
    return Sentence("refused.queue_full", {**values, "moment": Moment(refusal.again_at)})


def _no_model(refusal: NoModel, told: RefusalContext) -> Sentence:
    if told.command == "transcribe":
        return Sentence("refused.none_listens")
    return Sentence(_NONE.get(refusal.capability, "refused.no_model"))


def _style(refusal: UnknownStyle, told: RefusalContext) -> Sentence:
    if not refusal.known:
        return Sentence("styles.none")
    hint = word(told.language, "hint.models", names=", ".join(refusal.known))
    return Sentence("refused.unknown_style", {"name": refusal.name[:_NAME_SHOWN], "hint": hint})


def _option(refusal: OptionNotTaken, _: RefusalContext) -> Sentence:
    values = {"model": refusal.model, "option": refusal.option}
    return Sentence("refused.option_unsupported", values)


def _beyond(refusal: BeyondModel, _: RefusalContext) -> Sentence:
    numbers = {"asked": refusal.asked, "most": refusal.most}
    if refusal.what in {"pixels", "memory"}:
        numbers = {name: float(f"{value / 1e6:.3g}") for name, value in numbers.items()}
    values = {"model": refusal.model, **{name: f"{n:g}" for name, n in numbers.items()}}
    return Sentence(_BEYOND[refusal.what], values)


def _no_image(_refusal: NoImage, _: RefusalContext) -> Sentence:
    return Sentence("problem.no_image")


def _no_mask(_refusal: NoMask, _: RefusalContext) -> Sentence:
    return Sentence("problem.no_mask")


def _no_recording(_refusal: NoRecording, _: RefusalContext) -> Sentence:
    return Sentence("problem.no_recording")


def _no_text(_refusal: NoText, _: RefusalContext) -> Sentence:
    return Sentence("problem.empty")


def _too_long(refusal: TextTooLong, _: RefusalContext) -> Sentence:
    return Sentence("problem.too_long", {"length": refusal.length, "limit": refusal.limit})


def _too_many_images(refusal: TooManyImages, told: RefusalContext) -> Sentence:
    values: dict[str, Value] = {"count": refusal.count, "most": refusal.limit}
    values["command"] = told.command
    return Sentence("problem.too_many_images", values)


def _no_longer(refusal: NoLongerWaiting, _: RefusalContext) -> Sentence:
    return Sentence("album.too_late", {"job": refusal.job_id})


def _not_image(_refusal: NotAImage, _: RefusalContext) -> Sentence:
    return Sentence("problem.not_image")


def _heavy_image(refusal: ImageTooHeavy, _: RefusalContext) -> Sentence:
    values = {"size": refusal.size_mb, "limit": refusal.limit_mb}
    return Sentence("problem.image_bytes", values)


def _pixels(refusal: TooManyPixels, _: RefusalContext) -> Sentence:
    return Sentence("problem.image_pixels", {"limit": refusal.limit})


def _large_enough(refusal: LargeEnough, _: RefusalContext) -> Sentence:
    return Sentence("refused.large_enough", {"limit": refusal.limit})


def _not_text(refusal: NotText, _: RefusalContext) -> Sentence:
    return Sentence("problem.not_text", {"name": refusal.name})


def _heavy_text(refusal: TextTooHeavy, _: RefusalContext) -> Sentence:
    return Sentence("problem.text_bytes", {"name": refusal.name, "limit": refusal.limit_kb})


def _files_too_long(refusal: FilesTooLong, _: RefusalContext) -> Sentence:
    return Sentence("problem.text_too_long", {"length": refusal.length, "limit": refusal.limit})


def _not_sound(refusal: NotASound, _: RefusalContext) -> Sentence:
    key = f"problem.sound_{refusal.why.replace('-', '_')}"
    return Sentence(key, {"name": refusal.name, "minutes": refusal.minutes})


def _not_video(refusal: NotAVideo, _: RefusalContext) -> Sentence:
    return Sentence("problem.not_video", {"name": refusal.name})


def _not_watched(refusal: NotWatched, _: RefusalContext) -> Sentence:
    names = f" ({refusal.names})" if refusal.names else ""
    if refusal.model is None:
        return Sentence("problem.not_watched", {"names": names})
    return Sentence("problem.not_watched_by", {"names": names, "model": refusal.model})


def _unread(refusal: PaperUnread, _: RefusalContext) -> Sentence:
    return Sentence(f"problem.paper_{refusal.why.replace('-', '_')}", {"name": refusal.name})


def _heavy_file(refusal: FileTooHeavy, _: RefusalContext) -> Sentence:
    values: dict[str, Value] = {"name": refusal.name, "size": refusal.size_mb}
    return Sentence("problem.file_bytes", {**values, "limit": refusal.limit_mb})


def _unknown_model(refusal: UnknownModel, told: RefusalContext) -> Sentence:
    """Name the model that was perhaps meant, otherwise those with the capability."""
    if refusal.nearest:
        hint = word(told.language, "hint.did_you_mean", names=", ".join(refusal.nearest))
    else:
        names = ", ".join((refusal.able or tuple(told.models))[:_NAMED])
        hint = word(told.language, "hint.models", names=names)
    return Sentence("refused.unknown_model", {"name": refusal.name[:_NAME_SHOWN], "hint": hint})


def _not_capable(refusal: NotCapable, told: RefusalContext) -> Sentence:
    names = ", ".join(refusal.able[:_NAMED])
    hint = f" {word(told.language, 'hint.able', names=names)}" if names else ""
    unable = word(told.language, f"unable.{refusal.capability}")
    values = {"model": refusal.model, "unable": unable, "hint": hint}
    return Sentence("refused.not_capable", values)


def _no_server(refusal: NoServer, _: RefusalContext) -> Sentence:
    if refusal.again_at is None:
        return Sentence("refused.no_server", {"model": refusal.model})
    values: dict[str, Value] = {"model": refusal.model, "moment": Moment(refusal.again_at)}
    return Sentence("refused.not_loadable", values)


def _limit(refusal: LimitReached, _: RefusalContext) -> Sentence:
    return Sentence("refused.limit_owner", {"limit": refusal.limit})


def _not_accepting(refusal: Refusal, _: RefusalContext) -> Sentence:
    full = isinstance(refusal, NotAccepting) and refusal.full_disk
    return Sentence("refused.full_disk" if full else "refused.not_accepting")


_SENTENCES: Mapping[type, Callable[[Any, RefusalContext], Sentence]] = {
    Banned: _banned,
    BeyondModel: _beyond,
    FilesUsedUp: _files,
    FilesTooLong: _files_too_long,
    GpuUsedUp: _gpu,
    LargeEnough: _large_enough,
    LimitReached: _limit,
    QueueFull: _queue_full,
    NoMask: _no_mask,
    NoModel: _no_model,
    NoRecording: _no_recording,
    NoImage: _no_image,
    NoLongerWaiting: _no_longer,
    NoServer: _no_server,
    NoText: _no_text,
    NotAccepting: _not_accepting,
    NotAImage: _not_image,
    NotAVideo: _not_video,
    NotASound: _not_sound,
    NotWatched: _not_watched,
    PaperUnread: _unread,
    FileTooHeavy: _heavy_file,
    NotCapable: _not_capable,
    NotText: _not_text,
    OptionNotTaken: _option,
    ImageTooHeavy: _heavy_image,
    QuotaUsedUp: _quota,
    TextTooHeavy: _heavy_text,
    TextTooLong: _too_long,
    TooManyPixels: _pixels,
    TooManyOpen: _too_many,
    TooManyImages: _too_many_images,
    UnknownModel: _unknown_model,
    UnknownStyle: _style,
    UnwantedWord: _unwanted,
}
