"""Wakes machines over the network, and puts them to sleep by a command or a webhook.

A call to wake is the "magic packet" of Wake-on-LAN: six bytes of ones, then the hardware address
sixteen times, broadcast over UDP. Nothing answers it.
"""

import asyncio
import os
import socket
import tempfile
from contextlib import suppress

import httpx

from queueing.core.concurrency import timeout
from queueing.core.errors import Unavailable
from queueing.core.specs import HostSpec, WakeSpec

COMMAND_S = 60.0
WEBHOOK_S = 30.0
_PASSED_ON = ("PATH", "HOME", "USER", "LANG", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "SYSTEMROOT")
_TOLD = 200  # bytes of what a command wrote as it failed


class NetworkHostControl:
    """Implements `queueing.core.ports.HostControl`."""

    async def wake(self, host: HostSpec) -> None:
        """Broadcast one packet. Raises `Unavailable` where the network refuses it."""
        if host.wake is not None:
            try:
                await asyncio.to_thread(_call, host.wake)
            except OSError as error:
                raise Unavailable(f"{host.wake.broadcast}: {error}") from error

    async def sleep(self, host: HostSpec) -> None:
        """Run the command, or call the webhook. Raises `Unavailable` when that fails."""
        if host.sleep is not None and host.sleep.command:
            await _run(host.sleep.command)
        elif host.sleep is not None:
            await _post(host.sleep.webhook, host.machine_name)


def magic_packet(mac: str) -> bytes:
    """Return what wakes the machine of a hardware address, which is twelve hexadecimal digits."""
    return b"\xff" * 6 + bytes.fromhex(mac) * 16


def _call(wake: WakeSpec) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sender.sendto(magic_packet(wake.mac), (wake.broadcast, wake.port))


async def _run(command: tuple[str, ...]) -> None:
    """Run a command without a shell, and without the secrets of this process's environment."""
    given = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    with tempfile.TemporaryFile() as said:
        try:
            running = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=said,  # no pipe: `ssh` may leave a connection behind that holds it open
                env=given,
            )
        except OSError as error:
            raise Unavailable(f"{command[0]}: {error.strerror}") from error
        await _ended(running, command[0])
        if running.returncode:
            said.seek(max(0, os.fstat(said.fileno()).st_size - _TOLD))
            text = said.read(_TOLD).decode(errors="replace").strip()
            raise Unavailable(f"{command[0]} ended with status {running.returncode}: {text}")


async def _ended(running: asyncio.subprocess.Process, name: str) -> None:
    """Wait for the end of a command. Raises `Unavailable` where it takes too long."""
    try:
        async with timeout(COMMAND_S):
            await running.wait()
    except TimeoutError:
        raise Unavailable(f"{name} has not ended in {COMMAND_S:.0f} s") from None
    finally:
        if running.returncode is None:
            with suppress(ProcessLookupError):
                running.kill()
            await running.wait()


async def _post(url: str, host: str) -> None:
    try:
        async with httpx.AsyncClient(timeout=WEBHOOK_S, trust_env=False) as client:
            answer = await client.post(url, json={"sleep": host})
    except httpx.HTTPError as error:  # its text may repeat the address, which may hold a secret
        raise Unavailable(f"the webhook cannot be called: {type(error).__name__}") from None
    if not answer.is_success:
        raise Unavailable(f"the webhook answered {answer.status_code}")
