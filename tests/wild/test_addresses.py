"""Addresses of servers as operators write them: prefixes, passwords, fragments, IPv6.

Each file of `addresses/` has a `url`, the address of a `call` and of a `socket`, and the `login`
that both send.
"""

from base64 import b64encode
from pathlib import Path

import pytest

from backends.comfyui.backend import DEAF
from backends.common.http import Http
from tests.backends.comfyui.drawing import connect
from tests.fakes.servers.comfyui import FakeComfyUI
from tests.samples import in_turn
from tests.wild.cases import cases, read_case

CASES = cases("addresses")


@in_turn("case", CASES)
def test_calls_and_sockets_reach_the_server_in_the_same_way(case: Path) -> None:
    """Images would be drawn, but without progress and previews."""
    odd = read_case(case)
    http = Http(odd["url"])
    assert str(http._url("/prompt")) == odd["call"]
    assert str(http.socket_url("/ws")) == odd["socket"]
    login = f"Basic {b64encode(odd['login'].encode()).decode()}" if odd["login"] else None
    assert http.headers.get("Authorization") == login


@pytest.mark.parametrize("refused", [False, True])
async def test_a_server_without_a_websocket_is_noted(refused: bool) -> None:
    """Everything would seem to work, and nobody would know why no progress is shown."""
    async with FakeComfyUI() as fake:
        fake.faults.no_socket = refused
        comfy = connect(fake)
        try:
            assert (DEAF in (await comfy.probe()).notes) is refused
        finally:
            await comfy.aclose()
