"""Opens a server's address, and says in words why that fails."""

import os

from bot.http.listener import Listener


class CannotListen(Exception):
    """An address to serve at is in use, or does not belong to this machine."""


async def open_at(listener: Listener, host: str, port: int) -> int:
    """Begin to listen at an address and return the port. Raises `CannotListen`."""
    try:
        return await listener.open(host or None, port)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise CannotListen(f"cannot listen on {host}:{port}: {why}") from error
