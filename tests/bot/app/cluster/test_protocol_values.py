"""Every value that bot and queue exchange can be written as JSON and read back."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from bot.app.cluster.protocol import (
    Failure,
    error_of,
    event_from_json,
    event_to_json,
    failure_of,
    from_json,
    to_json,
)
from bot.core.service import QueueService
from queueing.core import errors
from queueing.core.catalog import Catalog, Offer
from queueing.core.errors import Problem, ProblemKind, QueueError, Unavailable
from queueing.core.events import Event
from queueing.core.requests import (
    LORAS_MOST,
    MUSIC_S_MOST,
    VIDEO_S_MOST,
    Chat,
    ChatMessage,
    Embed,
    ImageInput,
    LoraWeight,
    SpeechFormat,
    SpeechToText,
    TextToAudio,
    TextToImage,
    TextToSpeech,
    TextToVideo,
)
from queueing.core.specs import HostSpec, ModelSpec

PARTS = [
    get_type_hints(part.fget)["return"]
    for _, part in inspect.getmembers(QueueService, lambda each: isinstance(each, property))
]
HERE = {"subscribe", "reading"}  # take a listener or a block; what is told is tried as an event

WORDS = st.text(max_size=5)
NUMBERS = st.floats(allow_nan=False)
MESSAGES = st.builds(
    ChatMessage,
    role=st.sampled_from(("system", "user", "assistant")),
    text=WORDS,
    images=st.tuples() | st.tuples(st.integers(0, 9)),
    name=st.none() | WORDS,
)
LORAS = st.lists(
    st.builds(LoraWeight, name=st.text(min_size=1, max_size=5), weight=st.floats(-4, 4)),
    max_size=LORAS_MOST,
).map(tuple)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | WORDS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)


def any_mapping(kind: Any) -> st.SearchStrategy[Any]:
    key, value = get_args(kind)
    inner = PLAIN if value is JsonValue else st.from_type(value)
    return st.dictionaries(st.from_type(key), inner, max_size=2)


st.register_type_strategy(str, WORDS)
st.register_type_strategy(bytes, st.binary(max_size=9))
st.register_type_strategy(float, NUMBERS)
st.register_type_strategy(Mapping, any_mapping)
st.register_type_strategy(
    Sequence, lambda kind: st.lists(st.from_type(get_args(kind)[0]), max_size=2)
)
st.register_type_strategy(
    TextToImage,
    st.builds(
        TextToImage,
        prompt=WORDS,
        width=st.none() | st.integers(64, 8192),
        guidance=st.none() | st.floats(0, 100),
        seed=st.integers(0, 2**64 - 1),
        upscale=st.booleans(),
        original=st.none() | WORDS,
        lora=LORAS,
    ),
)
st.register_type_strategy(
    TextToVideo,
    st.builds(
        TextToVideo,
        prompt=WORDS,
        seconds=st.none() | st.floats(0.1, VIDEO_S_MOST),
        fps=st.none() | st.floats(1, 120),
        lora=LORAS,
    ),
)
st.register_type_strategy(
    TextToAudio,
    st.builds(
        TextToAudio,
        prompt=WORDS,
        lyrics=st.none() | WORDS,
        seconds=st.none() | st.floats(0.1, MUSIC_S_MOST),
        lora=LORAS,
    ),
)
st.register_type_strategy(
    TextToSpeech,
    st.builds(
        TextToSpeech,
        text=st.text(min_size=1, max_size=5),
        voice=st.none() | WORDS,
        speed=st.none() | st.floats(0.25, 4),
        format=st.none() | st.sampled_from(get_args(SpeechFormat)),
    ),
)
st.register_type_strategy(
    SpeechToText,
    st.builds(
        SpeechToText,
        language=st.none() | WORDS,
        temperature=st.none() | st.floats(0, 1),
        translate=st.booleans(),
        timestamps=st.booleans(),
    ),
)
st.register_type_strategy(
    Chat, st.lists(MESSAGES, min_size=1, max_size=3).map(lambda said: Chat(messages=tuple(said)))
)
EMBED_INPUTS = (
    WORDS
    | st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple)
    | st.builds(ImageInput, image=st.integers(0, 9), text=WORDS)
)
st.register_type_strategy(
    Embed,
    st.builds(
        Embed,
        inputs=st.lists(EMBED_INPUTS, min_size=1, max_size=3).map(tuple),
        dimensions=st.none() | st.integers(1, 9),
    ),
)
st.register_type_strategy(
    Problem,
    st.builds(
        Problem, what=st.sampled_from(ProblemKind), values=st.dictionaries(WORDS, st.integers())
    ),
)
MODEL = st.from_type(ModelSpec)
st.register_type_strategy(
    Offer,
    st.builds(
        Offer,
        models=st.lists(MODEL, max_size=2).map(tuple),
        hosts=st.lists(st.from_type(HostSpec), max_size=2).map(tuple),
        options=st.dictionaries(WORDS, st.none() | st.frozensets(WORDS)),
    ),
)


def crossing() -> dict[str, Any]:
    """Return the types of all arguments and results, named by the call that first has them."""
    found: dict[Any, str] = {}
    for protocol in PARTS:
        for name, member in inspect.getmembers(protocol):
            call = member.fget if isinstance(member, property) else member
            if name.startswith("_") or name in HERE or not inspect.isfunction(call):
                continue
            for argument, kind in get_type_hints(call).items():
                found.setdefault(kind, f"{protocol.__name__}.{name}-{argument}")
    return {place: kind for kind, place in found.items()}


def survives(kind: Any, examples: int) -> None:
    """Check that values of a type can be written and read back."""

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.none() if kind is type(None) else st.from_type(kind))
    def is_read_as_written(value: Any) -> None:
        assert from_json(to_json(value, kind), kind) == value

    is_read_as_written()


@pytest.mark.parametrize("examples", [4, pytest.param(50, marks=pytest.mark.thorough)])
def test_what_crosses_the_seam_survives_it(examples: int, subtests: pytest.Subtests) -> None:
    """A chat in another process could not make the call, or would read something else."""
    for place, kind in crossing().items():
        with subtests.test(place):
            survives(kind, examples)


@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
@given(event=st.one_of(*(st.from_type(each) for each in get_args(Event))))
def test_an_event_survives_it_as_what_it_is(event: Event) -> None:
    """Two events have the same fields: jobs about to be deleted would count as deleted."""
    read = event_from_json(*event_to_json(event))
    assert type(read) is type(event)
    assert read == event


ERRORS = [
    each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, QueueError)
]
WHY = Problem(what=ProblemKind.GONE, values={"name": "gpu-9"})


def example(kind: type[QueueError]) -> QueueError:
    """Return an error with a value for each of its own fields."""
    values: dict[str, Any] = {
        "name": "flax",
        "nearest": ("flux",),
        "able": ("flux", "sdxl"),
        "model": "flux",
        "capability": "vision",
        "again_at": 7.5,
        "after_s": 2.5,
        "scope": "owner",
        "limit": 3,
        "free_at": 8.5,
        "full_disk": True,
        "cause": "the cause",
        "problem": WHY,
    }
    taken = inspect.signature(kind).parameters
    assert taken.keys() <= values.keys(), "a value of its own that is not tried"
    return kind(**{name: value for name, value in values.items() if name in taken})


def test_an_error_survives_it_as_what_it_is() -> None:
    """The bot would catch another class, and tell people something else."""
    for kind in ERRORS:
        error = example(kind)
        read = error_of(from_json(to_json(failure_of(error), Failure), Failure))
        assert type(read) is kind
        assert vars(read) == vars(error), kind
        assert str(read) == str(error), kind


def test_an_error_of_a_server_alone_is_read_as_the_nearest_known() -> None:
    """A class that only one side knows would end the connection instead of one call."""

    class Odd(Unavailable):
        def __init__(self, detail: object) -> None:
            super().__init__("odd", problem=WHY)
            self.detail = detail

    read = error_of(failure_of(Odd(object())))
    assert type(read) is Unavailable
    assert (str(read), read.problem) == ("odd", WHY)


def test_an_offer_can_be_looked_up_in_at_the_other_end() -> None:
    """The bot looks models up in the catalog at every step."""
    flux = ModelSpec(name="flux", backends=(), capabilities=frozenset(), aliases=("f",))
    offer = Offer(models=(flux,), hosts=(), options={"flux": frozenset({"seed"})})
    read = from_json(to_json(offer, Offer), Offer)
    assert isinstance(read.catalog, Catalog)
    assert read.catalog.find("F") == flux
    assert read.options_of("f") == frozenset({"seed"})


def test_the_parts_are_found() -> None:
    """If no calls were found, none of the tests above could fail."""
    assert len(PARTS) >= 9
    assert len(crossing()) > 25
