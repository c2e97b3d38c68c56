"""Serves a person's own results to the gallery: lists of files, the files, and marks.

Whatever a result can become is offered as a command, which the page runs as a submitted form.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

from aiohttp import web
from pydantic import Field, ValidationError

from bot.core.live_settings import LiveSettings
from bot.http.files import FileSender, Sendable
from bot.people.web_people import WebPerson
from bot.platforms.web.chat.calls import Calls
from bot.platforms.web.chat.protocol import FavouriteMark
from bot.platforms.web.chat.thumbnails import Thumbnails
from bot.platforms.web.routes.assets import require_own_page
from bot.platforms.web.routes.gallery_store import GalleryFile, GalleryStore, MediaKind, Wanted
from bot.platforms.web.routes.sessions import Sessions
from bot.requests.rules import RuleTable, offered
from bot.texts.results import abilities_of
from queueing.core.catalog import Catalog
from queueing.core.errors import StoreError
from queueing.core.requests import Generation, Record, TextToImage

TILE = 320  # pixels of the longer side of a small image
_NUMBERED = 4  # images of a result that the commands can name
_NO_CACHE = {"Cache-Control": "private, no-cache"}


class GalleryQuery(Record):
    """What the page asks for, as strings in the address."""

    before: Annotated[int, Field(ge=1, lt=2**63)] | None = None
    kind: MediaKind | None = None
    model: str | None = Field(default=None, max_length=200)
    text: str = Field(default="", max_length=200)
    favourite: bool = False


class GalleryItem(Record):
    """A file as the gallery shows it. `seed` is a string, because it exceeds JavaScript's integers.

    `image` numbers the result's images for commands. `actions` are the commands offered.
    """

    job: int
    number: int
    image: int | None
    kind: MediaKind
    name: str
    size: int
    at: float
    model: str
    prompt: str
    seed: str | None
    favourite: bool
    actions: tuple[str, ...]


class GalleryAnswer(Record):
    """A page of the gallery. If `hidden`, files are shown only once the reader asks for them.

    `next` is the `before` of the next page, None at the end. `models` come with the first page.
    """

    items: tuple[GalleryItem, ...]
    hidden: bool
    next: int | None = None
    models: tuple[str, ...] = ()


class GalleryRoutes:
    """The routes of the gallery. Every file and mark belongs to the person who asks.

    `tell` is called with a person's id and each change of their marks.
    """

    def __init__(
        self,
        who: Sessions,
        calls: Calls,
        store: GalleryStore,
        *,
        thumbnails: Thumbnails,
        catalog: Callable[[], Catalog],
        rules: RuleTable,
        live: LiveSettings,
        tell: Callable[[str, FavouriteMark], None],
    ) -> None:
        self._who = who
        self._calls = calls
        self._store = store
        self._thumbnails = thumbnails
        self._catalog = catalog
        self._rules = rules
        self._live = live
        self._tell = tell
        self._files = FileSender()

    def add_to(self, router: web.UrlDispatcher, path: str = "") -> None:
        """Register the routes below a path."""
        router.add_get(f"{path}/gallery", self._page)
        router.add_get(f"{path}/gallery/{{job}}", self._result)
        router.add_get(f"{path}/gallery/{{job}}/{{number}}", self._file)
        router.add_put(f"{path}/gallery/{{job}}/{{number}}/favourite", self._mark)
        router.add_delete(f"{path}/gallery/{{job}}/{{number}}/favourite", self._mark)

    async def _page(self, request: web.Request) -> web.Response:
        person = self._who.require(request)
        try:
            asked = GalleryQuery.model_validate(dict(request.query))
        except ValidationError:
            raise web.HTTPBadRequest from None
        owner = self._calls.user(person)
        with _readable():
            found, after = await self._store.page(owner, Wanted(**asked.model_dump()))
            models = await self._store.models(owner) if asked.before is None else ()
        return self._answer(person, found, after, models)

    async def _result(self, request: web.Request) -> web.Response:
        person = self._who.require(request)
        job = request.match_info["job"]
        if not job.isdecimal() or len(job) > 15:
            raise web.HTTPNotFound
        with _readable():
            found = await self._store.of_job(self._calls.user(person), int(job))
        if not found:
            raise web.HTTPNotFound
        return self._answer(person, found)

    def _answer(
        self,
        person: WebPerson,
        found: Sequence[GalleryFile],
        after: int | None = None,
        models: Sequence[str] = (),
    ) -> web.Response:
        rule = self._rules.of(self._calls.asker(person))
        catalog = offered(self._catalog(), rule)
        settings = self._live.chat_settings.of(self._calls.platform, (person.id,))
        answer = GalleryAnswer(
            items=tuple(_item(file, catalog) for file in found),
            hidden=settings.spoiler or rule.spoiler,
            next=after,
            models=tuple(models),
        )
        body = answer.model_dump_json()
        return web.Response(text=body, content_type="application/json")

    async def _file(self, request: web.Request) -> web.StreamResponse:
        person = self._who.require(request)
        small = TILE if "small" in request.query else None
        file = await self._named(request, person, small)
        return await self._files.send(request, file, whose=person.id, headers=_NO_CACHE)

    async def _mark(self, request: web.Request) -> web.Response:
        require_own_page(request)
        person = self._who.require(request)
        if not self._calls.allowed(person):
            raise web.HTTPTooManyRequests
        await self._named(request, person)
        job, number = (int(request.match_info[name]) for name in ("job", "number"))
        marked = FavouriteMark(job=job, number=number, favourite=request.method == "PUT")
        with _readable():
            await self._store.mark(job, number, favourite=marked.favourite)
        self._tell(person.id, marked)
        return web.Response(status=204)

    async def _named(
        self, request: web.Request, person: WebPerson, small: int | None = None
    ) -> Sendable:
        """Return the person's file that an address names. Raises `HTTPNotFound`."""
        owner, at = self._calls.user(person), request.match_info
        with _readable():
            file = await self._thumbnails.result(owner, at["job"], at["number"])
            if file is not None and small is not None:
                file = await self._thumbnails.of_result(file, small)
        if file is None:
            raise web.HTTPNotFound
        return file


