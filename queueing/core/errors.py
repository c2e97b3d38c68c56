"""The errors of the queue: few classes, one for each reaction of the caller.

QueueError
├─ Refused             nothing was accepted
│  ├─ UnknownModel     no such model; carries the nearest names
│  ├─ NotCapable       the model exists but cannot do this
│  ├─ NoServer         no server can run the model, at least for now
│  ├─ LimitReached     too many jobs of this person, open or in an hour, or the line is full
│  └─ NotAccepting     the queue takes no new jobs (full or damaged disk)
├─ StaleJob            another change was faster; drop this one
├─ StoreError          the database cannot be used; the text is for the operator
│  └─ Fenced           another process has taken over; stop
└─ BackendError        an inference server could not do it
   ├─ Rejected         the request is wrong for this server; fail at once
   ├─ Busy             it takes no more now; back to its place for a while, a few times
   ├─ UnreadableAnswer it answered what nobody can read; retry, the server stays in use
   │  └─ ResultGone    its result is gone for good; make it again at once
   ├─ UnknownFailure   it failed for no known reason; retry, the server stays in use
   │  ├─ ModelCrashed  the model's process there ended; retry alone, the server stays in use
   │  └─ ShortOfMemory it lacks main memory, which no GPU gives; retry
   ├─ Unavailable      it does not answer; retry, and mark the backend down for a while
   ├─ Interrupted      a person stopped the attempt there; retry, the server is well
   ├─ OutOfMemory      retry after an eviction
   ├─ NotLoaded        another program unloaded the model; the job goes back to its place
   └─ BadModel         configuration; stop at start with the setting's path
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import ceil

from pydantic import JsonValue, ValidationError

from queueing.core.requests import Record

SAID = "said"
"""The value of any problem that holds the words of the server, for programs alone."""


class ProblemKind(StrEnum):
    """What went wrong; each comment names the values that come with it."""

    BUG = "bug"
    AWAY = "away"
    BUSY = "busy"  # seconds, if the server said when to ask again
    UNREADABLE = "unreadable"
    CRASHED = "crashed"
    FAILED = "failed"
    STOPPED = "stopped"
    MEMORY = "memory"
    LATE = "late"
    UNLOADED = "unloaded"
    WAITED = "waited"  # minutes
    UNABLE = "unable"
    LOST = "lost"
    # What servers report about a request
    TOO_LONG = "too_long"
    TOO_LARGE = "too_large"
    BLIND = "blind"
    NO_MODEL = "no_model"
    REFUSED = "refused"
    UNKNOWN_FIELD = "unknown_field"  # name
    NO_SUFFIX = "no_suffix"
    NO_COMPLETIONS = "no_completions"
    TEXT_PROMPTS = "text_prompts"
    NO_ECHO = "no_echo"
    SILENT = "silent"
    ONLY_THOUGHTS = "only_thoughts"
    MISCONFIGURED = "misconfigured"
    STEP_FAILED = "step_failed"
    NO_IMAGE = "no_image"
    NO_RESULT = "no_result"
    KEPT_BACK = "kept_back"
    MORE_RESULTS = "more_results"  # count
    DRAWS_ONLY = "draws_only"
    NO_LORA = "no_lora"  # name
    OTHER_LORAS = "other_loras"  # name, there
    NOT_TAKEN = "not_taken"  # field
    TAKES_NO = "takes_no"  # field
    ONE_AT_A_TIME = "one_at_a_time"
    NO_START = "no_start"
    NEEDS_START = "needs_start"
    NEEDS = "needs"  # field
    NO_PLACE = "no_place"  # field
    FEWER_IMAGES = "fewer_images"  # count
    ONE_LORA = "one_lora"
    BAD_IMAGE = "bad_image"
    BAD_START = "bad_start"
    HUGE_IMAGE = "huge_image"
    NOTHING_TO_ENLARGE = "nothing_to_enlarge"
    NO_DIMENSIONS = "no_dimensions"
    NO_TOKENS = "no_tokens"
    NO_EMBEDDINGS = "no_embeddings"
    NO_IMAGE_EMBEDDINGS = "no_image_embeddings"
    NO_SPEECH = "no_speech"
    NO_HEARING = "no_hearing"
    NO_TRANSLATION = "no_translation"
    NO_VOICE = "no_voice"
    OTHER_VOICES = "other_voices"  # name, there
    NOTHING_SAID = "nothing_said"
    BAD_SOUND = "bad_sound"
    LONG_SOUND = "long_sound"
    # What a question with a recording waited for
    UNHEARD = "unheard"  # cause: the code of another problem
    NO_LISTENER = "no_listener"
    UNWANTED = "unwanted"  # word
    # What an admin asked for and could not have
    STAYS = "stays"
    NO_ANSWER = "no_answer"  # backend
    LOAD_LATE = "load_late"  # backend, seconds
    LOAD_REFUSED = "load_refused"  # backend
    LOAD_STOPPED = "load_stopped"  # backend
    LOAD_SETUP = "load_setup"  # cause: as logged
    FULL = "full"  # host
    OTHER_WISH = "other_wish"
    NOT_THERE = "not_there"  # model, host
    NOWHERE = "nowhere"  # model
    PAUSED = "paused"  # names
    ALL_PAUSED = "all_paused"
    RESUMED = "resumed"  # host
    GONE = "gone"  # name
    STORE = "store"


class Problem(Record):
    """What went wrong, with its values.

    `attempts` is how often it was tried. `unloadable` names the model whose load it ended.
    """

    what: ProblemKind
    values: Mapping[str, str | int] = {}
    attempts: int = 1
    unloadable: str = ""

    def __str__(self) -> str:
        """Return it in words for the log."""
        told = ", ".join(f"{name} {value}" for name, value in self.values.items())
        return f"{self.what}: {told}" if told else str(self.what)

    @property
    def said(self) -> str:
        """What the server said, "" if that is not known."""
        return str(self.values.get(SAID, ""))

    def code(self) -> str:
        """Return the code from which `read` restores the problem."""
        return self.model_dump_json(exclude_defaults=True)

    @classmethod
    def read(cls, code: str) -> "Problem":
        """Return the problem for a code; `ProblemKind.BUG` for one that only a newer version knows.

        In a cluster, the process that ends a job may be newer than the one that tells of it.
        """
        try:
            return cls.model_validate_json(code)
        except ValidationError:
            return cls(what=ProblemKind.BUG)


def problem(what: ProblemKind, **values: str | int) -> Problem:
    """Return a problem with its values."""
    return Problem(what=what, values=values)


CAUSE_LIMIT = 1000
DAY_S = 86_400.0  # nobody is told of a longer wait


class QueueError(Exception):
    """Base of all errors the queue raises on purpose.

    Its text is for the log. `problem` is what the person who asked is shown, None if the class says
    enough.
    """

    def __init__(self, cause: str = "", *, problem: Problem | None = None) -> None:
        super().__init__(cause)
        self.problem = problem


class Refused(QueueError):
    """A request was not accepted; nothing was stored."""


class UnknownModel(Refused):
    """No model of that name or alias is in the catalog; `able` are models with the capability."""

    def __init__(self, name: str, nearest: Sequence[str] = (), able: Sequence[str] = ()) -> None:
        super().__init__(f"unknown model {name!r}")
        self.name = name
        self.nearest = tuple(nearest)
        self.able = tuple(able)


class NotCapable(Refused):
    """The named model cannot do what was asked; `able` are models that can."""

    def __init__(self, model: str, capability: str, able: Sequence[str] = ()) -> None:
        super().__init__(f"{model} cannot do {capability}")
        self.model = model
        self.capability = capability
        self.able = tuple(able)


class NoServer(Refused):
    """No server can run the model: none is large enough, or none could load it.

    `again_at` is when a load is tried again (UNIX seconds), None if that would be no use.
    """

    def __init__(self, model: str, again_at: float | None) -> None:
        super().__init__(f"no server can run {model}")
        self.model = model
        self.again_at = again_at


class LimitReached(Refused):
    """A limit is reached: on open jobs, on a line's depth, on an hour's jobs or on a day's time.

    `scope` is "owner", "line", "hour" or "gpu" (seconds of GPUs). With "hour", `free_at` is when the next job can be accepted (UNIX seconds).
    """

    def __init__(self, scope: str, limit: int, *, free_at: float | None = None) -> None:
        super().__init__(f"limit of {limit} reached ({scope})")
        self.scope = scope
        self.limit = limit
        self.free_at = free_at


class NotAccepting(Refused):
    """The queue accepts nothing now; `cause` is for the operator, `full_disk` selects the text."""

    def __init__(self, cause: str, *, full_disk: bool = False) -> None:
        super().__init__(cause)
        self.full_disk = full_disk


class StaleJob(QueueError):
    """The job changed since it was read; the caller drops its change or reads again."""


class StoreError(QueueError):
    """The database cannot be opened or used; the text explains what the operator can do."""


class Fenced(StoreError):
    """Another process has taken over what this one did: nothing it writes is stored any more."""


class BackendError(QueueError):
    """An inference server failed.

    `cause` is for the operator's log: one line of `CAUSE_LIMIT` characters at most, for a server
    may have written it. `retryable` says whether another attempt can help, `answer` is the answer
    that it stands for.
    """

    retryable = True
    answer: JsonValue = None

    def __init__(self, cause: str = "", *, problem: Problem | None = None) -> None:
        signs = (sign if sign.isprintable() else " " for sign in cause[:CAUSE_LIMIT])
        super().__init__("".join(signs).strip(), problem=problem)


class Rejected(BackendError):
    """The server understood the request and refuses it; trying again cannot help."""

    retryable = False


class Busy(BackendError):
    """The server is well and takes no more now; `after_s` is when it says to ask again, if it does."""

    def __init__(
        self, cause: str = "", *, after_s: float | None = None, problem: Problem | None = None
    ) -> None:
        super().__init__(cause, problem=problem)
        self.after_s = after_s


class UnreadableAnswer(BackendError):
    """The server answered something that nobody can read: a fault of this answer alone."""


class ResultGone(UnreadableAnswer):
    """The server knows of no result any more, which is final: it must be made again, at once."""


class UnknownFailure(BackendError):
    """The server answered that it failed, and not why. It costs nobody else anything."""


class ModelCrashed(UnknownFailure):
    """The process of the model ended on a server that answers: one of its requests may be why."""


class ShortOfMemory(UnknownFailure):
    """It lacks main memory: it would not help that other models leave the GPU."""


class Unavailable(BackendError):
    """The server does not answer, or the way to it failed.

    Whether its jobs can be blamed depends on what else ran there: see `planning.retry.after_failure`.
    """


class Interrupted(BackendError):
    """A person stopped the attempt on the server itself, which is well."""


class OutOfMemory(BackendError):
    """The server ran out of memory; an eviction may help."""


class NotLoaded(BackendError):
    """The model is no longer in the server's memory; it must be loaded again."""


