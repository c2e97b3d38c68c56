"""Workflow files of other people, and what a server says about its nodes.

Each file of `workflows/checked/` has a `workflow` with placeholders, the `object_info` of nodes
that the recorded server lacks or describes differently, and the `files` of its folders. It has the
ids of the nodes that are `sent` and what is `noted`, or why the workflow is `refused`.

Each file of `workflows/added/` has a `workflow` as its author exported it, what is `placed` when it
becomes a template, and which inputs leave it `unsure` what the prompt is unless one is `chosen`.

Each file of `workflows/read/` has the `text` of a file, and the ids of its `nodes` or why it is
`refused`.
"""

import json
import os
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.comfyui.server import ComfyUIServer
from backends.comfyui.verifying import FAULTS_SHOWN, in_one_line, verify
from backends.comfyui.workflow.drafting import Chosen, Draft, drafted
from backends.comfyui.workflow.exported.foreign import stands_for
from backends.comfyui.workflow.exported.links import InputPlace
from backends.comfyui.workflow.graph.analysis import Medium
from backends.comfyui.workflow.graph.node_types import (
    NumberRange,
    choices_in,
    common,
    input_of,
    inputs_of,
    limits_in,
)
from backends.comfyui.workflow.graph.nodes import FILES, Graph, Node, names_in
from backends.comfyui.workflow.reading import parse_workflow, read_export
from backends.comfyui.workflow.rendering import TINY, fill, warm_up
from backends.comfyui.workflow.template import Template, prepare, saved_part
from backends.common.http import Http
from queueing.core.errors import BadModel, Rejected
from queueing.core.requests import TextToAudio, TextToImage, TextToVideo
from tests.backends.comfyui.drawing import connect
from tests.backends.comfyui.workflow.described import SHIPPED, faults, recorded
from tests.backends.comfyui.workflow.graphs import check_offered
from tests.backends.comfyui.workflow.shipped import shipped
from tests.contracts.backend.harness_comfyui import model
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.samples import in_turn
from tests.wild.cases import read_case

FOLDER = Path(__file__).with_name("workflows")
CHECKED = sorted((FOLDER / "checked").glob("*.json"))
ADDED = sorted((FOLDER / "added").glob("*.json"))
READ = sorted((FOLDER / "read").glob("*.json"))
NODES = recorded()["nodes"]
NUMBERS = {"width", "height", "frames", "seconds", "steps", "guidance", "strength", "fps", "count"}
ASKED: dict[Medium, Any] = {
    Medium.IMAGE: TextToImage,
    Medium.VIDEO: TextToVideo,
    Medium.SOUND: TextToAudio,
}


class DescribedServer(ComfyUIServer):
    """A server with these nodes and files."""

    def __init__(self, odd: dict[str, Any]) -> None:
        super().__init__(Http("http://127.0.0.1:9"))
        self.nodes = {**NODES, **odd.get("object_info", {})}
        self.files = odd.get("files", [])

    async def node_type(self, class_type: str) -> Any:
        return {class_type: self.nodes[class_type]} if class_type in self.nodes else {}

    async def has_file(self, filename: str, subfolder: str, kind: str) -> bool:
        return "/".join(filter(None, (kind, subfolder, filename))) in self.files


def template(odd: dict[str, Any]) -> Template:
    nodes = parse_workflow(json.dumps(odd["workflow"]), name="own.json")
    return prepare(saved_part(nodes), {}, name="own.json")


@in_turn("case", CHECKED)
async def test_check_is_as_strict_as_the_server(case: Path) -> None:
    """Workflows that draw would look broken, and broken ones fail for the members."""
    odd = read_case(case)
    workflow = template(odd)
    if "refused" in odd:
        with pytest.raises(BadModel) as refused:
            await verify(DescribedServer(odd), [workflow])
        wanted = odd["refused"] if isinstance(odd["refused"], list) else [odd["refused"]]
        assert [said for said in wanted if said not in str(refused.value)] == []
        assert str(refused.value).count("own.json: ") == len(wanted)
        return
    noted = await verify(DescribedServer(odd), [workflow])
    assert noted == [f"own.json: {note}" for note in odd.get("noted", [])]
    assert sorted(workflow.nodes) == odd["sent"]


