"""`GET /v1/originals/…`: a file of a result, for any holder of its signed link."""

from aiohttp import web

from bot.http import signed_links
from bot.http.address import Clients
from bot.http.files import FileSender
from bot.http.signed_links import LinkReader

ROUTE = f"GET /v1{signed_links.PATH}"


class OriginalFiles:
    """Serves signed links. They need no key, and one that is sent along is not looked at."""

    def __init__(self, links: LinkReader, clients: Clients, sender: FileSender) -> None:
        self._links = links
        self._clients = clients
        self._sender = sender

    async def get(self, request: web.Request) -> web.StreamResponse:
        """Send the file of a link; every invalid link is 404."""
        forwarded = request.headers.getall("X-Forwarded-For", [])
        whose = f"link {self._clients.of(request.remote or '', forwarded)}"
        return await signed_links.answer(request, self._links, self._sender, whose=whose)
