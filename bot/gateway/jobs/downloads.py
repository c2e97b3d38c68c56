"""Sends a stored file to its owner: whole, or the range that a player or a resumed download wants."""

from urllib.parse import quote

from aiohttp import web

from bot.gateway.callers import Caller
from bot.serving.files import FILE_POLICY, FileSender, Sendable

FILE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": FILE_POLICY,
    "Cache-Control": "private, no-cache",
}


class Downloads:
    """Sends files to people's programs; each person's take turns."""

    def __init__(self, sender: FileSender) -> None:
        self._sender = sender

    async def send(
        self, request: web.Request, caller: Caller, file: Sendable
    ) -> web.StreamResponse:
        """Send a file, or the part of it that is asked for. Raises `HTTPException`s, such as 416."""
        about = {"Content-Type": file.mime, "Content-Disposition": _disposition(file.name)}
        return await self._sender.send(
            request, file, whose=caller.user, headers={**FILE_HEADERS, **about}
        )


def _disposition(name: str) -> str:
    plain = "".join(each for each in name if each.isascii() and each.isprintable())
    plain = plain.replace('"', "").replace("\\", "")
    return f"inline; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