def test_many_faults_are_counted() -> None:
    """A workflow of fifty missing nodes would flood the operator's terminal."""
    faults = [f"fault {number}" for number in range(FAULTS_SHOWN + 3)]
    assert in_one_line(faults).endswith("fault 7. 3 more")
    assert in_one_line(faults[:2]) == "fault 0. fault 1"


@in_turn("case", READ)
def test_a_file_is_read_or_its_author_learns_what_to_do(case: Path) -> None:
    """An operator would give up at the first file that they find."""
    odd = read_case(case)
    if "nodes" in odd:
        nodes = parse_workflow(odd["text"], name="own.json")
        assert sorted(prepare(saved_part(nodes), {}, name="own.json").nodes) == odd["nodes"]
        return
    with pytest.raises(BadModel) as refused:
        prepare(saved_part(parse_workflow(odd["text"], name="own.json")), {}, name="own.json")
    assert odd["refused"] in str(refused.value)


@pytest.mark.parametrize("there", [True, False])
async def test_a_running_server_is_asked_for_files_in_folders(tmp_path: Path, there: bool) -> None:
    """A logo that the server has would count as missing, or a missing one as present."""
    own = tmp_path / "own.json"
    asked = {"text": "{{prompt}}", "seed": "{{seed}}", "steps": 4}
    nodes = {
        "1": {"class_type": "LoadImage", "inputs": {"image": "marks/logo.png"}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": ""}},
        "3": {"class_type": "Sleep", "inputs": asked},
    }
    own.write_text(json.dumps(nodes), encoding="utf-8")
    spec = replace(model(), capabilities=frozenset(), options={"workflow": str(own)})
    async with FakeComfyUI() as fake:
        if there:
            fake.files["input", "marks", "logo.png"] = b"a picture"
        comfy = connect(fake)
        try:
            if there:
                await comfy.verify(spec)
            else:
                with pytest.raises(BadModel, match=r"no file marks/logo\.png"):
                    await comfy.verify(spec)
        finally:
            await comfy.aclose()


# ---------------------------------------------------------------- turned into templates


def export(odd: dict[str, Any]) -> Graph:
    return read_export(odd.get("text") or json.dumps(odd["workflow"]), name="own.json")


def authors_server(nodes: Graph, more: dict[str, Any]) -> dict[str, Any]:
    """Return the nodes of a server that has the author's files and node packs."""
    found: dict[str, Any] = {**NODES, **more}
    for node in nodes.values():
        known = found.get(node.class_type)
        info = found[node.class_type] = deepcopy(known) if known else stand_in(node)
        for part in info["input"].values():
            for name, kind in part.items():
                value, choices = node.inputs.get(name), choices_in(kind)
                if choices is not None and value and isinstance(value, str):
                    rules = kind[1] if len(kind) > 1 else {}
                    part[name] = [sorted({*choices, value}), rules]
    return found


def stand_in(node: Node) -> dict[str, Any]:
    """Return a node type that accepts exactly a node's inputs."""
    kinds = {str: "STRING", int: "FLOAT", float: "FLOAT", bool: "BOOLEAN"}
    inputs: dict[str, Any] = {
        name: ["FLOAT", {"default": 8}] if is_mark(value) else [kinds.get(type(value), "*"), {}]
        for name, value in node.inputs.items()
    }
    saves = "save" in node.class_type.casefold() or "filename_prefix" in node.inputs
    return {"input": {"optional": inputs}, "output": ["*"] * 12, "output_node": saves}


def is_mark(value: Any) -> bool:
    """Return whether a value is another program's mark for a number."""
    return isinstance(value, str) and stands_for(value) in NUMBERS


def chosen(odd: dict[str, Any]) -> Chosen:
    node, _, name = odd.get("chosen", {}).get("prompt", "").partition(".")
    return Chosen(prompt=InputPlace(node=node, name=name) if node else None)


def placed(before: Graph, after: Graph) -> dict[str, Any]:
    """Return what differs: inputs of nodes, and the types of new or other nodes."""
    found: dict[str, Any] = {}
    for key, node in after.items():
        old = before.get(key)
        if old is None or old.class_type != node.class_type:
            found[key] = f"new {node.class_type}" if old is None else node.class_type
            inputs = {name: value for name, value in node.inputs.items() if names_in([value])}
        else:
            inputs = {k: value for k, value in node.inputs.items() if old.inputs.get(k) != value}
        found |= {f"{key}.{name}": value for name, value in inputs.items()}
    return found


def faults_of(draft: Draft, offered: dict[str, Any]) -> list[str]:
    """Return what a server refuses of a template: as it is, for a request, and for a load."""
    workflow = prepare(saved_part(draft.nodes), {}, name="own.json")
    for key in workflow.nodes:
        check_offered(workflow, key, offered)
    files = {word: f"{word}.png" for word in workflow.needs}
    asked = ASKED[workflow.medium](prompt="a red fox", seed=7)
    limits = {
        word: common(
            limits_in(input_of(offered, *place)) or NumberRange()
            for place in inputs_of(workflow.nodes, word)
        )
        for word in ("seed", "frames", *TINY)
    }
    filled = fill(workflow, asked, prefix="usher/1", files=files)
    loading = warm_up(workflow, seed=3, files=files, limits=limits)
    uploads = ("image is", "audio is")
    found = [fault for graph in (filled, loading) for fault in faults(graph, offered)]
    return [
        fault for fault in found if "unknown" not in fault and not any(u in fault for u in uploads)
    ]


@in_turn("case", ADDED)
def test_an_export_becomes_a_template_that_its_authors_server_runs(case: Path) -> None:
    """An operator would have to learn what every node means before anybody can draw.

    A second try would add placeholders to placeholders.
    """
    odd = read_case(case)
    before = export(odd)
    offered = authors_server(before, odd.get("object_info", {}))
    draft = drafted(before, offered, chosen(odd))
    assert placed(before, draft.nodes) == odd["placed"]
    assert list(map(str, draft.candidates)) == odd.get("unsure", [])
    if not draft.candidates:
        assert faults_of(draft, offered) == []
        assert drafted(draft.nodes, offered, Chosen()).nodes == draft.nodes


@in_turn("case", ADDED)
def test_an_export_becomes_a_template_where_no_server_is_known(case: Path) -> None:
    """An operator would have to start their servers to prepare a workflow."""
    odd = read_case(case)
    draft = drafted(export(odd), {}, chosen(odd))
    if not draft.candidates and "object_info" not in odd:
        prepare(saved_part(draft.nodes), {}, name="own.json")


@in_turn("path", SHIPPED)
def test_shipped_workflows_are_found_again(path: Path) -> None:
    """The options of Usher's own templates would be missing in other people's."""
    own = shipped(path)
    files = {word: f"{word}.png" for word in own.placeholders & FILES}
    asked = ASKED[own.medium](prompt="a red fox in the snow", seed=9)
    before = fill(own, asked, prefix="x", files=files)
    draft = drafted(before, NODES, Chosen())
    assert draft.candidates == ()
    again = prepare(saved_part(draft.nodes), {}, name="own.json")
    unguided = {"guidance", "negative"} if own.defaults.get("guidance") == 1 else set()
    assert own.placeholders - again.placeholders <= {"lora", "fps", "negative"} | unguided
    assert again.abilities <= own.abilities
    assert faults_of(draft, authors_server(before, {})) == []


OTHERS = [Path(folder) for folder in filter(None, [os.environ.get("USHER_WORKFLOWS")])]


@pytest.mark.thorough
@pytest.mark.parametrize("folder", OTHERS, ids=lambda folder: folder.name)
def test_nine_of_ten_files_of_others_run_without_an_edit(folder: Path) -> None:
    """Set USHER_WORKFLOWS to a folder of exports; prints what becomes of each.

    Files in other formats do not count, and neither do faults that an export has itself.
    """
    outcomes = dict[str, str]()
    for path in sorted(folder.rglob("*.json")):
        try:
            outcomes[path.name] = outcome_of(export({"text": path.read_text("utf-8-sig")}))
        except BadModel as error:
            print(f"{path.name}: no export: {error}")
    print(*(f"{name}: {outcome}" for name, outcome in outcomes.items()), sep="\n")
    good = sum(outcome == "runs" for outcome in outcomes.values())
    print(f"{good} of {len(outcomes)} run")
    assert good >= 0.9 * len(outcomes) > 0


def outcome_of(before: Graph) -> str:
    offered = authors_server(before, {})
    try:
        draft = drafted(before, offered, Chosen())
        if draft.candidates:
            return f"unsure: {', '.join(map(str, draft.candidates))}"
        own = faults(saved_part(before), offered)
        return "; ".join(each for each in faults_of(draft, offered) if each not in own) or "runs"
    except (BadModel, Rejected) as error:
        return str(error)
