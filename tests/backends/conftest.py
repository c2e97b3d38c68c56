"""A ComfyUI server, and the backend that speaks to it."""

from collections.abc import AsyncIterator

import pytest

from backends.comfyui.backend import ComfyUI
from tests.backends.comfyui.drawing import connect
from tests.fakes.servers.comfyui import FakeComfyUI


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask often and give up soon: the waits are the same, only shorter."""
    monkeypatch.setattr("backends.comfyui.attempts.ASK_S", 0.05)
    monkeypatch.setattr("backends.comfyui.attempts.ASK_LOST_S", 0.02)
    monkeypatch.setattr("backends.comfyui.attempts.GRACE_S", 0.2)
    monkeypatch.setattr("backends.comfyui.progress.CONNECT_S", 0.1)
    monkeypatch.setattr("backends.comfyui.progress.RECONNECT_S", 0.05)


@pytest.fixture
def old() -> bool:
    """Return whether the server is an old one, whose attempts are watched and ended differently."""
    return False


@pytest.fixture
async def fake(old: bool, quick: None) -> AsyncIterator[FakeComfyUI]:
    async with FakeComfyUI(step_s=0.002, old=old) as server:
        yield server


@pytest.fixture
async def comfy(fake: FakeComfyUI) -> AsyncIterator[ComfyUI]:
    backend = connect(fake)
    yield backend
    await backend.aclose()
