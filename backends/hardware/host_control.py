"""Wakes hosts over the network, and puts them to sleep with a command or a webhook.

A host is woken by Wake-on-LAN's "magic packet": six 0xFF bytes, then the MAC address sixteen times,
broadcast over UDP. There is no reply.
"""

import asyncio
import os
import socket
import tempfile
from contextlib import suppress

import httpx

from backends.common.proxies import NO_PROXIES, Proxies, through
from queueing.core.concurrency import timeout
from queueing.core.errors import Unavailable
from queueing.core.specs import HostSpec, WakeSpec

COMMAND_S = 60.0
WEBHOOK_S = 30.0
_KEPT_VARIABLES = ("PATH", "HOME", "USER", "LANG", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "SYSTEMROOT")
_OUTPUT_MOST = 200  # bytes of a failed command's output


class NetworkHostControl:
    """Implements `queueing.core.ports.HostControl`."""

    def __init__(self, proxies: Proxies = NO_PROXIES) -> None:
        self._proxies = proxies

    async def wake(self, host: HostSpec) -> None:
        """Broadcast one packet. Raises `Unavailable` if it cannot be sent."""
        if host.wake is not None:
            try:
                await asyncio.to_thread(_send_packet, host.wake)
            except OSError as error:
                raise Unavailable(f"{host.wake.broadcast}: {error}") from error

    async def sleep(self, host: HostSpec) -> None:
        """Run the command or call the webhook. Raises `Unavailable` if that fails."""
        if host.sleep is not None and host.sleep.command:
            await _run(host.sleep.command)
        elif host.sleep is not None:
            url = host.sleep.webhook
            await _post(url, host.machine_name, self._proxies.to(url))


def magic_packet(mac: str) -> bytes:
    """Return the packet that wakes the host with a MAC address of twelve hexadecimal digits."""
    return b"\xff" * 6 + bytes.fromhex(mac) * 16


def _send_packet(wake: WakeSpec) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        sender.sendto(magic_packet(wake.mac), (wake.broadcast, wake.port))


async def _run(command: tuple[str, ...]) -> None:
    """Run a command without a shell, and without the secrets in this process's environment."""
    given = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    with tempfile.TemporaryFile() as said:
        try:
            running = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=said,  # not a pipe: a connection left by `ssh` may keep it open
                env=given,
            )
        except OSError as error:
            raise Unavailable(f"{command[0]}: {error.strerror}") from error
        await _wait_for(running, command[0])
        if running.returncode:
            said.seek(max(0, os.fstat(said.fileno()).st_size - _OUTPUT_MOST))
            text = said.read(_OUTPUT_MOST).decode(errors="replace").strip()
            raise Unavailable(f"{command[0]} ended with status {running.returncode}: {text}")


async def _wait_for(running: asyncio.subprocess.Process, name: str) -> None:
    """Wait for a command to end. Raises `Unavailable` if it takes too long."""
    try:
        async with timeout(COMMAND_S):
            await running.wait()
    except TimeoutError:
        raise Unavailable(f"{name} did not end within {COMMAND_S:.0f} s") from None
    finally:
        if running.returncode is None:
            with suppress(ProcessLookupError):
                running.kill()
            await running.wait()


async def _post(url: str, host: str, proxy: str | None) -> None:
    try:
        async with httpx.AsyncClient(timeout=WEBHOOK_S, proxy=proxy, trust_env=False) as client:
            answer = await client.post(url, json={"sleep": host})
    except httpx.HTTPError as error:  # its text may contain the address and a secret in it
        text = f"the webhook call failed: {type(error).__name__}{through(proxy)}"
        raise Unavailable(text) from None
    if not answer.is_success:
        raise Unavailable(f"the webhook returned status {answer.status_code}")
