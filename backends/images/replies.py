"""What picture servers answer, and the pictures in it.

Pictures come as base64 or as an address on the same server.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue
from yarl import URL

from backends.common.http import Http
from backends.common.replies import ServerReply, read
from queueing.core.errors import UnreadableAnswer

PICTURES_MOST = 16  # of one answer; some servers add previews or layers


class ListedName(ServerReply):
    """An entry of /v1/models."""

    id: str
    owned_by: str | None = None


class NameListing(ServerReply):
    """GET /v1/models."""

    data: tuple[ListedName, ...]


class DrawnItem(ServerReply):
    """A picture of an answer."""

    b64_json: str | None = None
    url: str | None = None


class DrawnItems(ServerReply):
    """The answer to /v1/images/generations and /v1/images/edits."""

    data: tuple[DrawnItem, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnPicture:
    """A picture a server made: its base64, or a path on the server."""

    base64: str = ""
    path: str = ""


async def listing(http: Http) -> tuple[str, ...]:
    """Return the names in GET /v1/models."""
    return tuple(entry.id for entry in read(NameListing, await http.get_json("/v1/models")).data)


def drawn(http: Http, body: JsonValue) -> tuple[DrawnPicture, ...]:
    """Return the pictures of an answer in OpenAI's shape."""
    items = read(DrawnItems, body).data
    return within_bounds([picture_at(http, item.b64_json or item.url or "") for item in items])


def within_bounds(pictures: Sequence[DrawnPicture]) -> tuple[DrawnPicture, ...]:
    """Return the pictures of an answer. Raises `UnreadableAnswer` for more than any request wants."""
    if len(pictures) > PICTURES_MOST:
        raise UnreadableAnswer(f"unexpected answer: {len(pictures)} pictures")
    return tuple(pictures)


def picture_at(http: Http, where: str) -> DrawnPicture:
    """Return the picture that base64, a data address or an address on the same server stand for.

    Raises `UnreadableAnswer` for an address anywhere else: a server must not choose whom Usher calls.
    """
    if where.startswith("data:"):
        return DrawnPicture(base64=where.partition(",")[2])
    if where.startswith(("http:", "https:")):
        return DrawnPicture(path=_path_below(http, where))
    if where.startswith(("/", "View/", "Output/")):
        return DrawnPicture(path="/" + where.lstrip("/"))
    return DrawnPicture(base64=where)


def _path_below(http: Http, address: str) -> str:
    base = URL(http.base)
    prefix = base.path.rstrip("/")
    try:
        url = URL(address)
        here = url.origin() == base.origin() and url.path.startswith(prefix + "/")
    except ValueError:
        raise UnreadableAnswer("unexpected answer: a picture at no valid address") from None
    if not here:
        raise UnreadableAnswer("the server names a picture on another server")
    return url.raw_path.removeprefix(prefix)
