"""Every shipped workflow on a real ComfyUI process, with empty files in place of the models.

`USHER_COMFYUI_PYTHON` and `USHER_COMFYUI_FOLDER` as in `test_comfyui_real`. With
`USHER_COMFYUI_RECORD=1` the recorded description of its nodes is written anew.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from backends.comfyui.workflow.graph.nodes import as_json
from tests.backends.comfyui.test_comfyui_real import pytestmark, served
from tests.backends.comfyui.workflow.described import SHIPPED, faults, recorded, trimmed, write
from tests.backends.comfyui.workflow.shipped import asked, everything_asked, files, shipped
from tests.fakes.ports import free_port

__all__ = ["pytestmark"]


@pytest.fixture
async def comfyui(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Run a server whose folders hold an empty file for each name in the templates."""
    for path in SHIPPED:
        for name in files(shipped(path)):
            file = tmp_path / "models" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
    (tmp_path / "custom_nodes").mkdir()
    port = free_port()
    async with (
        served(port, "--base-directory", str(tmp_path)),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client,
    ):
        yield client


async def test_every_template_is_accepted(comfyui: httpx.AsyncClient) -> None:
    """The server would refuse a template that its recorded description accepts."""
    offered = (await comfyui.get("/object_info")).json()
    system = (await comfyui.get("/system_stats")).json()["system"]
    if os.environ.get("USHER_COMFYUI_RECORD"):
        write(system["comfyui_version"], offered)
    told = recorded()
    if told["version"] == system["comfyui_version"]:
        assert trimmed(offered) == told["nodes"]
    upload = {"image": ("a.png", b"looked at when it runs", "image/png")}
    await comfyui.post("/upload/image", files=upload, data={"subfolder": "usher"})
    for path in SHIPPED:
        template = shipped(path)
        for graph in (asked(template), everything_asked(template)):
            assert faults(graph, offered) == []
            body = {"prompt": as_json(graph), "prompt_id": str(uuid4()), "client_id": "test"}
            answer = await comfyui.post("/prompt", json=body)
            seen = path.name, answer.status_code, answer.json()["node_errors"]
            assert seen == (path.name, 200, {})
