"""What the fake text server is scripted with: its models, their slots, and what goes wrong."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

CONTEXT = 4096
DONE = "data: [DONE]\n\n"
WORDS = ("the", "cat", "sat", "on", "the", "mat")
KINDS = (
    "lmstudio",
    "lmstudio-0.3",
    "ollama",
    "llamacpp",
    "llamacpp-router",
    "llamaswap",
    "vllm",
    "koboldcpp",
    "llama-cpp-python",
    "generic",
)
KEEPERS = {"llamacpp", "vllm", "koboldcpp"}  # of one model, for their lifetime
CUTTERS = {"ollama", "koboldcpp"}  # of what their context cannot hold
LM_STUDIO = {"lmstudio", "lmstudio-0.3"}


class Fault(StrEnum):
    """What goes wrong with one chat request."""

    NONE = "none"
    BUSY = "busy"  # 503
    LIMIT = "limit"  # 429
    HANG = "hang"  # the connection is taken, nothing ever comes
    DRIP = "drip"  # comments only, forever
    CUT = "cut"  # the connection ends in the middle
    ERROR_INSIDE = "error-inside"  # an error event in a 200 stream
    ERROR_EVENT = "error-event"  # the same with an event name, as LM Studio does
    ERROR_200 = "error-200"  # plain JSON with an error, status 200
    GARBAGE = "garbage"
    HTML = "html"
    WRONG_MODEL = "wrong-model"
    OOM = "oom"
    CRASH = "crash"  # the engine dies, the server lives
    UNLOADED = "unloaded"  # a person unloads the model while it answers
    EMPTY = "empty"
    SILENT = "silent"  # a stream without one event
    BROKEN = "broken"  # the same, and the connection breaks
    THOUGHTS = "thoughts"  # reasoning until the limit
    INTERRUPTED = "interrupted"  # [DONE] without a reason for the end
    NOT_STREAMED = "not-streamed"  # a whole answer, though a stream was asked for
    # Of vectors
    ERROR_ABOVE = "error-above"  # an error at the top level, as vLLM once did
    FEWER = "fewer"  # than inputs
    UNEVEN = "uneven"  # in length
    NOT_FINITE = "not-finite"
    NO_NUMBERS = "no-numbers"
    NO_BASE64 = "no-base64"
    BROKEN_OFF = "broken-off"  # base64 that ends within a number
    SHUFFLED = "shuffled"  # in another order than the inputs, with their indexes
    TWICE = "twice"  # two vectors of one index
    NO_INDEX = "no-index"


class LoadFault(StrEnum):
    """What goes wrong with one load."""

    NONE = "none"
    OOM = "oom"
    CRASH = "crash"
    HANG = "hang"
    DUPLICATE = "duplicate"  # another program loads a copy at the same time


@dataclass
class Model:
    """A downloaded model and its copies."""

    id: str
    vision: bool = False
    chats: bool = True
    embeds: bool = False
    copies: list[str] = field(default_factory=list)
    context: int = CONTEXT
    kept: int = 4  # tokens that Ollama keeps of the beginning of a question it cuts
    size: int = 4 * 1024**3
    polls_to_ready: int = 0  # llama.cpp's router loads behind the caller's back
    deleted: bool = False  # Ollama no longer lists it, but keeps it in memory
    on_gpu: float = 1.0  # share of a loaded copy, the rest being in the machine's memory
    loads: int = 0
    running: int = 0
    most_running: int = 0
    failed: bool = False


class Slot:
    """An answer in progress, counted on its model until it is free."""

    def __init__(self, model: Model, changed: Callable[[], None]) -> None:
        self.model = model
        self._changed = changed
        self._taken = True
        model.running += 1
        model.most_running = max(model.most_running, model.running)
        changed()

    def free(self) -> None:
        if self._taken:
            self._taken = False
            self.model.running -= 1
            self._changed()
