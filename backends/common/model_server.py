"""The models of one text or image server: detects the flavour, and lists, loads and unloads models.

It asks the server each time which models are loaded.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import SecretStr

from backends.common.http import Http
from backends.common.http_replies import Redirected
from backends.common.model_names import catalog_names
from queueing.core.concurrency import timeout
from queueing.core.errors import (
    BackendError,
    BadModel,
    KeyRefused,
    ModelCrashed,
    ProblemKind,
    Rejected,
    Unavailable,
    problem,
)
from queueing.core.specs import ModelSpec

UNLOAD_S = 60.0
NAMES_TOLD = 10  # model names listed in an error about a wrong name
STAYS = problem(ProblemKind.STAYS)
NO_MODEL = problem(ProblemKind.NO_MODEL)
# A tag, LM Studio's instance or variant, or a file extension.
SUFFIX = re.compile(r"(:latest|:\d+|@[\w-]+|\.gguf|\.safetensors|\.ckpt)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServedModel:
    """A model as its server lists it.

    `names` are all names that it answers to. `loaded` is None if the server does not report it.
    `failed` is why its last load failed.
    """

    id: str
    names: frozenset[str] = frozenset()
    loaded: bool | None = None
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class LoadWish:
    """How to load a model: the context length in tokens, and whether to keep it loaded.

    Unless `kept`, the server may unload it at any time.
    """

    context_length: int | None = None
    kept: bool = False


Model = TypeVar("Model", bound=ServedModel)


class ServerFlavour(Protocol[Model]):
    """One kind of server.

    Methods raise the `BackendError`s of `Http`; `load` also raises `OutOfMemory`. `load` and
    `unload` only send the request. Before it calls them, the caller takes the model's lock and
    checks the model's state. Afterwards it polls `served` until the change is complete.
    """

    can_unload: ClassVar[bool]
    stops_loads: ClassVar[bool]  # when the request for it ends, or by an unload
    nameless: ClassVar[bool]  # has one model and ignores the model name in a request

    async def describe(self, http: Http) -> str | None:
        """Return the server's name and version, or None if it is not of this flavour."""

    async def admit(self, http: Http) -> None:
        """Raise `KeyRefused` if the server refuses work because of its key."""

    async def served(self, http: Http) -> tuple[Model, ...]:
        """Return the server's models. Must be cheap, because it is called often."""

    async def load(self, http: Http, served: Model, wish: LoadWish) -> None:
        """Request a load; may return before it is complete."""

    async def unload(self, http: Http, served: Model) -> None:
        """Request the unload of every copy; may return before it is complete."""


Flavour = TypeVar("Flavour", bound=ServerFlavour[Any])


