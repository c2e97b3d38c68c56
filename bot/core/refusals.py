"""Why a request is refused: one table with a row for each reason.

A chat shows the row's sentence; the HTTP API also answers with its status and code. To add a
reason, add a row here and its sentence to every file of `bot/texts/`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import NamedTuple

from bot.core.content import Moment
from queueing.core.errors import (
    LimitReached,
    NoServer,
    NotAccepting,
    NotCapable,
    Refused,
    UnknownModel,
)


class Phrase(NamedTuple):
    """A text used within a sentence, in the reader's language."""

    key: str
    values: Mapping[str, str | float] = {}


FieldValue = str | int | float | Moment | Phrase


class ApiAnswer(NamedTuple):
    """How the API refuses: the status, OpenAI's code, and the invalid parameter.

    `again_s` is the shortest time after which the call may be repeated; None if repeating is
    useless. If the refusal names a moment, the call may be repeated then.
    """

    status: HTTPStatus = HTTPStatus.BAD_REQUEST
    code: str | None = None
    param: str | None = None
    again_s: float | None = None


class Row(NamedTuple):
    """A reason: the key of its sentence, and the fields the sentence shows, with their types.

    A sentence may also show `{command}`, the called command, if the row has no such field. `usage`
    adds the usage of that command.
    """

    text: str
    fields: Mapping[str, type] = {}
    usage: bool = False
    api: ApiAnswer = ApiAnswer()


_JOB = {"job": int}
_NAME = {"name": str}
_MODEL = {"model": str}
_BEYOND = {"model": str, "asked": float, "most": float}
_TOO_MANY = {"count": int, "most": int}
_LENGTH = {"length": int, "limit": int}

_TOO_OFTEN = HTTPStatus.TOO_MANY_REQUESTS
_AWAY = HTTPStatus.SERVICE_UNAVAILABLE
_SOON_S = 5.0  # SDKs repeat a call twice, while other calls wait for the same space
_BANNED = ApiAnswer(HTTPStatus.FORBIDDEN, "banned")
_BEYOND_MODEL = ApiAnswer(code="beyond_model")
_GPU_TIME = ApiAnswer(_TOO_OFTEN, "gpu_time_used_up", again_s=1.0)
_NOT_ACCEPTING = ApiAnswer(_AWAY, "not_accepting")
_NOT_CAPABLE = ApiAnswer(code="not_capable", param="model")
_NO_ACCESS = ApiAnswer(HTTPStatus.FORBIDDEN, "model_not_allowed", param="model")
_NOT_ALLOWED = ApiAnswer(HTTPStatus.FORBIDDEN, "not_allowed")
_NO_SERVER = ApiAnswer(_AWAY, "no_server")
_NOT_LOADABLE = ApiAnswer(_AWAY, "no_server", again_s=1.0)
_QUEUE_FULL = ApiAnswer(_TOO_OFTEN, "queue_full", again_s=_SOON_S)
_QUOTA = ApiAnswer(_TOO_OFTEN, "quota_used_up", again_s=1.0)
_TOO_MANY_OPEN = ApiAnswer(_TOO_OFTEN, "too_many_open", again_s=_SOON_S)
_UNKNOWN_MODEL = ApiAnswer(HTTPStatus.NOT_FOUND, "model_not_found", param="model")


