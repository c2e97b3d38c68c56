"""What becomes of a request that a text server refuses, depending on whose mistake it is.

Each file of `refusals/` has the `status` and `body` of an answer as a `server` sends it, the
`error` and the `problem` that it means, and its `owner`: the question, its attachments, the
operator's configuration, or the server. A busy server's words may name `seconds` to wait.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from backends.images.replies import classify as classify_image
from backends.openai.chat.asking_again import without_system_role
from backends.openai.flavours.errors import TooManyImages, classify
from bot.texts.refusals import told
from queueing.core.errors import Busy, Problem, UnknownFailure, problem_of
from queueing.core.requests import Chat
from tests.backends.openai.asking import ALL, ANSWER, answer, connected, image, model, work
from tests.fakes.llm.llm import serving
from tests.fakes.llm.llm_script import Fault, Model
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("refusals")
HELP = {
    "question": ("Please shorten", "Please rephrase"),
    "attached": ("Please ask one that can", "Please send them one by one"),
    "configuration": ("an admin needs to", "the operator can find"),
    "server": ("again later", "again then", "the operator can find"),
}
"""What the person can do, by whose mistake it is."""


@in_turn("case", CASES)
def test_a_refusal_is_understood(case: Path) -> None:
    """A server would be marked as down because of one request, or asked again in vain."""
    odd = read_case(case)
    for body in (odd["body"], json.dumps(odd["body"])):
        error = classify(odd["status"], body)
        assert type(error).__name__ == odd["error"]
        assert problem_of(error).what == odd["problem"]
        assert getattr(error, "after_s", None) == odd.get("seconds")


OF_EVERY_KIND = [case for case in CASES if case.stem.startswith(("credit-", "filter-", "key-"))]


@in_turn("case", OF_EVERY_KIND)
def test_an_image_server_refuses_in_the_same_words(case: Path) -> None:
    """A person whose prompt was filtered would wait for the operator."""
    odd = read_case(case)
    error = classify_image(odd["status"], odd["body"])
    assert problem_of(error).what == odd["problem"]


@in_turn("case", CASES)
def test_people_are_told_what_helps(case: Path) -> None:
    """A person would rephrase a question that no wording can save."""
    odd = read_case(case)
    text = told(problem_of(classify(odd["status"], odd["body"])), "en")
    assert any(help_ in text for help_ in HELP[odd["owner"]]), text
    assert "rephrase" not in text or odd["owner"] == "question"


@in_turn("case", CASES)
def test_the_same_words_in_a_stream_mean_the_same(case: Path) -> None:
    """A stream begins with status 200, so an error in it is only known by its words."""
    odd = read_case(case)
    if odd["problem"] in {"refused", "failed"} or odd["status"] in {423, 425}:  # known by these
        return
    assert problem_of(classify(200, odd["body"])).what == odd["problem"]


TEMPLATES = [case for case in CASES if read_case(case)["error"] == "SystemRefused"]
BY_KIND = [(kind, TEMPLATES[0]) for kind in ALL] + [("generic", case) for case in TEMPLATES]


@pytest.mark.parametrize(("kind", "case"), BY_KIND, ids=lambda each: getattr(each, "stem", each))
async def test_a_model_without_a_system_role_is_still_told_its_system_text(
    kind: str, case: Path
) -> None:
    """An operator who set a system text would have a model that never answers."""
    odd = read_case(case)
    async with serving(kind, [Model("alpha")]) as server, connected(server) as backend:
        spec = model(system="You are a pirate.")
        await backend.load(spec)
        server.no_system = (odd["status"], odd["body"])
        before = len(server.posted("/v1/chat/completions"))
        for _ in range(2):
            assert (await answer(backend, spec, work("Who?"))).text == ANSWER
        asked = [body["messages"] for body in server.posted("/v1/chat/completions")[before:]]
    told = [{"role": "user", "content": "You are a pirate.\n\nWho?"}]
    assert asked[0][0] == {"role": "system", "content": "You are a pirate."}
    assert asked[1:] == [told, told]  # the second question is not refused first


async def test_a_bare_failure_may_be_a_template_that_knows_no_system_role() -> None:
    """An operator who set a system text would have a server that fails at every question."""
    async with serving("generic", [Model("alpha")]) as server, connected(server) as backend:
        spec = model(system="Be brief.")
        server.no_system = (500, "Internal Server Error")
        assert (await answer(backend, spec, work("Who?"))).text == ANSWER
        assert (await answer(backend, model(), work("Who?"))).text == ANSWER
    async with serving("generic", [Model("alpha")]) as server, connected(server) as backend:
        await answer(backend, spec, work("Who?"))  # a model that has taken its system text
        server.no_system = (500, "Internal Server Error")
        with pytest.raises(UnknownFailure):
            await answer(backend, spec, work("Who?"))
        assert len(server.posted("/v1/chat/completions")) == 2


MANY = [case for case in CASES if read_case(case)["error"] == "TooManyImages"]


@pytest.mark.parametrize(
    ("kind", "case"),
    [(kind, MANY[-1]) for kind in ALL] + [("generic", case) for case in MANY],
    ids=lambda each: getattr(each, "stem", each),
)
async def test_a_model_that_takes_fewer_images_looks_at_the_newest(kind: str, case: Path) -> None:
    """A conversation would end at its second image, and nobody would know why."""
    odd = read_case(case)
    most = {"images-groq": 5, "images-mistral": 8}.get(case.stem, 1)
    files = tuple(image(size=(8 + n, 8)) for n in range(most + 1))
    talk = [
        {"role": "user", "text": "First", "images": (0,)},
        {"role": "assistant", "text": "Seen."},
        {"role": "user", "text": "And?", "images": tuple(range(1, most + 1))},
    ]
    job = replace(work("", files=files), request=Chat.model_validate({"messages": talk}))
    async with (
        serving(kind, [Model("alpha", vision=True)]) as server,
        connected(server) as backend,
    ):
        await backend.load(model())
        server.many_images = (most + 1, odd["status"], odd["body"])
        before = len(server.posted("/v1/chat/completions"))
        for _ in range(2):
            output = await answer(backend, model(), job)
            assert output.text == ANSWER
            assert f"takes {most} image" in told(Problem.read(output.missing), "en")
        asked = [body["messages"] for body in server.posted("/v1/chat/completions")[before:]]
    assert [json.dumps(turns).count("image_url") // 2 for turns in asked] == [most + 1, most, most]
    assert asked[1][0] == {"role": "user", "content": "First"}
    assert asked[1] == asked[2]


async def test_a_program_is_told_of_too_many_images() -> None:
    """A program would believe that an answer about one image is about both."""
    odd = read_case(MANY[-1])
    parts: JsonValue = [{"type": "image", "file": n} for n in (0, 1)]
    body: JsonValue = {"messages": [{"role": "user", "content": parts}]}
    job = work("", files=(image(), image()), passed_on={"body": body})
    async with (
        serving("generic", [Model("alpha", vision=True)]) as server,
        connected(server) as backend,
    ):
        server.many_images = (2, odd["status"], odd["body"])
        with pytest.raises(TooManyImages):
            await answer(backend, model(), job)


async def test_only_an_answer_proves_that_a_model_has_no_system_role() -> None:
    """One conversation in a wrong order would affect everybody's system text."""
    refused = read_case(TEMPLATES[-1])
    async with serving("generic", [Model("alpha")]) as server, connected(server) as backend:
        spec = model(system="Be brief.")
        server.no_system = (refused["status"], refused["body"])
        server.faults.extend((Fault.NONE, Fault.LIMIT))
        with pytest.raises(Busy):
            await answer(backend, spec, work("Who?"))
        server.no_system = None
        await answer(backend, spec, work("Who?"))
        assert server.posted("/v1/chat/completions")[-1]["messages"][0]["role"] == "system"


def test_system_texts_move_to_the_question_they_belong_to() -> None:
    """A program's rules, images or tools would be lost."""
    image: JsonValue = {"type": "image_url", "image_url": {"url": "data:"}}
    turns: list[JsonValue] = [
        {"role": "system", "content": "a"},
        {"role": "system", "content": [{"type": "text", "text": "b"}]},
        {"role": "user", "content": [image]},
        {"role": "assistant", "content": "c"},
        {"role": "system", "content": "d"},
    ]
    assert without_system_role({"model": "m", "messages": turns}) == {
        "model": "m",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a\n\nb"}, image]},
            {"role": "assistant", "content": "c"},
            {"role": "user", "content": "d"},
        ],
    }
    assert without_system_role({"prompt": "x"}) == {"prompt": "x"}