class ModelServer(Generic[Flavour, Model]):
    """A server of one of `flavours`, which are tried in that order. Methods raise `BackendError`s.

    `stranger` is the error message if no flavour matches the server.
    """

    def __init__(
        self, http: Http, backend: str, flavours: Sequence[Flavour], *, stranger: str
    ) -> None:
        self.flavour: Flavour | None = None
        self._http = http
        self._backend = backend
        self._flavours = tuple(flavours)
        self._stranger = stranger
        self._stays = False  # whether the server has refused to unload
        self._locks: dict[str, asyncio.Lock] = {}

    @property
    def can_unload(self) -> bool:
        """Whether it unloads on request; False until it is identified and after it has refused."""
        return self.flavour is not None and self.flavour.can_unload and not self._stays

    @property
    def stops_loads(self) -> bool:
        """Whether it stops a load that is cancelled; False until it is identified."""
        return self.flavour is not None and self.flavour.stops_loads

    def possible(self) -> tuple[Flavour, ...]:
        """Return the detected flavour, or all of them until the server is identified."""
        return self._flavours if self.flavour is None else (self.flavour,)

    async def recognise(self) -> tuple[Flavour, str]:
        """Detect the flavour, trying the known one first; return it and the server's description."""
        known = () if self.flavour is None else (self.flavour,)
        verdict: Unavailable = Unavailable(self._stranger)
        for flavour in (*known, *self._flavours):
            try:
                description = await flavour.describe(self._http)
            except (KeyRefused, Redirected) as error:  # some gateways answer unknown paths so
                verdict = verdict if isinstance(verdict, KeyRefused) else error
                continue
            if description:
                if isinstance(verdict, KeyRefused):
                    await flavour.admit(self._http)
                self.flavour = flavour
                return flavour, description
        raise verdict

    async def known(self) -> Flavour:
        """Return the flavour, detecting it on the first call."""
        return self.flavour or (await self.recognise())[0]

    async def listed(self) -> "ModelList[Model]":
        """Return the server's models."""
        flavour = await self.known()
        return ModelList(await flavour.served(self._http), nameless=flavour.nameless)

    async def find(self, model: ModelSpec) -> Model:
        """Return a model as the server lists it. Raises `BadModel` if it is not listed."""
        listed = await self.listed()
        if served := listed.find(wanted := served_name(model)):
            return served
        offered = ", ".join(sorted(each.id for each in listed.all)[:NAMES_TOLD]) or "nothing"
        raise BadModel(
            f"models.{model.name}.model: {self._backend} has no {wanted!r}; it offers {offered}",
            problem=NO_MODEL,
        )

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str] | None:
        """Return which models are in memory; None if the server does not report it."""
        listed = await self.listed()
        if any(served.loaded is None for served in listed.all):
            return None
        found = ((model, listed.find(served_name(model))) for model in models)
        return frozenset(model.name for model, served in found if served and served.loaded)

    async def load(self, model: ModelSpec, wish: LoadWish) -> None:
        """Load a model unless it is in memory; concurrent calls share one load."""
        async with self._lock(model):
            served = await self.find(model)
            if served.loaded is False:
                await self._load(await self.known(), model, served, wish)

    async def unload(self, model: ModelSpec) -> None:
        """Unload every copy of a model and wait until none is left. Ignores unlisted models."""
        flavour = await self.known()
        async with self._lock(model):
            served = (await self.listed()).find(served_name(model))
            if served is None or served.loaded is False:
                return
            if not flavour.can_unload:
                raise Rejected(f"{self._backend} cannot unload", problem=STAYS)
            await self._ask_to_unload(flavour, served)
            async with _within(UNLOAD_S, f"{served.id} was not unloaded"):
                await self._until(model, lambda now: not now.loaded)

    def _lock(self, model: ModelSpec) -> asyncio.Lock:
        return self._locks.setdefault(served_name(model), asyncio.Lock())

    async def _load(
        self, flavour: Flavour, model: ModelSpec, served: Model, wish: LoadWish
    ) -> None:
        try:
            await flavour.load(self._http, served, wish)
            await self._until(model, lambda now: bool(now.loaded))
        except asyncio.CancelledError:
            # Unload it so that no half-loaded copy remains, if the server allows that.
            with suppress(BackendError):
                async with _within(5.0, "the cancelled load did not stop"):
                    await flavour.unload(self._http, served)
            raise

    async def _ask_to_unload(self, flavour: Flavour, served: Model) -> None:
        """Request the unload, and remember a server whose operator forbids it."""
        try:
            await flavour.unload(self._http, served)
        except Rejected as error:
            self._stays = self._stays or error.problem == STAYS
            raise

    async def _until(self, model: ModelSpec, holds: Callable[[Model], bool]) -> None:
        """Poll a model until a condition holds, because these servers send no notifications."""
        pause_s = 0.05
        while not holds(served := await self.find(model)):
            if served.failed:
                raise ModelCrashed(f"{served.id} did not load: {served.failed}")
            await asyncio.sleep(pause_s)
            pause_s = min(1.0, pause_s * 1.5)


class ModelList(Generic[Model]):
    """A server's models, found by exact name, or else by name without folder and suffix.

    With `nameless`, any name means the server's only model.
    """

    def __init__(self, listed: Sequence[Model], *, nameless: bool = False) -> None:
        self.all = listed
        known = [(name, served) for served in listed for name in (served.id, *served.names)]
        self._only = listed[0] if nameless and listed else None
        self._by_name = {plain(name): served for name, served in known} | dict(known)

    def find(self, name: str) -> Model | None:
        """Return the model of that name, or None."""
        return self._only or self._by_name.get(name) or self._by_name.get(plain(name))

    def ids(self, models: Sequence[ModelSpec]) -> frozenset[str]:
        """Return the server's names for the given models, without those it does not list."""
        found = (self.find(served_name(model)) for model in models)
        return frozenset(served.id for served in found if served)

    def further(
        self, offered: Sequence[Model], known: Sequence[ModelSpec]
    ) -> Sequence[tuple[str, Model]]:
        """Return the `offered` models that are not in `known`, each with a name to type."""
        taken = self.ids(known)
        named = zip(catalog_names([served.id for served in offered]), offered, strict=True)
        return [(name, served) for name, served in named if served.id not in taken]


def served_name(model: ModelSpec) -> str:
    """Return the server's own name for a model: its option `model`, or else its name."""
    return str(model.options.get("model") or model.name)


def plain(name: str) -> str:
    """Normalise a name for comparison: lower case, without folder, tag and file extension."""
    return SUFFIX.sub("", name.replace("\\", "/").rpartition("/")[2].casefold())


@asynccontextmanager
async def _within(seconds: float, otherwise: str) -> AsyncIterator[None]:
    try:
        async with timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable(f"{otherwise} within {seconds:g} s") from None


def base_of(url: str) -> str:
    """Return the address without the "/v1" that people copy from the settings of other programs."""
    return url.rstrip("/").removesuffix("/v1")


def authorization(backend: str, token: SecretStr | None, *, without: str = "") -> dict[str, str]:
    """Return the header for a token, which must be printable ASCII and contain none of `without`.

    Raises `BadModel` for any other token.
    """
    if token is None:
        return {}
    secret = token.get_secret_value()
    if not secret.isascii() or not secret.isprintable() or set(secret) & set(without):
        raise BadModel(f"backends.{backend}.token: contains characters that no token has")
    return {"Authorization": f"Bearer {secret}"}