class RefusalKind(Enum):
    """The reasons for a refusal, each with its row of the table."""

    # ---------------------------------------------------------------- who asks, and where
    CHAT_NOT_ALLOWED = Row("refused.chat", {"chat": str})
    ROLE_NEEDED = Row("refused.use")
    CHAT_CLOSED = Row("refused.chat_closed", {"rights": str})
    BANNED = Row("refused.banned", {"reason": str}, api=_BANNED)
    BANNED_UNTIL = Row("refused.banned_until", {"reason": str, "moment": Moment}, api=_BANNED)
    MODEL_NOT_ALLOWED = Row("refused.rule_model", _MODEL, api=_NO_ACCESS)
    MODEL_NOT_ALLOWED_OTHERS = Row(
        "refused.rule_model_others", {"model": str, "names": str}, api=_NO_ACCESS
    )
    KIND_NOT_ALLOWED = Row("refused.rule_kind", {"what": Phrase}, api=_NOT_ALLOWED)
    LORA_NOT_ALLOWED = Row("refused.rule_lora", {"name": str}, api=_NOT_ALLOWED)
    TOO_MUCH = Row("refused.rule_most", {"asked": float, "most": Phrase}, api=_NOT_ALLOWED)
    PRIVATE_ONLY = Row("refused.rule_private")
    PRIVATE_JOB = Row("refused.rule_private_job", _JOB)
    START_FIRST = Row("refused.rule_private_start", {"link": str})
    DIRECT_CLOSED = Row("refused.rule_private_closed")
    UNWANTED_WORD = Row("refused.word", {"word": str})
    UNKNOWN_COMMAND = Row("refused.unknown_command", {"command": str, "hint": Phrase})
    ADMINS_ONLY = Row("refused.admin_only", {"command": str})

    # ---------------------------------------------------------------- limits
    QUOTA_USED_UP = Row("refused.quota", {"limit": int, "moment": Moment}, api=_QUOTA)
    UPLOADS_USED_UP = Row("refused.files", {"moment": Moment}, api=_QUOTA)
    GPU_TIME_USED_UP = Row(
        "refused.gpu",
        {"used": float, "limit": float, "held": float, "moment": Moment},  # minutes
        api=_GPU_TIME,
    )
    TOO_MANY_OPEN = Row("refused.limit_owner", {"limit": int}, api=_TOO_MANY_OPEN)
    TOO_MANY_OPEN_UNTIL = Row(
        "refused.limit_owner_until", {"limit": int, "moment": Moment}, api=_TOO_MANY_OPEN
    )
    QUEUE_STANDS = Row("refused.queue_stands", {"model": str, "limit": int}, api=_QUEUE_FULL)
    QUEUE_FULL = Row(
        "refused.queue_full", {"model": str, "limit": int, "moment": Moment}, api=_QUEUE_FULL
    )
    FULL_DISK = Row("refused.full_disk", api=_NOT_ACCEPTING)
    NOT_ACCEPTING = Row("refused.not_accepting", api=_NOT_ACCEPTING)

    # ---------------------------------------------------------------- models
    UNKNOWN_MODEL = Row("refused.unknown_model", {"name": str, "hint": Phrase}, api=_UNKNOWN_MODEL)
    NOT_CAPABLE = Row("refused.not_capable", {"model": str, "unable": Phrase}, api=_NOT_CAPABLE)
    NOT_CAPABLE_OTHERS = Row(
        "refused.not_capable_others",
        {"model": str, "unable": Phrase, "names": str},
        api=_NOT_CAPABLE,
    )
    NO_SERVER = Row("refused.no_server", _MODEL, api=_NO_SERVER)
    NOT_LOADABLE = Row("refused.not_loadable", {"model": str, "moment": Moment}, api=_NOT_LOADABLE)
    NO_MODEL = Row("refused.no_model")
    NONE_SEES = Row("refused.cannot_see")
    NONE_EDITS = Row("refused.none_edits")
    NONE_MAKES_VIDEOS = Row("refused.none_videos")
    NONE_MAKES_VIDEOS_OF_IMAGES = Row("refused.none_videos_images")
    NONE_MAKES_MUSIC = Row("refused.none_plays")
    NONE_SPEAKS = Row("refused.cannot_speak")
    NONE_HEARS = Row("refused.cannot_hear")
    NONE_TRANSCRIBES = Row("refused.none_listens")
    OPTION_NOT_TAKEN = Row("refused.option_unsupported", {"model": str, "option": str})
    BEYOND_PIXELS = Row("refused.beyond_pixels", _BEYOND, api=_BEYOND_MODEL)
    BEYOND_STEPS = Row("refused.beyond_steps", _BEYOND, api=_BEYOND_MODEL)
    BEYOND_COUNT = Row("refused.beyond_count", _BEYOND, api=_BEYOND_MODEL)
    BEYOND_SECONDS = Row("refused.beyond_seconds", _BEYOND, api=_BEYOND_MODEL)
    BEYOND_FRAMES = Row("refused.beyond_frames", _BEYOND, api=_BEYOND_MODEL)
    BEYOND_MEMORY = Row("refused.beyond_memory", _BEYOND, api=_BEYOND_MODEL)
    NO_STYLES = Row("styles.none")
    UNKNOWN_STYLE = Row("refused.unknown_style", {"name": str, "hint": Phrase})
    BAD_LORAS = Row("refused.loras", {"most": int, "example": str})
    BAD_TIME_OF_DAY = Row("refused.by", {"text": str})

    # ---------------------------------------------------------------- how a call is written
    MISSING = Row("problem.missing", {"param": str}, usage=True)
    MISSING_CHOICE = Row("problem.missing_choice", {"calls": str})
    LEFT_OVER = Row("problem.left_over", {"text": str}, usage=True)
    UNKNOWN_OPTION = Row("problem.unknown_option", _NAME, usage=True)
    NEAR_OPTION = Row("problem.near_option", {"name": str, "near": str}, usage=True)
    NEEDS_VALUE = Row("problem.needs_value", _NAME, usage=True)
    NOT_WHOLE = Row("problem.not_whole", _NAME)
    NOT_A_NUMBER = Row("problem.not_number", _NAME)
    OUT_OF_RANGE = Row("problem.range", {"name": str, "least": float, "most": float})
    NOT_A_CHOICE = Row("problem.choice", {"name": str, "choices": str})
    NOT_ONE_OF = Row("problem.choice_word", {"value": str, "choices": str})
    NOT_THE_WORD = Row("problem.only_word", {"value": str, "choices": str})
    NOT_A_SIZE = Row("problem.size", _NAME)
    NOT_A_JOB = Row("problem.job", {"value": str})
    NOT_A_LANGUAGE = Row("problem.language", {"value": str})
    NO_TEXT = Row("problem.empty", usage=True)
    TEXT_TOO_LONG = Row("problem.too_long", _LENGTH)

    # ---------------------------------------------------------------- files
    NOT_USED = Row("problem.attached", {"told": str})
    FILE_ALONE = Row("problem.file_alone", {"names": str})
    TOO_MANY_IMAGES = Row("problem.too_many_images", _TOO_MANY)
    TOO_MANY_TEXTS = Row("problem.too_many_texts", _TOO_MANY)
    TOO_MANY_RECORDINGS = Row("problem.too_many_sounds", _TOO_MANY)
    TOO_MANY_VIDEOS = Row("problem.too_many_videos", _TOO_MANY)
    TOO_MANY_DOCUMENTS = Row("problem.too_many_papers", _TOO_MANY)
    NOT_DOWNLOADED = Row("problem.image_unreadable")
    FILE_TOO_LARGE = Row("problem.file_bytes", {"name": str, "size": int, "limit": int})  # MB
    IMAGE_ADDRESS = Row("problem.image_address")
    NO_IMAGE = Row("problem.no_image", usage=True)
    NOT_AN_IMAGE = Row("problem.not_image")
    UNREAD_IMAGE = Row("problem.unread_image", {"form": str})
    IMAGE_TOO_LARGE = Row("problem.image_bytes", {"size": int, "limit": int})  # MB
    TOO_MANY_PIXELS = Row("problem.image_pixels", {"limit": int})  # megapixels
    LARGE_ENOUGH = Row("refused.large_enough", {"limit": int})  # megapixels
    EMPTY_MASK = Row("problem.no_mask")
    NOT_A_TEXT = Row("problem.not_text", _NAME)
    TEXT_FILE_TOO_LARGE = Row("problem.text_bytes", {"name": str, "limit": int})  # kB
    FILES_TOO_LONG = Row("problem.text_too_long", _LENGTH)
    NO_RECORDING = Row("problem.no_recording", usage=True)
    RECORDING_UNREADABLE = Row("problem.sound_unreadable", _NAME)
    RECORDING_SILENT = Row("problem.sound_silent", _NAME)
    RECORDING_TOO_LONG = Row("problem.sound_too_long", {"name": str, "minutes": int})
    RECORDING_NO_LIBRARY = Row("problem.sound_no_library", _NAME)
    NOT_A_VIDEO = Row("problem.not_video", _NAME)
    NONE_WATCHES = Row("problem.not_watched", {"listed": str})
    NOT_WATCHED_BY = Row("problem.not_watched_by", {"model": str, "listed": str})
    DOCUMENT_UNREADABLE = Row("problem.paper_unreadable", _NAME)
    DOCUMENT_TOO_LARGE = Row("problem.paper_too_large", _NAME)
    DOCUMENT_ENCRYPTED = Row("problem.paper_encrypted", _NAME)
    DOCUMENT_TOO_OLD = Row("problem.paper_old", _NAME)
    DOCUMENT_NO_LIBRARY = Row("problem.paper_no_library")
    DOCUMENT_SCANNED = Row("problem.paper_scanned", _NAME)
    ALBUM_LATE = Row("album.late")
    ALBUM_PARTIAL = Row("album.partial")
    ALBUM_TOO_LATE = Row("album.too_late", _JOB)

    # ---------------------------------------------------------------- the job that is meant
    NO_JOB = Row("refused.no_job", _JOB)
    NO_SUCH_JOB = Row("refused.no_such_job", _JOB)
    FORGOTTEN_JOB = Row("refused.forgotten_job")
    NO_OPEN_JOB = Row("refused.no_open_job")
    NO_JOBS_YET = Row("history.none")
    NOT_YOURS = Row("refused.not_yours")
    WHICH_JOB = Row("refused.which_job", {"jobs": str, "example": int})
    SAY_WHICH_JOB = Row("refused.say_which_job")
    FOR_PROGRAMS = Row("refused.for_programs", _JOB)
    UNFINISHED = Row("refused.unfinished", _JOB)
    STILL_OPEN = Row("refused.still_open", _JOB)
    ALREADY_ENDED = Row("refused.already_ended", _JOB)
    NOT_WAITING = Row("refused.not_waiting", _JOB)
    NO_IMAGES = Row("refused.no_images", _JOB)
    NO_SUCH_IMAGE = Row("refused.no_such_image", {"job": int, "count": int})
    IMAGES_GONE = Row("refused.result_gone", _JOB)
    NOTHING_RECORDED = Row("refused.no_recording", _JOB)
    FILES_GONE = Row("refused.recording_gone", _JOB)
    NOTHING_TO_READ = Row("refused.no_text", _JOB)
    ANSWER_GONE = Row("status.gone", _JOB)
    IMAGE_OR_JOB = Row("refused.image_or_job", _JOB)
    NO_WORDS_TO_EDIT = Row("refused.no_words_to_edit")
    TOO_LONG_TO_EDIT = Row("refused.too_long_to_edit", {"command": str})
    NOTHING_TO_ASK = Row("refused.nothing_to_ask")

    # ---------------------------------------------------------------- keys
    NO_API = Row("refused.no_api")
    KEY_IN_GROUP = Row("refused.key_in_group")
    KEY_LASTS = Row("refused.key_lasts", {"given": str})
    TOO_MANY_KEYS = Row("refused.too_many_keys", {"limit": int})
    WHICH_KEY = Row("refused.which_key")
    NO_SUCH_KEY = Row("refused.no_such_key", {"number": int})
    WHICH_SERVICE = Row("refused.which_service")

    # ---------------------------------------------------------------- an admin's commands
    OWN_LIMIT = Row("refused.own_limit")
    BAN_ADMIN = Row("refused.ban_admin")
    NOT_BANNED = Row("refused.not_banned", {"person": str})
    NO_INVITES = Row("refused.no_invites")
    INVITE_IN_GROUP = Row("refused.invite_in_group")
    NOT_INVITED = Row("refused.not_invited", _NAME)
    WHICH_PERSON = Row("refused.which_person")
    NO_SUCH_CHAT = Row("refused.no_such_chat", {"name": str, "names": str})
    NO_SUCH_USER = Row("refused.no_such_user", {"name": str, "example": str})
    NO_SUCH_HOST = Row("refused.no_such_host", {"name": str, "hint": Phrase})
    NO_SUCH_TARGET = Row("refused.no_such_target", {"name": str, "hint": Phrase})
    ONE_TARGET = Row("refused.one_target")
    NOT_ON_HOST = Row("refused.unknown_host", {"name": str, "model": str, "names": str})


