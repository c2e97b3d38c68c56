"""Any answer of an image server becomes plain values or an error the queue can treat."""

from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from backends.common.error_rules import REFUSED
from backends.common.http import Http
from backends.common.model_names import lora_names
from backends.images.image_request import SIDE_MOST, ImageRequest, size_of
from backends.images.replies import IMAGES_MOST, RULES, classify, drawn, image_at
from backends.images.swarmui_api import SwarmDrawing, drawing_of, tame
from queueing.core.errors import (
    BackendError,
    UnreadableAnswer,
)
from queueing.core.requests import TextToImage
from tests.fuzz.hostile_input import bounded, spoiled, texts, values

ITEMS: dict[str, Any] = {"created": 1, "data": [{"b64_json": "aGk="}, {"url": "/View/a.png"}]}
MESSAGES: list[dict[str, Any]] = [
    {"status": {"waiting_gens": 1, "live_gens": 0}},
    {"gen_progress": {"batch_index": "0", "overall_percent": 0.5, "preview": "data:;base64,aGk="}},
    {"image": "data:image/png;base64,aGk=", "batch_index": "0", "metadata": "{}"},
    {"discard_indices": [0, 7]},
    {"error": "no", "error_id": "x"},
    {"socket_intention": "close"},
]
messages = st.sampled_from(MESSAGES).flatmap(lambda good: spoiled(good) | st.just(good))


@bounded
@given(spoiled(ITEMS) | values)
def test_lists_of_images(body: JsonValue) -> None:
    """An odd answer would end a job without a reason, or flood a chat."""
    with suppress(BackendError):
        images = drawn(Http("http://server.test"), body)
        assert len(images) <= IMAGES_MOST


@bounded
@given(texts | st.sampled_from(["http:", "https://", "//"]).flatmap(lambda s: texts.map(s.__add__)))
def test_addresses_of_images(where: str) -> None:
    """A server could make the bot call another one."""
    http = Http("http://server.test:81/below")
    with suppress(UnreadableAnswer):
        image = image_at(http, where)
        if image.path:
            assert http._url(image.path).origin() == http._url("/").origin()


@bounded
@given(st.lists(messages | values, max_size=8))
def test_messages_of_swarmui(sent: list[JsonValue]) -> None:
    """One odd message would end an image without a reason, or show people nonsense."""
    drawing, before = SwarmDrawing(2), 0.0
    with suppress(BackendError):
        for message in sent:
            progress = drawing.hear(message)
            if progress is not None:
                assert progress.fraction is not None
                assert before <= progress.fraction <= 1
                before = progress.fraction


@bounded
@given(st.integers(200, 599), values | texts)
def test_errors_of_image_servers(status: int, body: JsonValue) -> None:
    """People would be shown paths, or other people's prompts."""
    told = classify(status, body).problem
    known = [rule.told for rule in RULES]
    assert told is None or told is REFUSED or told in known or told.what == "too_large"


@bounded
@given(texts)
def test_words_of_people_are_no_commands(prompt: str) -> None:
    """A prompt could choose another model, or read the server's files."""
    request = TextToImage(prompt=prompt, negative=prompt)
    sent = drawing_of(ImageRequest(model="m", request=request))
    assert not {"<", ">"} & {*str(sent["prompt"]), *str(sent["negativeprompt"])}
    assert len(tame(prompt)) == len(prompt)


@bounded
@given(texts)
def test_names_of_loras(path: str) -> None:
    """A server could reverse the direction of the bot's text, or fill a chat."""
    (name, other) = lora_names([path, f"{path}/{path}"])
    assert (name + other).isprintable()
    assert max(len(name), len(other)) <= 80


@bounded
@given(
    st.none() | st.integers(64, 8192),
    st.none() | st.integers(64, 8192),
    st.none() | st.tuples(st.integers(64, 8192), st.integers(64, 8192)),
    st.none() | st.tuples(st.integers(1, 4096), st.integers(1, 4096)),
)
def test_sizes(
    width: int | None,
    height: int | None,
    usual: tuple[int, int] | None,
    image: tuple[int, int] | None,
) -> None:
    """A server would be asked for an image of zero pixels, or for a huge one."""
    size = size_of(TextToImage(prompt="a", width=width, height=height), usual, image)
    if size is None:
        assert usual is None
        return
    assert width in {None, size[0]}
    assert height in {None, size[1]}
    assert all(
        64 <= side <= max(SIDE_MOST, *(usual or ()), width or 0, height or 0) for side in size
    )
