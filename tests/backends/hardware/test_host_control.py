"""How machines are woken and put to sleep: the packet, the command, the webhook."""

import asyncio
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from backends.hardware import host_control
from backends.hardware.host_control import NetworkHostControl, magic_packet
from queueing.core.errors import Unavailable
from queueing.core.specs import HostSpec, SleepSpec, WakeSpec

HOST = HostSpec(name="gpu-2", vram_mb=24000, backends=())
MAC = "001a2b3c4d5e"


def sleeping(*command: str, webhook: str = "") -> HostSpec:
    return replace(HOST, sleep=SleepSpec(after_s=60.0, command=command, webhook=webhook))


def test_the_packet_is_that_of_wake_on_lan() -> None:
    """No network card would react."""
    packet = magic_packet(MAC)
    assert len(packet) == 102
    assert packet[:6] == b"\xff\xff\xff\xff\xff\xff"
    assert packet[6:] == b"\x00\x1a\x2b\x3c\x4d\x5e" * 16


async def test_it_is_sent_to_the_address_and_port() -> None:
    """A machine in another network would never hear it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(20)
        port = listener.getsockname()[1]
        wake = WakeSpec(mac=MAC, broadcast="127.0.0.1", port=port)
        await NetworkHostControl().wake(replace(HOST, wake=wake))
        assert await asyncio.to_thread(listener.recv, 200) == magic_packet(MAC)


async def test_a_command_runs_without_a_shell_and_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name with a semicolon would run something else; a token would reach another program."""
    monkeypatch.setenv("TELEGRAM_TOKEN", "secret")
    told = tmp_path / "told"
    code = "import os, sys; open(sys.argv[1], 'w').write(sys.argv[2] + str('TELEGRAM_TOKEN' in os.environ))"
    await NetworkHostControl().sleep(sleeping(sys.executable, "-c", code, str(told), "; exit 1 #"))
    assert told.read_text() == "; exit 1 #False"


async def test_a_command_that_fails_says_why() -> None:
    """The log would say that the machine sleeps."""
    code = "import sys; sys.exit('no rights')"
    with pytest.raises(Unavailable, match="ended with status 1: no rights"):
        await NetworkHostControl().sleep(sleeping(sys.executable, "-c", code))
    with pytest.raises(Unavailable, match="there-is-no-such-program"):
        await NetworkHostControl().sleep(sleeping("there-is-no-such-program"))


@pytest.mark.parametrize("status", [0, 3])
async def test_what_a_command_leaves_running_holds_nothing_up(tmp_path: Path, status: int) -> None:
    """The sleep would seem to fail where `ssh` leaves a process that keeps standard error open."""
    left = tmp_path / "left"
    code = (
        "import subprocess, sys; left = subprocess.Popen([sys.executable, '-c', 'import time; "
        "time.sleep(600)']); open(sys.argv[1], 'w').write(str(left.pid)); "
        "sys.stderr.write('x' * 999 + 'why'); sys.exit(int(sys.argv[2]))"
    )
    slept = NetworkHostControl().sleep(sleeping(sys.executable, "-c", code, str(left), str(status)))
    try:
        if status:
            with pytest.raises(Unavailable, match=r"ended with status 3: x{197}why$"):
                await slept
        else:
            await slept
    finally:
        os.kill(int(left.read_text()), signal.SIGKILL)


async def test_a_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more command would hang each time the machine is idle."""
    monkeypatch.setattr(host_control, "COMMAND_S", 0.5)
    with pytest.raises(Unavailable, match="did not end"):
        await NetworkHostControl().sleep(
            sleeping(sys.executable, "-c", "import time; time.sleep(600)")
        )


@pytest.mark.parametrize("status", [204, 500])
async def test_a_webhook_is_told_which_machine_and_its_refusal_is_seen(status: int) -> None:
    """A webhook for several machines would not know which; a failure would look like sleep."""
    told: list[object] = []

    async def answer(request: web.Request) -> web.Response:
        told.append(await request.json())
        return web.Response(status=status)

    application = web.Application()
    application.router.add_post("/switch", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        asleep = NetworkHostControl().sleep(sleeping(webhook=f"http://{host}:{port}/switch?key=k"))
        if status == 204:
            await asleep
        else:
            with pytest.raises(Unavailable, match="returned status 500") as refused:
                await asleep
            assert "key" not in str(refused.value)
    finally:
        await runner.cleanup()
    assert told == [{"sleep": "gpu-2"}]


async def test_a_webhook_that_is_away_repeats_no_secret_of_its_address() -> None:
    """The log would contain a key."""
    with pytest.raises(Unavailable, match="call failed") as refused:
        await NetworkHostControl().sleep(sleeping(webhook="http://127.0.0.1:1/switch?key=k"))
    assert "key" not in str(refused.value)
