"""The errors of the queue: few classes, one for each reaction of the caller.

QueueError
├─ Refused             nothing was accepted
│  ├─ UnknownModel     no such model; carries the nearest names
│  ├─ NotCapable       the model exists but cannot do this
│  ├─ NoServer         no server can run the model, at least for now
│  ├─ LimitReached     too many open jobs, jobs per hour or GPU time, or the queue is full
│  └─ NotAccepting     the queue takes no new jobs (full or damaged disk)
├─ StaleJob            another change came first; drop this one
├─ StoreError          the database cannot be used; the text is for the operator
│  └─ Fenced           another process has taken over; stop
└─ BackendError        an inference server failed
   ├─ Rejected         the request is wrong for this server; fail at once
   ├─ Busy             no capacity at the moment; requeue after a pause, a few times
   ├─ UnreadableAnswer the answer cannot be parsed; retry, the server stays in use
   │  └─ ResultGone    the server has lost the result for good; run the job again at once
   ├─ UnknownFailure   it failed for no known reason; retry, the server stays in use
   │  ├─ ModelCrashed  the model's process ended; retry alone, the server stays in use
   │  └─ ShortOfMemory it lacks main memory, which no eviction frees; retry
   ├─ Unavailable      it does not answer; retry, and mark the backend down for a while
   ├─ Interrupted      a person stopped the attempt there; retry, the server is healthy
   ├─ OutOfMemory      retry after an eviction
   ├─ NotLoaded        another program unloaded the model; the job goes back to its place
   └─ BadModel         wrong configuration; stop at start with the setting's path
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import ceil

from pydantic import JsonValue, ValidationError

from queueing.core.requests import Record

SAID = "said"
"""The field of a problem that holds the server's own message. Only programs see it."""


class ProblemKind(StrEnum):
    """The kinds of problem. Each comment names the values the problem carries."""

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
    MANY_IMAGES = "many_images"
    NO_MODEL = "no_model"
    REFUSED = "refused"
    FILTERED = "filtered"
    SETTING = "setting"  # name
    NO_ROOM = "no_room"
    NOT_ON_REQUEST = "not_on_request"
    NO_KEY = "no_key"
    NO_CREDIT = "no_credit"
    UNKNOWN_FIELD = "unknown_field"  # name
    NO_SUFFIX = "no_suffix"
    NO_COMPLETIONS = "no_completions"
    TEXT_PROMPTS = "text_prompts"
    NO_ECHO = "no_echo"
    SILENT = "silent"
    ONLY_THOUGHTS = "only_thoughts"
    ONLY_CALLS = "only_calls"
    NEWEST_IMAGES = "newest_images"  # count
    MISCONFIGURED = "misconfigured"
    STEP_FAILED = "step_failed"
    NO_IMAGE = "no_image"
    NO_RESULT = "no_result"
    KEPT_BACK = "kept_back"
    MORE_RESULTS = "more_results"  # count
    DRAWS_ONLY = "draws_only"
    NO_LORA = "no_lora"  # name
    OTHER_LORAS = "other_loras"  # name, there
    AMBIGUOUS_LORA = "ambiguous_lora"  # name, there
    OTHER_CHOICES = "other_choices"  # field, name, there
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
    # Problems of a question that contains a recording
    UNHEARD = "unheard"  # cause: code of the transcription's problem
    NO_LISTENER = "no_listener"
    NOT_HEARD_HERE = "not_heard_here"
    UNWANTED = "unwanted"  # word
    # Why an admin's request failed
    STAYS = "stays"
    NO_ANSWER = "no_answer"  # backend
    LOAD_LATE = "load_late"  # backend, seconds
    LOAD_REFUSED = "load_refused"  # backend
    LOAD_STOPPED = "load_stopped"  # backend
    LOAD_SETUP = "load_setup"  # cause, as logged
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

    `attempts` is the number of attempts made. `unloadable` names the model whose load failed for
    this reason.
    """

    what: ProblemKind
    values: Mapping[str, str | int] = {}
    attempts: int = 1
    unloadable: str = ""

    def __str__(self) -> str:
        """Return the problem in words, for the log."""
        told = ", ".join(f"{name} {value}" for name, value in self.values.items())
        return f"{self.what}: {told}" if told else str(self.what)

    @property
    def said(self) -> str:
        """The server's own message, "" if unknown."""
        return str(self.values.get(SAID, ""))

    def code(self) -> str:
        """Return the stored code, which `read` parses."""
        return self.model_dump_json(exclude_defaults=True)

    @classmethod
    def read(cls, code: str) -> "Problem":
        """Parse a stored code.

        Returns `ProblemKind.BUG` for a kind that only a newer version knows.

        In a cluster, the process that ends a job may run a newer version than the one that reports
        it.
        """
        try:
            return cls.model_validate_json(code)
        except ValidationError:
            return cls(what=ProblemKind.BUG)


def problem(what: ProblemKind, **values: str | int) -> Problem:
    """Return a problem of a kind, with the values that the kind names."""
    return Problem(what=what, values=values)


