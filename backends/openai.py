"""OpenAI: texts from any server with an OpenAI-compatible API.

It streams answers and maps what goes wrong; what servers do each in their own way (listing,
loading, unloading) it leaves to a flavour, found by asking the server. It remembers no load.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import ClassVar, Literal

from pydantic import JsonValue, SecretStr

from backends.flavours import FLAVOURS, Flavour, Names, Served, plain
from backends.http import Http, HttpFailed, HttpRefused, Transport
from backends.llm_errors import NO_MODEL, classify
from backends.llm_request import TextOptions, chat_body
from backends.llm_stream import AnswerReader, Garbage, StreamError
from backends.naming import catalog_names
from backends.options import read_options
from queueing.catalog import BackendSpec, ModelSpec, Timeouts
from queueing.errors import (
    BackendError,
    BadModel,
    NotLoaded,
    OutOfMemory,
    Rejected,
    Unavailable,
)
from queueing.ports import Fetch, Report, ServerInfo
from queueing.requests import Capability, Chat, Output, Progress, Record, Work

REPORT_EVERY_S = 0.1  # a fast server writes thousands of tokens a second, no chat shows that
UNLOAD_S = 60.0
DETAILS_AT_ONCE = 8
NAMES_TOLD = 10  # of what a server offers, where a name is wrong
WEIGHTS_TO_VRAM = 1.2  # what a copy takes beside its weights: context and working memory
OVERHEAD_MB = 512
STAYS = "This server cannot unload models when told to."
SILENT = "The model gave an empty answer; please ask in another way."
ONLY_THOUGHTS = "The model spent its whole answer on thinking; please ask for something shorter."


class OpenAIOptions(Record):
    """A backend's settings: the token it wants, and its flavour where it cannot be found out."""

    token: SecretStr | None = None
    flavour: Literal[
        "auto",
        "generic",
        "ollama",
        "llamacpp",
        "llamacpp-router",
        "llama-cpp-python",
        "llamaswap",
        "vllm",
    ] = "auto"


