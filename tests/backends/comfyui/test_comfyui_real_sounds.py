"""Sounds that a real ComfyUI process saves, by each of its older saving nodes.

`USHER_COMFYUI_PYTHON` and `USHER_COMFYUI_FOLDER` as in `test_comfyui_real`; no model is needed.
"""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

from queueing.core.requests import Capability, TextToAudio, Work
from queueing.core.specs import ModelSpec
from tests.backends.comfyui.drawing import ignore
from tests.backends.comfyui.test_comfyui_real import connect, pytestmark, served
from tests.backends.comfyui.workflow.graphs import Nodes, node
from tests.fakes.ports import free_port

__all__ = ["pytestmark"]

SECRET = "a cat on a mat"
SOUNDS: dict[str, dict[str, Any]] = {
    "audio/mpeg": node("SaveAudioMP3", audio=["silence", 0], quality="V0", filename_prefix="x"),
    "audio/flac": node("SaveAudio", audio=["silence", 0], filename_prefix="x"),
    "audio/ogg": node("SaveAudioOpus", audio=["silence", 0], quality="128k", filename_prefix="x"),
}


def song(save: dict[str, Any]) -> Nodes:
    return {
        "words": node("PrimitiveString", value="{{prompt}}"),
        "seed": node("PrimitiveInt", value="{{seed}}"),
        "silence": node("EmptyAudio", duration="{{seconds:2}}", sample_rate=44100, channels=2),
        "save": save,
    }


async def test_sounds_come_back(tmp_path: Path) -> None:
    """Music would be made and lost, or its file would contain the prompt."""
    (tmp_path / "custom_nodes").mkdir()
    port = free_port()
    async with served(port, "--base-directory", str(tmp_path)):
        backend = connect(port)
        for mime, save in SOUNDS.items():
            file = tmp_path / f"{mime.replace('/', '-')}.json"
            file.write_text(json.dumps(song(save)), encoding="utf-8")
            spec = ModelSpec(
                name=mime,
                backends=("comfy",),
                capabilities=frozenset({Capability.TEXT_TO_AUDIO}),
                options={"workflow": str(file)},
            )
            await backend.verify(spec)
            await backend.load(spec)
            request = TextToAudio(prompt=SECRET, seconds=1.5)
            fetch = await backend.run(spec, Work(key=str(uuid4()), request=request), ignore)
            (made,) = (await fetch()).files
            assert made.mime == mime
            assert SECRET.encode() not in made.data
        await backend.aclose()
