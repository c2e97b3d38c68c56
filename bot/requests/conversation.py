"""What a model receives of a conversation: the newest turns that fit. Pure.

Servers that report their context size cut once more, by their own token count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from queueing.core.jobs import Job
from queueing.core.requests import Chat, ChatMessage, File
from queueing.core.specs import ModelSpec

CHARS_PER_TOKEN = 3.5
ANSWER_SHARE = 0.25  # of the context, kept free for the answer
USUAL_CHARS = 24_000  # if the model's context size is unknown
_PAIR = ["user", "assistant"]
_SHORTENED_LEAST = 400  # characters; less would be useless
_LEFT_OUT = "[the beginning is left out] … "
IMAGES = 4  # the newest ones; each takes about a thousand tokens


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """Turns of a conversation, oldest first, and the images they refer to."""

    turns: tuple[ChatMessage, ...] = ()
    files: tuple[File, ...] = ()
    shortened: bool = False  # the beginning of the newest answer is left out

    @property
    def has_image(self) -> bool:
        """Whether it contains images, which the model must be able to see."""
        return any(turn.images for turn in self.turns)


def room_chars(model: ModelSpec | None) -> int:
    """Return how many characters of conversation a model can take."""
    tokens = None if model is None else model.options.get("context_length")
    if not isinstance(tokens, int) or isinstance(tokens, bool):
        return USUAL_CHARS
    return int(tokens * CHARS_PER_TOKEN * (1 - ANSWER_SHARE))


def remembered_by(earlier: Job | None, model: ModelSpec | None) -> str | None:
    """Return the server that may have a conversation cached; None if the model has changed."""
    if earlier is None or model is None or earlier.model != model.name:
        return None
    return earlier.backend or earlier.remembered_by if isinstance(earlier.request, Chat) else None


def continued(
    earlier: Conversation, asked: Conversation, *, system: str, room: int, sees: bool
) -> Conversation:
    """Return the conversation to send: the system prompt, the earlier turns that fit, the question.

    The oldest turns are dropped first, in pairs of question and answer. The system prompt and the
    question always stay. If the newest pair does not fit, the beginning of its question and the end
    of its answer stay, because people ask about those. A vision model also receives the newest
    images of earlier turns that are still stored.
    """
    room -= len(system) + sum(len(turn.told) for turn in asked.turns)
    said = [turn for turn in earlier.turns if turn.role != "system"]
    kept = _newest(said, room)
    shortened = not kept and room >= _SHORTENED_LEAST and [turn.role for turn in said[-2:]] == _PAIR
    if shortened:
        kept = _shortened(said[-2], said[-1], room)
    before = Conversation(turns=tuple(kept), files=earlier.files)
    sees = sees and all(at < len(before.files) for turn in kept for at in turn.images)
    whole = _joined(before if sees else _blind(before), asked)
    front = (ChatMessage(role="system", text=system),) if system else ()
    return Conversation(turns=(*front, *whole.turns), files=whole.files, shortened=shortened)


def _newest(said: Sequence[ChatMessage], room: int) -> list[ChatMessage]:
    """Return the newest turns that fit, beginning with a question."""
    kept: list[ChatMessage] = []
    for turn in reversed(said):
        room -= len(turn.told)
        if room < 0:
            break
        kept.insert(0, turn)
    while kept and kept[0].role == "assistant":
        del kept[0]
    return kept


def _shortened(question: ChatMessage, answer: ChatMessage, room: int) -> list[ChatMessage]:
    """Return the beginning of a question and the end of its answer."""
    most = room // 4
    if len(question.told) > most:
        words = f"{question.told[: most - 1]}…"
        question = question.model_copy(update={"text": words, "name": None})
    end = room - len(question.told) - len(_LEFT_OUT)
    text = f"{_LEFT_OUT}{answer.text[-end:]}"
    return [question, answer.model_copy(update={"text": text})]


def _joined(before: Conversation, asked: Conversation) -> Conversation:
    """Join two parts of a conversation with the newest images of both.

    Recordings come from the question.
    """
    shift = len(before.files)
    earlier = (turn.model_copy(update={"sounds": ()}) for turn in before.turns)
    turns = (*earlier, *(_placed(turn, lambda index: index + shift) for turn in asked.turns))
    files = (*before.files, *asked.files)
    shown = sorted({index for turn in turns for index in turn.images})[-IMAGES:]
    kept = [*shown, *(index for turn in turns for index in turn.sounds)]
    places = {index: place for place, index in enumerate(kept)}
    return Conversation(
        turns=tuple(_placed(turn, places.get) for turn in turns),
        files=tuple(files[index] for index in kept),
    )


def _placed(turn: ChatMessage, place: Callable[[int], int | None]) -> ChatMessage:
    """Return a turn with its files renumbered, leaving out files without a new number."""
    found = {
        name: tuple(at for index in indexes if (at := place(index)) is not None)
        for name, indexes in (("images", turn.images), ("sounds", turn.sounds))
    }
    return turn.model_copy(update=found)


def _blind(talk: Conversation) -> Conversation:
    return Conversation(turns=tuple(turn.model_copy(update={"images": ()}) for turn in talk.turns))
