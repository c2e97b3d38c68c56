"""Workflow files of other people, and what a server says of its nodes.

Each file of `workflows/checked/` has a `workflow` with placeholders, the `object_info` of nodes that
the recorded server lacks or describes otherwise, and the `files` of its folders. It has the ids of
the nodes that are `sent` and what is `noted`, or why the workflow is `refused`.

Each file of `workflows/read/` has the `text` of a file, and the ids of its `nodes` or why it is
`refused`.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.comfyui.server import ComfyUIServer
from backends.comfyui.verifying import verify
from backends.comfyui.workflow.reading import parse_workflow
from backends.comfyui.workflow.template import Template, prepare, saved_part
from backends.common.http import Http
from queueing.core.errors import BadModel
from tests.backends.comfyui.drawing import connect
from tests.backends.comfyui.workflow.described import recorded
from tests.contracts.backend.harness_comfyui import model
from tests.fakes.servers.comfyui import FakeComfyUI

FOLDER = Path(__file__).with_name("workflows")
CHECKED = sorted((FOLDER / "checked").glob("*.json"))
READ = sorted((FOLDER / "read").glob("*.json"))
NODES = recorded()["nodes"]


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


def read(case: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(case.read_text(encoding="utf-8"))
    return found


def template(odd: dict[str, Any]) -> Template:
    nodes = parse_workflow(json.dumps(odd["workflow"]), name="own.json")
    return prepare(saved_part(nodes), {}, name="own.json")


@pytest.mark.parametrize("case", CHECKED, ids=lambda case: case.stem)
async def test_check_is_as_strict_as_the_server(case: Path) -> None:
    """Workflows that draw would look broken, and broken ones would fail for the members."""
    odd = read(case)
    workflow = template(odd)
    if "refused" in odd:
        with pytest.raises(BadModel) as refused:
            [note async for note in verify(DescribedServer(odd), workflow)]
        assert odd["refused"] in str(refused.value)
        return
    noted = [note async for note in verify(DescribedServer(odd), workflow)]
    assert noted == [f"own.json: {note}" for note in odd.get("noted", [])]
    assert sorted(workflow.nodes) == odd["sent"]


@pytest.mark.parametrize("case", READ, ids=lambda case: case.stem)
def test_a_file_is_read_or_its_author_learns_what_to_do(case: Path) -> None:
    """An operator would give up at the first file that they find."""
    odd = read(case)
    if "nodes" in odd:
        nodes = parse_workflow(odd["text"], name="own.json")
        assert sorted(prepare(saved_part(nodes), {}, name="own.json").nodes) == odd["nodes"]
        return
    with pytest.raises(BadModel) as refused:
        prepare(saved_part(parse_workflow(odd["text"], name="own.json")), {}, name="own.json")
    assert odd["refused"] in str(refused.value)


@pytest.mark.parametrize("there", [True, False])
async def test_a_running_server_is_asked_for_files_in_folders(tmp_path: Path, there: bool) -> None:
    """A logo that the server has would count as missing, or a missing one as there."""
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