class OpenAI:
    """A text server; see `queueing.ports.Backend` for the obligations."""

    serial: ClassVar[bool] = False
    max_models: ClassVar[int | None] = None
    parallel: ClassVar[int] = 4  # what LM Studio and llama.cpp give a model; others queue politely
    stranger: ClassVar[str] = "nothing at this url answers like an OpenAI-compatible server"

    capabilities = frozenset({Capability.TEXT_TO_TEXT, Capability.VISION})
    unloads_together = False

    def __init__(self, spec: BackendSpec, *, transport: Transport | None = None) -> None:
        options = read_options(OpenAIOptions, spec.options, f"backends.{spec.name}")
        wanted = FLAVOURS if options.flavour == "auto" else (options.flavour,)
        flavours = tuple(FLAVOURS[name]() for name in wanted)
        self._connect(spec, options.token, flavours, transport)

    def _connect(
        self,
        spec: BackendSpec,
        token: SecretStr | None,
        flavours: Sequence[Flavour],
        transport: Transport | None,
    ) -> None:
        self._name = spec.name
        self._http = Http(
            _base(spec.url), headers=_authorization(spec.name, token), transport=transport
        )
        self._flavours = tuple(flavours)
        self._flavour: Flavour | None = None
        self.can_unload = False  # until the server has said who it is
        self._locks: dict[str, asyncio.Lock] = {}

    def check(self, model: ModelSpec) -> None:
        """Refuse unknown options, and what no text server can do."""
        _options(model)
        if beyond := model.capabilities - self.capabilities:
            raise BadModel(
                f"models.{model.name}.capabilities: {', '.join(beyond)}: not on a text server"
            )

    async def probe(self) -> ServerInfo:
        """Ask the server who it is; it may have become another since the last time."""
        with _classified():
            description = await self._recognise()
            assert self._flavour is not None  # noqa: S101 - for the type checker
            note = self._flavour.note
            return ServerInfo(description=description, notes=(note,) if note else ())

    async def verify(self, model: ModelSpec) -> None:
        """Look for the model in the server's list, and whether it sees where it should."""
        self.check(model)
        with _classified():
            flavour = await self._known()
            served = await flavour.details(self._http, await self._find(model))
        if not served.chats:
            raise BadModel(f"models.{model.name}.model: {served.id} writes no answers")
        if Capability.VISION in model.capabilities and served.vision is False:
            raise BadModel(f"models.{model.name}.capabilities: {served.id} cannot see pictures")

    async def discover(self) -> tuple[ModelSpec, ...]:
        """Return every model of the server that writes, under a name people can type."""
        with _classified():
            flavour = await self._known()
            gate = asyncio.Semaphore(DETAILS_AT_ONCE)

            async def complete(served: Served) -> Served:
                async with gate:
                    return await flavour.details(self._http, served)

            listed = await flavour.served(self._http)
            offered = [each for each in await asyncio.gather(*map(complete, listed)) if each.chats]
        names = catalog_names([served.id for served in offered])
        return tuple(self._offer(name, served) for name, served in zip(names, offered, strict=True))

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str] | None:
        """Return which models are in memory; None where the server does not tell."""
        with _classified():
            listed = await self._listed()
        if any(served.loaded is None for served in listed):
            return None
        names = Names(listed)
        found = ((model, names.find(_id(model))) for model in models)
        return frozenset(model.name for model, served in found if served and served.loaded)

    async def load(self, model: ModelSpec) -> None:
        """Bring a model into memory unless it is there; concurrent calls share one load."""
        with _classified():
            flavour = await self._known()
            async with self._lock(model):
                served = await self._find(model)
                if served.loaded is False:
                    await self._load(flavour, model, served)

    async def unload(self, model: ModelSpec) -> None:
        """Remove every copy of a model; return when none is left."""
        with _classified():
            flavour = await self._known()
            async with self._lock(model):
                served = Names(await self._listed()).find(_id(model))
                if served is None or served.loaded is False:
                    return
                if not flavour.can_unload:
                    raise Rejected(f"{self._name} cannot unload", user_text=STAYS)
                await flavour.unload(self._http, served)
                async with _within(UNLOAD_S, f"{served.id} did not leave the memory"):
                    await self._until(model, lambda now: not now.loaded)

    async def run(self, model: ModelSpec, work: Work, report: Report) -> Fetch:
        """Stream an answer; cancelling closes the connection, which stops the server's work."""
        if not isinstance(work.request, Chat):
            raise Rejected(f"{self._name} cannot do {work.request.kind}")
        body = await chat_body(_id(model), work.request, work.files, _options(model))
        with _classified():
            flavour = await self._known()
            if flavour.eager and (await self._find(model)).loaded is False:
                # The request would load it behind the queue's back, or twice.
                raise NotLoaded(f"{_id(model)} is not in memory")
            reader = await self._stream(flavour, model, body, report)
            if reader.silent:
                raise await self._why_silent(flavour, body)
        return partial(_text, _answer(reader))

    async def resume(self, model: ModelSpec, work: Work, report: Report) -> Fetch | None:  # noqa: ARG002 - the port's signature
        """Return None: these servers stop when the connection goes, and keep no answer."""
        return None

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        await self._http.aclose()

    async def _recognise(self) -> str:
        """Find the flavour, the one known first; return the server's description."""
        flavours = self._flavours if self._flavour is None else (self._flavour, *self._flavours)
        for flavour in flavours:
            if description := await flavour.describe(self._http):
                self._flavour = flavour
                self.can_unload = flavour.can_unload
                return description
        raise Unavailable(self.stranger)

    async def _known(self) -> Flavour:
        if self._flavour is None:
            await self._recognise()
        assert self._flavour is not None  # noqa: S101 - for the type checker
        return self._flavour

    def _lock(self, model: ModelSpec) -> asyncio.Lock:
        return self._locks.setdefault(_id(model), asyncio.Lock())

    async def _listed(self) -> tuple[Served, ...]:
        return await (await self._known()).served(self._http)

    async def _find(self, model: ModelSpec) -> Served:
        listed = await self._listed()
        if served := Names(listed).find(wanted := _id(model)):
            return served
        offered = ", ".join(sorted(each.id for each in listed)[:NAMES_TOLD]) or "nothing"
        raise BadModel(
            f"models.{model.name}.model: {self._name} has no {wanted!r}; it offers {offered}",
            user_text=NO_MODEL,
        )

    async def _load(self, flavour: Flavour, model: ModelSpec, served: Served) -> None:
        try:
            await flavour.load(self._http, served, _options(model).context_length)
            await self._until(model, lambda now: bool(now.loaded))
        except asyncio.CancelledError:
            # No ghost of it may stay, as far as the server can be told.
            with suppress(BackendError):
                async with _within(5.0, "the cancelled load goes on"):
                    await flavour.unload(self._http, served)
            raise

    async def _until(self, model: ModelSpec, holds: Callable[[Served], bool]) -> None:
        """Look at a model until something holds: these servers signal nothing."""
        pause_s = 0.05
        while not holds(served := await self._find(model)):
            if served.failed:
                raise OutOfMemory(f"{served.id} did not load: {served.failed}")
            await asyncio.sleep(pause_s)
            pause_s = min(1.0, pause_s * 1.5)

    async def _stream(
        self, flavour: Flavour, model: ModelSpec, body: JsonValue, report: Report
    ) -> AnswerReader:
        """Return the answer as far as it came; a silent reader means that it broke off unsaid."""
        reader = AnswerReader()
        opened = False
        silence_s = _silence_s(model.timeouts)
        try:
            async with self._http.stream_lines(flavour.chat_path, body, read_s=silence_s) as lines:
                opened = True
                await self._follow(flavour, model, reader, lines, report)
        except Unavailable as error:
            if isinstance(error, Garbage) or not (opened and reader.silent):
                raise
        reader.close()
        return reader

    async def _follow(
        self,
        flavour: Flavour,
        model: ModelSpec,
        reader: AnswerReader,
        lines: AsyncIterator[str],
        report: Report,
    ) -> None:
        clock = asyncio.get_running_loop().time
        reported_at, named = -REPORT_EVERY_S, False
        async for line in lines:
            news = reader.feed(line)
            if reader.model and not named:
                named = True
                await self._same(flavour, model, reader.model)
            if news and clock() - reported_at >= REPORT_EVERY_S:
                reported_at = clock()
                report(Progress(text=reader.text or None))
            if reader.ended:
                return

    async def _same(self, flavour: Flavour, model: ModelSpec, answers: str) -> None:
        """Refuse the answer of another model than was asked.

        LM Studio and llama.cpp let whatever is loaded answer to an unknown name.
        """
        if not flavour.exact or plain(answers) == plain(_id(model)):
            return
        served = await self._find(model)
        if Names([served]).find(answers):  # under another of its names
            return
        cause = f"asked {_id(model)}, but {answers} answered"
        raise NotLoaded(cause) if served.loaded is False else BadModel(cause, user_text=NO_MODEL)

    async def _why_silent(self, flavour: Flavour, body: JsonValue) -> BackendError:
        """Ask again without streaming what an empty stream meant.

        llama-cpp-python ends a stream without a word, and breaks the connection, where it would
        answer 400 otherwise.
        """
        assert isinstance(body, dict)  # noqa: S101 - for the type checker
        whole: JsonValue = {**body, "stream": False, "max_tokens": 1}
        for _ in range(2):  # the first may meet the connection that the stream left dying
            try:
                answer = await self._http.post_json(flavour.chat_path, whole, timeout_s=120.0)
            except (HttpRefused, HttpFailed) as error:
                return classify(error.status, error.body)
            except Unavailable:
                continue
            if isinstance(answer, dict) and answer.get("error"):
                return classify(200, answer)
            break
        return Unavailable("the server ended the answer without a word")

    def _offer(self, name: str, served: Served) -> ModelSpec:
        able = {Capability.TEXT_TO_TEXT} | ({Capability.VISION} if served.vision else set())
        vram_mb = served.size_mb and round(served.size_mb * WEIGHTS_TO_VRAM) + OVERHEAD_MB
        return ModelSpec(
            name=name,
            backends=(self._name,),
            capabilities=frozenset(able),
            vram_mb=vram_mb,
            parallel=served.parallel or 1,
            options={"model": served.id},
        )


