"""Reads image servers' responses: maps errors, and removes metadata from the images.

Images arrive as base64 or as an address on the same server.
"""

import asyncio
import binascii
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import JsonValue
from yarl import URL

from backends.common.error_rules import (
    ABOUT_CONTENT,
    ABOUT_MEMORY,
    ErrorRule,
    answers_judged,
    judged,
    judged_answer,
)
from backends.common.file_types import is_image, mime_of
from backends.common.http import Http
from backends.common.model_server import NO_MODEL
from backends.common.server_replies import ServerReply, read
from backends.media.result_files import KeptBack, bare
from queueing.core.errors import (
    BadModel,
    Busy,
    Interrupted,
    NotLoaded,
    ProblemKind,
    Rejected,
    UnreadableAnswer,
    problem,
)
from queueing.core.requests import File, Output

STEP_FAILED = problem(ProblemKind.STEP_FAILED)

# The first match decides.
RULES: Sequence[ErrorRule] = (
    ABOUT_CONTENT,
    *ABOUT_MEMORY,
    ErrorRule(kind=Busy, sentences=("job queue is full[.]?",)),
    ErrorRule(
        kind=Interrupted,
        codes=frozenset({"cancelled", "interrupted"}),
        sentences=("(the )?(request|generation|job|task)? ?(was )?(interrupted|cancelled).*",),
    ),
    ErrorRule(
        kind=NotLoaded,
        sentences=("no model loaded[.]?", "(the )?model is not loaded[.]?"),
    ),
    ErrorRule(
        kind=BadModel,
        told=NO_MODEL,
        codes=frozenset({"model_not_found", "bad_route"}),
        sentences=(
            "(the )?model ([^ ]+ )?(not found|does not exist)[.]?",
            "no such model[.:]?( [^ ]+)?",
            "loaded model does not support img_gen[.]?",
        ),
    ),
    ErrorRule(
        kind=Rejected,
        told=STEP_FAILED,
        codes=frozenset({"generation_failed"}),
        words=("returned no results",),
    ),
)

classify = partial(judged, RULES)
classify_answer = partial(judged_answer, RULES)
classified = partial(answers_judged, RULES)


IMAGES_MOST = 16  # in one response; some servers add previews or layers


class ListedName(ServerReply):
    """An entry of /v1/models."""

    id: str
    owned_by: str | None = None


class NameListing(ServerReply):
    """GET /v1/models."""

    data: tuple[ListedName, ...]


class DrawnItem(ServerReply):
    """An image in a response."""

    b64_json: str | None = None
    url: str | None = None


class DrawnItems(ServerReply):
    """The response of /v1/images/generations and /v1/images/edits."""

    data: tuple[DrawnItem, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawnImage:
    """An image a server created: its base64, or a path on the server."""

    base64: str = ""
    path: str = ""


async def listing(http: Http) -> tuple[str, ...]:
    """Return the names in GET /v1/models."""
    return tuple(entry.id for entry in read(NameListing, await http.get_json("/v1/models")).data)


def drawn(http: Http, body: JsonValue) -> tuple[DrawnImage, ...]:
    """Return the images in a response in OpenAI's form."""
    items = read(DrawnItems, body).data
    return within_bounds([image_at(http, item.b64_json or item.url or "") for item in items])


def within_bounds(images: Sequence[DrawnImage]) -> tuple[DrawnImage, ...]:
    """Return the images of a response. Raises `UnreadableAnswer` for more than `IMAGES_MOST`."""
    if len(images) > IMAGES_MOST:
        raise UnreadableAnswer(f"unexpected answer: {len(images)} images")
    return tuple(images)


def image_at(http: Http, where: str) -> DrawnImage:
    """Return an image given as base64, a data URL or an address on the same server.

    Raises `UnreadableAnswer` for any other address: a server must not choose which hosts Usher
    calls.
    """
    if where.startswith("data:"):
        return DrawnImage(base64=where.partition(",")[2])
    if where.startswith(("http:", "https:")):
        return DrawnImage(path=_path_below(http, where))
    if where.startswith(("/", "View/", "Output/")):
        return DrawnImage(path="/" + where.lstrip("/"))
    return DrawnImage(base64=where)


def _path_below(http: Http, address: str) -> str:
    base = URL(http.base)
    prefix = base.path.rstrip("/")
    try:
        url = URL(address)
        here = url.origin() == base.origin() and url.path.startswith(prefix + "/")
    except ValueError:
        raise UnreadableAnswer("unexpected answer: an invalid image address") from None
    if not here:
        raise UnreadableAnswer("the server refers to an image on another server")
    return url.raw_path.removeprefix(prefix)


IMAGE_LIMIT = 64 * 1024 * 1024  # bytes of one image
KEPT_BACK = problem(ProblemKind.KEPT_BACK)
NO_IMAGE = problem(ProblemKind.NO_IMAGE)

_log = logging.getLogger(__name__)


async def collected(
    http: Http, images: Sequence[DrawnImage], model: str, *, keep_metadata: bool
) -> Output:
    """Fetch all images of an attempt; `keep_metadata` leaves the server's metadata in them.

    An image whose metadata cannot be removed is omitted, and `missing` says so. Raises `Rejected`
    if no image is left, and `UnreadableAnswer` for anything that is not an image.
    """
    if not images:
        raise Rejected(f"the attempt ended without an image ({model})", problem=NO_IMAGE)
    given: list[File] = []
    for number, image in enumerate(images, start=1):
        data = await _bytes(http, image)
        if not is_image(mime_of(data)):
            raise UnreadableAnswer("the server's answer is not an image")
        try:
            data = data if keep_metadata else await _cleaned(data)
        except KeptBack as why:
            _log.warning("%s: an image is withheld: %s", model, why)
            continue
        mime = mime_of(data)
        name = f"{model}-{number}.{mime.rpartition('/')[2].replace('jpeg', 'jpg')}"
        given.append(File(name=name, mime=mime, data=data))
    if not given:
        raise Rejected(f"the metadata of no image of {model} could be removed", problem=KEPT_BACK)
    missing = "" if len(given) == len(images) else KEPT_BACK.code()
    return Output(files=tuple(given), missing=missing)


async def _cleaned(data: bytes) -> bytes:
    try:
        return await bare(data)
    except ValueError as error:
        raise UnreadableAnswer(f"the server sent a damaged image: {error}") from error


async def _bytes(http: Http, image: DrawnImage) -> bytes:
    if image.path:
        with classified():
            data, _ = await http.get_bytes(image.path, limit=IMAGE_LIMIT)
        return data
    try:
        return await asyncio.to_thread(binascii.a2b_base64, image.base64, strict_mode=True)
    except ValueError:  # binascii.Error, or non-ASCII letters
        raise UnreadableAnswer("the server's answer is not base64") from None
