"""OpenAI: texts, embeddings and speech from any server with an OpenAI-compatible API.

The backend sends requests and maps errors. Its flavours list, load and unload the models. It does
not cache which models are loaded.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from pydantic import JsonValue, SecretStr, field_validator

from backends.common.error_rules import loading
from backends.common.http import Http
from backends.common.http_replies import HttpRefused
from backends.common.model_server import (
    LoadWish,
    ModelList,
    authorization,
    base_of,
    served_name,
)
from backends.common.options import read_options
from backends.common.server_backend import ServerBackend, reasons_kept
from backends.openai.audio.speech import Speech, speak, voice_named
from backends.openai.audio.transcription import Recording, plain_sound, transcribe
from backends.openai.chat.asking_again import ImageLimits, SystemTexts
from backends.openai.chat.completion import NO_TEXT, CompletionCall, stream_answer
from backends.openai.chat.passthrough import BESIDE, passed_body, path_of
from backends.openai.chat.request import TextOptions, chat_body, require_room
from backends.openai.embeddings import Batch, embed
from backends.openai.flavours.errors import RULES, classified
from backends.openai.flavours.flavour import (
    AUDIBLE,
    EMBEDS,
    WRITES,
    Flavour,
    Served,
    able,
    honoured,
    lacks,
)
from backends.openai.flavours.server import FLAVOURS, TextServer, estimated_mb, taken_mb
from queueing.core.catalog import meant_or_all
from queueing.core.errors import (
    BadModel,
    NotLoaded,
    ProblemKind,
    Rejected,
    problem,
)
from queueing.core.ports import Fetch, Report, ServerInfo
from queueing.core.requests import (
    Chat,
    ChatMessage,
    Embed,
    File,
    Output,
    Record,
    SpeechToText,
    TextToSpeech,
    Work,
)
from queueing.core.specs import BackendSpec, ModelSpec, embedding_spec

SHORTEST = Chat(messages=(ChatMessage(role="user", text="Hi"),), max_tokens=1)


class OpenAIOptions(Record):
    """A backend's settings: its token, and its flavour if that cannot be detected.

    `fields` are request fields that this server supports in addition to its flavour's.
    """

    token: SecretStr | None = None
    flavour: str = "auto"
    fields: frozenset[str] = frozenset()

    @field_validator("flavour")
    @classmethod
    def _known(cls, name: str) -> str:
        if name != "auto" and name not in FLAVOURS:
            raise ValueError(f"unknown flavour; {meant_or_all(name, ('auto', *FLAVOURS))}")
        return name

    @field_validator("fields")
    @classmethod
    def _possible(cls, names: frozenset[str]) -> frozenset[str]:
        if unknown := sorted(names - BESIDE):
            raise ValueError(f"unknown field {unknown[0]}; {meant_or_all(unknown[0], BESIDE)}")
        return names


class OpenAI(ServerBackend):
    """A server for text and speech; see `queueing.core.ports.Backend` for the contract."""

    rules = RULES
    noun = "a text server"
    settings = TextOptions
    ports: ClassVar[tuple[int, ...]] = (
        8000,  # vLLM, speaches, llama-cpp-python; ComfyUI Desktop
        11434,  # Ollama
        8080,  # llama.cpp, llama-swap, LocalAI, whisper.cpp
        9931,  # llama.cpp from an announced future version on
        9292,  # llama-swap in its container
        8880,  # Kokoro-FastAPI
        5001,  # KoboldCpp
    )
    _server: TextServer
    parallel: ClassVar[int] = (
        4  # the slots LM Studio and llama.cpp give a model; other servers queue
    )
    stranger: ClassVar[str] = "no OpenAI-compatible server answers at this url"

    capabilities = WRITES | EMBEDS | AUDIBLE
    _fields: frozenset[str] = frozenset()

    def __init__(self, spec: BackendSpec) -> None:
        options = read_options(OpenAIOptions, spec.options, f"backends.{spec.name}")
        wanted = FLAVOURS if options.flavour == "auto" else (options.flavour,)
        self._connect(spec, options.token, [FLAVOURS[name]() for name in wanted])
        self._fields = options.fields

    def _connect(
        self, spec: BackendSpec, token: SecretStr | None, flavours: Sequence[Flavour]
    ) -> None:
        self._name = spec.name
        self._at_once: dict[str, int] = {}
        self._system_texts = SystemTexts()
        self._image_limits = ImageLimits()
        self._unopened: set[str] = set()
        self._http = Http(
            base_of(spec.url), headers=authorization(spec.name, token), proxy=spec.proxy
        )
        self._server = TextServer(self._http, spec.name, flavours, stranger=self.stranger)

    def options(self, model: ModelSpec) -> frozenset[str] | None:
        """Return the request fields that a speech model honours. Other models have none."""
        return honoured(model)

    async def probe(self) -> ServerInfo:
        """Identify the server, which may have changed since the last call."""
        with classified():
            flavour, description = await self._server.recognise()
            notes = await flavour.notes(self._http)
        return ServerInfo(description=description, flavour=flavour.name, notes=notes)

    async def admit(self) -> None:
        """Try the token where questions are sent."""
        with classified():
            flavour = await self._server.known()
        await flavour.admit(self._http)

    async def verify(self, model: ModelSpec) -> None:
        """Check that the server lists the model and supports its capabilities and voice."""
        self.check(model)
        with classified():
            flavour = await self._server.known()
            served = await flavour.details(self._http, await self._server.find(model))
        if model.capabilities & WRITES and not served.chats:
            raise BadModel(_cannot_chat(model, served))
        if lacking := lacks(model, served, flavour):
            raise BadModel(f"models.{model.name}.capabilities: {served.id} cannot {lacking}")
        if voice := _options(model).voice:
            try:
                voice_named(voice, served.voices, flavour.sounds)
            except Rejected as error:
                raise BadModel(f"models.{model.name}.voice: {error}") from error

    async def sample(self, model: ModelSpec) -> str:
        """Ask a model that is in memory for one token, with its system text."""
        if not model.capabilities & WRITES:
            return ""
        with classified():
            listed = await self._server.listed()
        served = listed.find(served_name(model))
        if served is None or not (
            served.loaded or (served.loaded is None and len(listed.all) == 1)
        ):
            return ""
        try:
            await self.run(model, Work(key="check", request=SHORTEST), lambda _: None)
        except Rejected as error:
            if error.problem not in NO_TEXT:
                raise
        return self._system_texts.remark(served_name(model)) or "answers"

    async def discover(self, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        """Return every other usable model of the server, with a name that people can type."""
        with classified():
            flavour = await self._server.known()
            listed = await self._server.listed()
            detailed = [await flavour.details(self._http, each) for each in listed.all]
        offered = [served for served in detailed if able(served)]
        return tuple(self._offer(name, each) for name, each in listed.further(offered, known))

    async def held_besides(self, models: Sequence[ModelSpec]) -> Mapping[str, int]:
        """Return the memory in MB of models that other programs loaded, and of extra copies."""
        with classified():
            flavour = await self._server.known()
            listed = (*(await self._server.listed()).all, *await flavour.unlisted(self._http))
        known = ModelList(listed, nameless=flavour.nameless).ids(models)
        held: dict[str, int] = {}
        for served in listed:
            copies = max(1, len(served.instances)) - (1 if served.id in known else 0)
            if served.loaded and copies and (size_mb := taken_mb(served)):
                held[served.id] = copies * size_mb
        return held

    async def load(self, model: ModelSpec) -> None:
        """Load a model unless it is in memory; concurrent calls share one load."""
        with loading(), classified():
            wish = LoadWish(_options(model).context_length, kept=model.preload)
            await self._server.load(model, wish)

    async def run(self, model: ModelSpec, work: Work, report: Report) -> Fetch:
        """Run a request. Cancelling closes the connection, which stops the work."""
        request = work.request
        if not isinstance(request, Chat | Embed | SpeechToText | TextToSpeech):
            raise Rejected(f"{self._name} cannot do {request.kind}")
        with classified():
            flavour = await self._server.known()
            if flavour.eager and (await self._server.find(model)).loaded is False:
                # The request would load it without the scheduler's knowledge, or twice.
                raise NotLoaded(f"{served_name(model)} is not in memory")
        with reasons_kept():
            match request:
                case Embed():
                    batch = self._batch(model, request, work)
                    output = await embed(self._http, flavour, batch, report)
                case Chat():
                    question = await self._question(model, request, work.files, flavour)
                    output = await self._answer(model, question, flavour, report)
                case _:
                    output = await self._speech(model, request, work.files, flavour, report)
        return partial(_output, output)

    async def _speech(
        self,
        model: ModelSpec,
        request: SpeechToText | TextToSpeech,
        files: Sequence[File],
        flavour: Flavour,
        report: Report,
    ) -> Output:
        """Transcribe a recording, or read a text aloud."""
        with classified():
            form = await flavour.audio(self._http)
        if isinstance(request, SpeechToText):
            recording = Recording(
                request=request,
                sound=await plain_sound(files),
                model_id=served_name(model),
                timeouts=model.timeouts,
                max_tokens=_options(model).max_tokens,
            )
            return await transcribe(self._http, form, recording, report)
        with classified():
            served = await flavour.details(self._http, await self._server.find(model))
        speech = Speech(
            request=request,
            model_id=served.id if served.voices else served_name(model),
            timeouts=model.timeouts,
            voice=_options(model).voice,
            voices=served.voices,
        )
        return await speak(self._http, form, speech, report)

    async def _answer(
        self, model: ModelSpec, question: CompletionCall, flavour: Flavour, report: Report
    ) -> Output:
        """Return the answer. Raises `Rejected` if the server does not support completions."""
        ask = partial(stream_answer, self._http, flavour, report=report)
        try:
            return await self._system_texts.answer(
                partial(self._image_limits.answer, ask), question
            )
        except (BadModel, Rejected) as error:
            status = error.__cause__.status if isinstance(error.__cause__, HttpRefused) else 0
            if question.path == flavour.chat_path or status not in {404, 405}:
                raise
            await self._server.find(model)
            raise Rejected(str(error), problem=problem(ProblemKind.NO_COMPLETIONS)) from error

    def _batch(self, model: ModelSpec, request: Embed, work: Work) -> Batch:
        return Batch(
            request=request,
            files=work.files,
            model_id=served_name(model),
            timeouts=model.timeouts,
            look_up=partial(self._server.find, model),
            kept=model.preload,
            at_once=self._at_once,
        )

    async def _question(
        self, model: ModelSpec, chat: Chat, files: Sequence[File], flavour: Flavour
    ) -> CompletionCall:
        return CompletionCall(
            body=await self._body(model, chat, files, flavour),
            path=path_of(flavour, chat.passed_on),
            model_id=served_name(model),
            timeouts=model.timeouts,
            look_up=partial(self._server.find, model),
            unopened=self._unopened,
            context=self._server.context(served_name(model)) if flavour.cuts else None,
            passed_on=chat.passed_on is not None,
        )

    async def _body(
        self, model: ModelSpec, chat: Chat, files: Sequence[File], flavour: Flavour
    ) -> dict[str, JsonValue]:
        """Build the request, cut to the configured context length or the one last reported.

        A program's request is sent uncut, so that the program learns if it is too long. Raises
        `Rejected` for one that its server would cut.
        """
        options, name = _options(model), served_name(model)
        told = self._server.context(name)
        if (asked := chat.passed_on) is not None:
            body = await passed_body(name, asked, files, options, flavour, more=self._fields)
        else:
            room = least_of(told, options.context_length)
            body = await chat_body(name, chat, files, options, room)
        if limit := least_of(told if flavour.cuts else None, options.context_length):
            require_room(body, limit)
            if flavour.cuts:
                body["stream_options"] = {"include_usage": True}
        return body

    def _offer(self, name: str, served: Served) -> ModelSpec:
        spec = ModelSpec(
            name=name,
            backends=(self._name,),
            capabilities=able(served),
            vram_mb=estimated_mb(served),
            parallel=served.parallel or 1,
            options={"model": served.id},
        )
        return embedding_spec(spec) if served.embeds and not served.chats else spec


def least_of(*told: int | None) -> int | None:
    """Return the smallest known number, or None."""
    return min((number for number in told if number), default=None)


def _cannot_chat(model: ModelSpec, served: Served) -> str:
    """Return an error that a model cannot chat, with a hint to what it can do."""
    does = ", ".join(sorted(able(served)))
    hint = f"; set `capabilities: [{does}]`" if does else ""
    return f"models.{model.name}.model: {served.id} cannot chat{hint}"


def _options(model: ModelSpec) -> TextOptions:
    return read_options(TextOptions, model.options, f"models.{model.name}")


async def _output(output: Output) -> Output:
    return output