@contextmanager
def _classified() -> Iterator[None]:
    """Turn what a server answered into the error it means."""
    try:
        yield
    except (HttpRefused, HttpFailed) as error:
        raise classify(error.status, error.body) from error
    except StreamError as error:
        raise classify(200, error.body) from error


@asynccontextmanager
async def _within(seconds: float, otherwise: str) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable(f"{otherwise} within {seconds:g} s") from None


def _options(model: ModelSpec) -> TextOptions:
    return read_options(TextOptions, model.options, f"models.{model.name}")


def _id(model: ModelSpec) -> str:
    """Return the server's own name of a model."""
    return _options(model).model or model.name


def _base(url: str) -> str:
    """Return the address without the "/v1" people copy from other programs' settings."""
    return url.rstrip("/").removesuffix("/v1")


def _authorization(backend: str, token: SecretStr | None) -> dict[str, str]:
    if token is None:
        return {}
    secret = token.get_secret_value()
    if not secret.isascii() or not secret.isprintable():
        raise BadModel(f"backends.{backend}.token: holds characters no token has")
    return {"Authorization": f"Bearer {secret}"}


def _silence_s(timeouts: Timeouts) -> float | None:
    """Return how long a connection may be silent before it counts as dead.

    The processor watches closer; this only bounds a peer that vanished without a word.
    """
    if timeouts.first_s is None or timeouts.idle_s is None:
        return timeouts.total_s
    return max(timeouts.first_s, timeouts.idle_s)


def _answer(reader: AnswerReader) -> str:
    """Return the finished answer, or raise what its end means."""
    if reader.finished is None:
        # llama-cpp-python says [DONE] to a request that another one interrupted.
        raise Unavailable("the server cut the answer off")
    text = reader.text.strip()
    if text:
        return text
    thoughts = reader.thinks or reader.finished == "length"
    raise Rejected("empty answer", user_text=ONLY_THOUGHTS if thoughts else SILENT)


async def _text(text: str) -> Output:
    return Output(text=text)