@dataclass(frozen=True, init=False, slots=True)
class Refusal:
    """A refused request: its kind and the fields of the kind's row."""

    kind: RefusalKind
    values: Mapping[str, FieldValue]

    def __init__(self, kind: RefusalKind, /, **values: FieldValue) -> None:
        """Create it with exactly the fields of the kind's row. Raises `TypeError`."""
        fields = kind.value.fields
        if values.keys() != fields.keys():
            raise TypeError(f"{kind.name} has the fields {', '.join(fields)}")
        for name, value in values.items():
            if not isinstance(value, (int, float) if fields[name] is float else fields[name]):
                raise TypeError(f"{kind.name}: {name} is no {fields[name].__name__}: {value!r}")
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "values", values)

    def __str__(self) -> str:
        """Return the refusal in words, for the log."""
        return ", ".join(
            (self.kind.name, *(f"{name} {value}" for name, value in self.values.items()))
        )

    @property
    def moment(self) -> float | None:
        """When the request could be accepted or a ban ends, if known (UNIX seconds)."""
        moment = self.values.get("moment")
        return moment.at if isinstance(moment, Moment) else None


class Declined(Exception):
    """Carries a refusal to the code that answers it."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


_NAMED = 12  # models named in a sentence
NAME_SHOWN = 60  # characters of a name that a person typed


def refusal_of(error: Refused, models: Sequence[str]) -> Refusal:
    """Return the refusal for a request the queue refused. `models` are the available ones."""
    match error:
        case UnknownModel():
            return _unknown_model(error, models)
        case NotCapable():
            return _not_capable(error)
        case NoServer():
            return _no_server(error)
        case LimitReached(limit=limit):
            return Refusal(RefusalKind.TOO_MANY_OPEN, limit=limit)
        case NotAccepting(full_disk=True):
            return Refusal(RefusalKind.FULL_DISK)
    return Refusal(RefusalKind.NOT_ACCEPTING)


def _unknown_model(error: UnknownModel, models: Sequence[str]) -> Refusal:
    """Suggest models with similar names, otherwise those with the capability."""
    hint, names = "hint.did_you_mean", error.nearest
    if not names:
        hint, names = "hint.models", (error.able or tuple(models))[:_NAMED]
    return Refusal(
        RefusalKind.UNKNOWN_MODEL,
        name=error.name[:NAME_SHOWN],
        hint=Phrase(hint, {"names": ", ".join(names)}),
    )


def _not_capable(error: NotCapable) -> Refusal:
    unable = Phrase(f"unable.{error.capability}")
    if not error.able:
        return Refusal(RefusalKind.NOT_CAPABLE, model=error.model, unable=unable)
    names = ", ".join(error.able[:_NAMED])
    return Refusal(RefusalKind.NOT_CAPABLE_OTHERS, model=error.model, unable=unable, names=names)


def _no_server(error: NoServer) -> Refusal:
    if error.again_at is None:
        return Refusal(RefusalKind.NO_SERVER, model=error.model)
    return Refusal(RefusalKind.NOT_LOADABLE, model=error.model, moment=Moment(error.again_at))