class BadModel(BackendError):
    """The model's configuration cannot work on this server; the text names the setting."""

    retryable = False


_KINDS: tuple[tuple[type[Exception], ProblemKind], ...] = (
    (TimeoutError, ProblemKind.LATE),
    (OutOfMemory, ProblemKind.MEMORY),
    (ShortOfMemory, ProblemKind.MEMORY),
    (Unavailable, ProblemKind.AWAY),
    (Busy, ProblemKind.BUSY),
    (UnreadableAnswer, ProblemKind.UNREADABLE),
    (ModelCrashed, ProblemKind.CRASHED),
    (UnknownFailure, ProblemKind.FAILED),
    (Interrupted, ProblemKind.STOPPED),
    (NotLoaded, ProblemKind.UNLOADED),
    (BackendError, ProblemKind.UNABLE),
    (StoreError, ProblemKind.STORE),
)


def problem_of(error: Exception) -> Problem:
    """Return what a person is shown for an error."""
    if isinstance(error, QueueError) and error.problem is not None:
        return error.problem
    if isinstance(error, UnknownModel):
        return problem(ProblemKind.GONE, name=error.name)
    if isinstance(error, Busy) and error.after_s:
        return problem(ProblemKind.BUSY, seconds=ceil(min(error.after_s, DAY_S)))
    return problem(
        next((what for kind, what in _KINDS if isinstance(error, kind)), ProblemKind.BUG)
    )
