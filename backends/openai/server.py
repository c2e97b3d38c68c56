"""One server of texts: which flavour it is, what it lists, and how its models come and go.

The flavour is detected by asking the server; what is loaded is asked each time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from pydantic import SecretStr

from backends.common.http import Http
from backends.common.named_models import served_name
from backends.common.recognition import Recognition
from backends.openai.errors import NO_MODEL
from backends.openai.flavour import Flavour, LoadWish, ModelNames, Served
from queueing.core.catalog import ModelSpec
from queueing.core.concurrency import timeout
from queueing.core.errors import BackendError, BadModel, ModelCrashed, Rejected, Unavailable
from queueing.core.problems import What, problem

UNLOAD_S = 60.0
NAMES_TOLD = 10  # model names listed in an error about a wrong name
STAYS = problem(What.STAYS)


class TextServer:
    """A server whose flavour is one of `flavours`. Methods raise `BackendError`s.

    `stranger` is what is reported of a server that is none of them. `can_unload` is False until the
    server has been identified, and again once it has refused to unload.
    """

    def __init__(
        self, http: Http, backend: str, flavours: Sequence[Flavour], *, stranger: str
    ) -> None:
        self.can_unload = False
        self._http = http
        self._backend = backend
        self._recognition = Recognition(http, flavours, stranger=stranger)
        self._stays = False  # whether it has refused to unload
        self._locks: dict[str, asyncio.Lock] = {}
        self._contexts: dict[str, int] = {}  # as listed last, in tokens

    async def recognise(self) -> tuple[Flavour, str]:
        """Detect the flavour, trying the known one first; return it and the server's description."""
        flavour, description = await self._recognition.recognise()
        self.can_unload = flavour.can_unload and not self._stays
        return flavour, description

    async def known(self) -> Flavour:
        """Return the flavour; the server is asked only the first time."""
        return self._recognition.flavour or (await self.recognise())[0]

    async def listed(self) -> tuple[Served, ...]:
        """Return the server's models."""
        listed = await (await self.known()).served(self._http)
        self._contexts |= {served.id: served.context for served in listed if served.context}
        return listed

    def context_of(self, model: ModelSpec) -> int | None:
        """Return how many tokens a model takes, as far as the server has reported it."""
        return self._contexts.get(served_name(model))

    async def find(self, model: ModelSpec) -> Served:
        """Return a model as the server lists it. Raises `BadModel` if it does not."""
        nameless = (await self.known()).nameless
        listed = await self.listed()
        if served := ModelNames(listed, nameless=nameless).find(wanted := served_name(model)):
            return served
        offered = ", ".join(sorted(each.id for each in listed)[:NAMES_TOLD]) or "nothing"
        raise BadModel(
            f"models.{model.name}.model: {self._backend} has no {wanted!r}; it offers {offered}",
            problem=NO_MODEL,
        )

    async def load(self, model: ModelSpec, wish: LoadWish) -> None:
        """Load a model unless it is in memory; concurrent calls share one load."""
        flavour = await self.known()
        async with self._lock(model):
            served = await self.find(model)
            if served.loaded is False:
                await self._load(flavour, model, served, wish)

    async def unload(self, model: ModelSpec) -> None:
        """Unload every copy of a model; return when none is left. A model not listed has none."""
        flavour = await self.known()
        async with self._lock(model):
            names = ModelNames(await self.listed(), nameless=flavour.nameless)
            served = names.find(served_name(model))
            if served is None or served.loaded is False:
                return
            if not flavour.can_unload:
                raise Rejected(f"{self._backend} cannot unload", problem=STAYS)
            await self._ask_to_unload(flavour, served)
            async with _within(UNLOAD_S, f"{served.id} did not leave the memory"):
                await self._until(model, lambda now: not now.loaded)

    def _lock(self, model: ModelSpec) -> asyncio.Lock:
        return self._locks.setdefault(served_name(model), asyncio.Lock())

    async def _load(
        self, flavour: Flavour, model: ModelSpec, served: Served, wish: LoadWish
    ) -> None:
        try:
            await flavour.load(self._http, served, wish)
            await self._until(model, lambda now: bool(now.loaded))
        except asyncio.CancelledError:
            # Unload it so that no half-loaded copy stays, as far as the server allows.
            with suppress(BackendError):
                async with _within(5.0, "the cancelled load goes on"):
                    await flavour.unload(self._http, served)
            raise

    async def _ask_to_unload(self, flavour: Flavour, served: Served) -> None:
        """Request the unload; remember a server whose operator does not allow it."""
        try:
            await flavour.unload(self._http, served)
        except Rejected as error:
            if error.problem == STAYS:
                self._stays = True
                self.can_unload = False
            raise

    async def _until(self, model: ModelSpec, holds: Callable[[Served], bool]) -> None:
        """Poll a model until a condition holds: these servers send no signals."""
        pause_s = 0.05
        while not holds(served := await self.find(model)):
            if served.failed:
                raise ModelCrashed(f"{served.id} did not load: {served.failed}")
            await asyncio.sleep(pause_s)
            pause_s = min(1.0, pause_s * 1.5)


@asynccontextmanager
async def _within(seconds: float, otherwise: str) -> AsyncIterator[None]:
    try:
        async with timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable(f"{otherwise} within {seconds:g} s") from None


def base_of(url: str) -> str:
    """Return the address without the "/v1" that people copy from other programs' settings."""
    return url.rstrip("/").removesuffix("/v1")


def authorization(backend: str, token: SecretStr | None) -> dict[str, str]:
    """Return the header that carries a token. Raises `BadModel` for one that none can carry."""
    if token is None:
        return {}
    secret = token.get_secret_value()
    if not secret.isascii() or not secret.isprintable():
        raise BadModel(f"backends.{backend}.token: holds characters no token has")
    return {"Authorization": f"Bearer {secret}"}