CAUSE_LIMIT = 1000
DAY_S = 86_400.0  # longer waits are not shown to people


class QueueError(Exception):
    """Base of all errors the queue raises on purpose.

    Its text is for the log. `problem` is shown to the person who asked. It is None if the class
    alone determines the message.
    """

    def __init__(self, cause: str = "", *, problem: Problem | None = None) -> None:
        super().__init__(cause)
        self.problem = problem


class Refused(QueueError):
    """A request was not accepted; nothing was stored."""


class UnknownModel(Refused):
    """No model has that name or alias; `able` are models with the capability."""

    def __init__(self, name: str, nearest: Sequence[str] = (), able: Sequence[str] = ()) -> None:
        super().__init__(f"unknown model {name!r}")
        self.name = name
        self.nearest = tuple(nearest)
        self.able = tuple(able)


class NotCapable(Refused):
    """The named model lacks the capability; `able` are models that have it."""

    def __init__(self, model: str, capability: str, able: Sequence[str] = ()) -> None:
        super().__init__(f"{model} cannot do {capability}")
        self.model = model
        self.capability = capability
        self.able = tuple(able)


class NoServer(Refused):
    """No server can run the model: none is large enough, or none could load it.

    `again_at` is when a load is tried again (UNIX seconds), None if retrying is pointless.
    """

    def __init__(self, model: str, again_at: float | None) -> None:
        super().__init__(f"no server can run {model}")
        self.model = model
        self.again_at = again_at


class LimitReached(Refused):
    """A limit is reached: on open jobs, a queue's length, jobs per hour or GPU time per day.

    `scope` is "owner", "queue", "hour" or "gpu" (GPU seconds). With "hour", `free_at` is when the
    next job can be accepted (UNIX seconds).
    """

    def __init__(self, scope: str, limit: int, *, free_at: float | None = None) -> None:
        super().__init__(f"limit of {limit} reached ({scope})")
        self.scope = scope
        self.limit = limit
        self.free_at = free_at


class NotAccepting(Refused):
    """The queue accepts no jobs; `cause` is for the operator, `full_disk` selects the text."""

    def __init__(self, cause: str, *, full_disk: bool = False) -> None:
        super().__init__(cause)
        self.full_disk = full_disk


class StaleJob(QueueError):
    """The job has changed since it was read. The caller drops its change or reads the job again."""


class StoreError(QueueError):
    """The database cannot be opened or used; the text explains what the operator can do."""


class Fenced(StoreError):
    """Another process has taken over this one's role. Nothing this process writes is stored."""


class BackendError(QueueError):
    """An inference server failed.

    `cause` is for the operator's log. It is one line of at most `CAUSE_LIMIT` characters, because a
    server may have written it. `retryable` says whether another attempt can help. `answer` is the
    body of the server's answer, if it sent JSON.
    """

    retryable = True
    answer: JsonValue = None

    def __init__(self, cause: str = "", *, problem: Problem | None = None) -> None:
        signs = (sign if sign.isprintable() else " " for sign in cause[:CAUSE_LIMIT])
        super().__init__("".join(signs).strip(), problem=problem)


class Rejected(BackendError):
    """The server understood the request and refuses it; a retry cannot help."""

    retryable = False


class Busy(BackendError):
    """The server is healthy but has no capacity. `after_s` is its retry delay, if it named one."""

    def __init__(
        self, cause: str = "", *, after_s: float | None = None, problem: Problem | None = None
    ) -> None:
        super().__init__(cause, problem=problem)
        self.after_s = after_s


class UnreadableAnswer(BackendError):
    """The server's answer cannot be parsed. Only this attempt is affected."""


class ResultGone(UnreadableAnswer):
    """The server has lost the result for good, so the job must run again at once."""


class UnknownFailure(BackendError):
    """The server reported a failure without a reason. Other jobs are not affected."""


class ModelCrashed(UnknownFailure):
    """The model's process ended on a server that still answers.

    One of its requests may be the cause.
    """


class ShortOfMemory(UnknownFailure):
    """The server lacks main memory. Unloading other models from the GPU would not help."""


class Unavailable(BackendError):
    """The server does not answer, or the connection to it failed.

    Whether its jobs can be blamed depends on what else ran there: see
    `queueing.planning.retry.after_failure`.
    """


class KeyRefused(Unavailable):
    """The server does not accept its key; its jobs wait until an admin fixes that."""


class Interrupted(BackendError):
    """A person stopped the attempt on the server itself, which is healthy."""


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
    (KeyRefused, ProblemKind.NO_KEY),
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
    """Return the problem to show for an error."""
    if isinstance(error, QueueError) and error.problem is not None:
        return error.problem
    if isinstance(error, UnknownModel):
        return problem(ProblemKind.GONE, name=error.name)
    if isinstance(error, Busy) and error.after_s:
        return problem(ProblemKind.BUSY, seconds=ceil(min(error.after_s, DAY_S)))
    return problem(
        next((what for kind, what in _KINDS if isinstance(error, kind)), ProblemKind.BUG)
    )
