"""Why something could not be done, as a value: people read it in their own language.

A job stores it as a short code. The words are in `bot.texts`.
"""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import ValidationError

from queueing.core.requests import Record

SAID = "said"
"""The value of any problem that holds the words of the server, for programs alone."""


class What(StrEnum):
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
    NO_PICTURE = "no_picture"
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
    FEWER_PICTURES = "fewer_pictures"  # count
    ONE_LORA = "one_lora"
    BAD_PICTURE = "bad_picture"
    BAD_START = "bad_start"
    HUGE_PICTURE = "huge_picture"
    NOTHING_TO_ENLARGE = "nothing_to_enlarge"
    NO_DIMENSIONS = "no_dimensions"
    NO_TOKENS = "no_tokens"
    NO_EMBEDDINGS = "no_embeddings"
    NO_PICTURE_EMBEDDINGS = "no_picture_embeddings"
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

    what: What
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
        """Return the problem for a code; `What.BUG` for one that only a newer version knows.

        In a cluster, the process that ends a job may be newer than the one that tells of it.
        """
        try:
            return cls.model_validate_json(code)
        except ValidationError:
            return cls(what=What.BUG)


def problem(what: What, **values: str | int) -> Problem:
    """Return a problem with its values."""
    return Problem(what=what, values=values)