@contextmanager
def _readable() -> Iterator[None]:
    """Answer 503 while the database cannot be read. The page says so and offers to try again."""
    try:
        yield
    except StoreError:
        raise web.HTTPServiceUnavailable from None


def _item(file: GalleryFile, catalog: Catalog) -> GalleryItem:
    request = file.request
    upscaled = isinstance(request, TextToImage) and request.upscale
    seeded = isinstance(request, Generation) and not upscaled
    return GalleryItem(
        job=file.job,
        number=file.number,
        image=file.image,
        kind=file.kind,
        name=file.name,
        size=file.size,
        at=file.finished_at,
        model=file.model,
        prompt=request.words,
        seed=str(request.seed) if isinstance(request, Generation) and seeded else None,
        favourite=file.favourite,
        actions=_actions(file, catalog, upscaled=upscaled),
    )


def _actions(file: GalleryFile, catalog: Catalog, *, upscaled: bool) -> tuple[str, ...]:
    """Return the commands that a result offers now, as the buttons under it in a chat do."""
    able, spec = abilities_of(file.model, catalog), catalog.find(file.model)
    needed = {file.request.needs(has_files=each) for each in (True, False)}
    drawn = isinstance(file.request, TextToImage) and (file.image or _NUMBERED + 1) <= _NUMBERED
    offered = {
        "vary": drawn and able.vary and not upscaled,
        "upscale": drawn and able.upscale and not upscaled,
        "edit-image": drawn and able.edit,
        "video": drawn and able.video,
        "again": not (upscaled or spec is None or needed.isdisjoint(spec.capabilities)),
        "delete": True,
    }
    return tuple(command for command, is_offered in offered.items() if is_offered)
