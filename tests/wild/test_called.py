"""What people and programs call the models that servers list.

Each file of `called/` has the names `served` and what is `typed`. It has the served name that this
`means`, or the `choices` that are suggested instead. What is `literal` is part of a question.
"""

from pathlib import Path
from typing import Any

import pytest

from backends.common.model_names import catalog_names
from bot.commands.call.parser import parse
from bot.commands.registry import COMMANDS
from queueing.core.catalog import Catalog
from queueing.core.errors import UnknownModel
from queueing.core.requests import Capability
from queueing.core.specs import ModelSpec
from tests.bot.api.whole_api import running
from tests.fakes.llm.llm import serving
from tests.fakes.llm.llm_script import Model
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("called")
ASK = next(command for command in COMMANDS if command.name == "ask")
TALKS = frozenset({Capability.TEXT_TO_TEXT})


def catalog(served: list[str]) -> Catalog:
    return Catalog(
        [
            ModelSpec(name=name, backends=("b",), capabilities=TALKS, options={"model": served_as})
            for name, served_as in zip(catalog_names(served), served, strict=True)
        ],
        [],
    )


@in_turn("case", CASES)
def test_a_name_means_one_model_or_is_refused_with_choices(case: Path) -> None:
    """The default model would answer in place of the one that was named."""
    odd = read_case(case)
    known = catalog(odd["served"])
    values = parse(ASK, f"{odd['typed']} why is that?", known.is_meant)
    assert ("model" in values) is not odd.get("literal", False)
    if "model" not in values:
        assert values["prompt"] == f"{odd['typed']} why is that?"
    elif "means" in odd:
        found = known.require(str(values["model"]), Capability.TEXT_TO_TEXT)
        assert found.options["model"] == odd["means"]
    else:
        with pytest.raises(UnknownModel) as refused:
            known.require(str(values["model"]), Capability.TEXT_TO_TEXT)
        assert {*odd["choices"]} <= {*refused.value.nearest}
        assert refused.value.nearest or refused.value.able


def test_a_configured_model_answers_to_its_servers_name() -> None:
    """A program that was set up for the server would have to be set up again."""
    own = ModelSpec(name="tutor", backends=("b",), capabilities=TALKS, options={"model": "a/x-8b"})
    assert Catalog([own], []).find("A/X-8B") is own
    named = ModelSpec(name="x-8b", backends=("b",), capabilities=TALKS)
    assert Catalog([own, named], []).find("x-8b") is named  # a name goes before a server's


CONFIG = """
hosts: {box: {vram: 24GB, backends: {studio: {kind: openai, url: URL}}}}
chats: {}
api: {port: 0, open: true}
"""


async def test_programs_may_use_the_servers_names(tmp_path: Path) -> None:
    """Names that worked with the server would be refused, or mean another model."""
    own = "hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M"
    models = [Model(own), Model("phi4:14b")]
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}
    async with (
        serving("ollama", models) as server,
        running(tmp_path, CONFIG.replace("URL", server.url)) as api,
    ):
        for name in (own, "Llama-3.2-3B-Instruct", "phi4"):
            answer = await api.post("/chat/completions", {**body, "model": name})
            assert answer["choices"][0]["message"]["content"]
        asked = [sent["model"] for sent in server.posted("/v1/chat/completions")]
        assert asked == [own, own, "phi4:14b"]
        refused = await api.post("/chat/completions", {**body, "model": "phi4:70b"}, status=404)
        assert "phi4:14b" in refused["error"]["message"]
