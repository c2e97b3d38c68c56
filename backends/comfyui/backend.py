"""ComfyUI: runs workflow templates on a ComfyUI server.

The attempt's key is the server's prompt id, so an attempt can be found again after a crash.
`attempts` sends and watches the prompts.
"""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar
from uuid import UUID, uuid4

from pydantic import JsonValue

from backends.comfyui.answers import Ended, ServerPrompt, Stage
from backends.comfyui.attempts import Attempts
from backends.comfyui.choices import lora_files, with_choices, with_lora_files
from backends.comfyui.discovery import Discovery
from backends.comfyui.errors import MISCONFIGURED, answered, emptied, raise_if_failed
from backends.comfyui.files import as_clear, collected, stand_in, uploaded
from backends.comfyui.model_templates import (
    Templates,
    read_templates,
    remarks_on,
)
from backends.comfyui.server import ComfyUIServer, server_options
from backends.comfyui.verifying import verify
from backends.comfyui.workflow.graph.analysis import Medium
from backends.comfyui.workflow.graph.node_types import (
    NumberRange,
    common,
    info_of,
    input_of,
    inputs_of,
    limits_in,
)
from backends.comfyui.workflow.graph.nodes import Asked, Graph, places
from backends.comfyui.workflow.offered_nodes import as_offered
from backends.comfyui.workflow.rendering import TINY, fill, warm_up
from backends.comfyui.workflow.template import Template
from backends.common.http import Http
from backends.common.model_names import lora_names
from queueing.core.concurrency import timeout
from queueing.core.errors import (
    BadModel,
    ProblemKind,
    Rejected,
    ResultGone,
    problem,
)
from queueing.core.ports import Backend, Fetch, Report, ServerInfo
from queueing.core.requests import (
    Capability,
    File,
    Generation,
    Output,
    TextToImage,
    Work,
)
from queueing.core.specs import BackendSpec, ModelSpec

FREE_S = 10.0
DEAF = (
    "Its websocket cannot be opened, so messages show no progress and no previews, and results come"
    " up to 2 s later: a proxy in front of it must pass on websockets at /ws."
)
NO_IMAGE = problem(ProblemKind.NO_IMAGE)
NO_RESULT = problem(ProblemKind.NO_RESULT)
FREED_MB = 512  # a process may hold this much with no model loaded


class ComfyUI(Backend):
    """One ComfyUI process; see `queueing.core.ports.Backend` for the contract.

    It runs one prompt at a time, including loads, and keeps the models of its last prompt in
    memory.
    """

    needs_url: ClassVar[bool] = True
    ports: ClassVar[tuple[int, ...]] = (8188,)
    serial: ClassVar[bool] = True
    max_models: ClassVar[int | None] = 1
    offloads: ClassVar[bool] = True
    parallel: ClassVar[int] = 1

    capabilities = frozenset(
        {
            Capability.TEXT_TO_IMAGE,
            Capability.IMAGE_TO_IMAGE,
            Capability.IMAGE_EDIT,
            Capability.UPSCALE,
            Capability.TEXT_TO_VIDEO,
            Capability.IMAGE_TO_VIDEO,
            Capability.TEXT_TO_AUDIO,
            Capability.TEXT_TO_SPEECH,
        }
    )
    unloads_together = True

    def __init__(self, spec: BackendSpec) -> None:
        self._name = spec.name
        self._options = server_options(spec)
        headers = self._options.headers
        self._http = Http(spec.url, headers=headers, proxy=spec.proxy)
        self._server = ComfyUIServer(self._http)
        self._attempts = Attempts(
            self._server,
            self._http.socket_url("/ws"),
            self._http.headers,
            name=spec.name,
            proxy=spec.proxy,
        )
        self._discovery = Discovery(spec.name)
        self._known: dict[str, tuple[ModelSpec, Templates]] = {}
        self._described: dict[str, JsonValue] = {}  # what the server said of each node type
        self._doubts: dict[str, list[str]] = {}  # what `verify` could not check
        self._freed_after: str | None = None  # id of the last prompt before memory was freed

    # ---------------------------------------------------------------- what it is and has

    def check(self, model: ModelSpec) -> None:
        """Read the model's templates. Raises `BadModel` naming file and node for invalid ones."""
        self._templates(model)

    def options(self, model: ModelSpec) -> frozenset[str] | None:
        """Return the options that the placeholders of its templates accept."""
        return self._templates(model).options

    def usual(self, model: ModelSpec) -> Mapping[str, float]:
        """Return the numeric defaults of its templates, the largest of each."""
        return self._templates(model).usual

    def remarks(self, model: ModelSpec) -> Sequence[str]:
        """Return notes on a model's templates, which run but may surprise people.

        After `verify`, these include what could not be checked.
        """
        own = [note for workflow in self._templates(model).all for note in remarks_on(workflow)]
        return [*own, *self._doubts.get(model.name, ())]

    def weightless(self, model: ModelSpec) -> bool:
        """Return whether its templates need no model, such as those that enlarge an image."""
        return all(workflow.weightless for workflow in self._templates(model).all)

    async def probe(self) -> ServerInfo:
        """Read version and memory. A server whose worker hangs counts as unavailable."""
        stats = await self._server.stats()
        await self._attempts.raise_if_stuck()
        await self._server.look(str(UUID(int=0)))  # detects what this version supports
        notes = [] if await self._attempts.hears() else [DEAF]
        if not self._server.knows_jobs:
            notes.append(
                "Old version: lost work is found more slowly. Version 0.26 or newer is better."
            )
        if stats.devices[0].type == "cpu":
            notes.append("It computes on the CPU and uses the host's memory.")
        return ServerInfo(
            description=f"ComfyUI {stats.system.comfyui_version}",
            total_mb=stats.total_mb,
            free_mb=stats.free_mb,
            cuda=stats.devices[0].type == "cuda",
            notes=(*notes, *self._discovery.notes),
        )

    async def gone(self) -> None:
        """Wait until an idle connection breaks, or until the server has forgotten its last prompt.

        The latter detects a restart behind a proxy, whose connections outlive the server.
        """
        signs = [
            asyncio.create_task(self._http.gone()),
            asyncio.create_task(self._server.forgets()),
        ]
        try:
            seen, _ = await asyncio.wait(signs, return_when=asyncio.FIRST_COMPLETED)
            for sign in seen:
                sign.result()
        finally:
            for sign in signs:
                sign.cancel()
            await asyncio.gather(*signs, return_exceptions=True)

    async def verify(self, model: ModelSpec) -> None:
        """Raise `BadModel` naming all that the server would refuse of the model's templates."""
        self._doubts[model.name] = await verify(self._server, self._templates(model).all)

    async def discover(self, known: Sequence[ModelSpec] = ()) -> tuple[ModelSpec, ...]:
        """Return a model for each further file whose family has a shipped template.

        Logs why the other files are not offered; `probe` reports that too.
        """
        taken = frozenset[str]().union(*(self._templates(model).models for model in known))
        return await self._discovery.look(self._server, taken)

    async def loras(self, model: ModelSpec) -> tuple[str, ...]:
        """Return the names of the server's LoRAs; empty if no template takes one."""
        workflows = self._templates(model).all
        taking = next((workflow for workflow in workflows if workflow.lora_loader), None)
        return lora_names(await lora_files(self._server, taking)) if taking else ()

    # ---------------------------------------------------------------- running

    async def run(self, model: ModelSpec, work: Work, report: Report) -> Fetch:
        """Send one prompt and follow it to its end."""
        with answered():
            return await self._run_prompt(model, work, report)

    async def _run_prompt(self, model: ModelSpec, work: Work, report: Report) -> Fetch:
        request, workflow, files = self._request(model, work)
        request = await with_lora_files(self._server, request, workflow)
        request = await with_choices(self._description, request, workflow)
        names, request = await uploaded(self._server, files, request, workflow)
        if isinstance(request, Generation):
            limits = await self._limits(workflow, "seed")
            request = request.model_copy(update={"seed": limits.wrapped(request.seed)})
        graph = fill(workflow, request, prefix=f"usher/{work.key}", files=names)
        graph = await self._spelled(graph)
        ended = await self._attempts.run(work.key, graph, workflow, request, report)
        return self._fetch(model, work, workflow, ended)

    async def resume(self, model: ModelSpec, work: Work, report: Report) -> Fetch | None:
        """Find an attempt that was sent earlier, and watch it if it is still running."""
        _, workflow, _ = self._request(model, work)
        seen = await self._server.look(work.key)
        if seen is Stage.UNKNOWN:
            return None
        if isinstance(seen, Ended):
            if seen.interrupted:
                return None
            raise_if_failed(workflow, seen)
            return self._fetch(model, work, workflow, seen)
        ended = await self._attempts.follow(work.key, workflow, report)
        return self._fetch(model, work, workflow, ended)

    def leave(self) -> bool:
        """Keep prompts running when their calls are cancelled; `resume` finds them by key."""
        self._attempts.leave()
        return True

    async def aclose(self) -> None:
        """Finish stopping cancelled attempts, then close all connections. Idempotent."""
        await self._attempts.aclose()
        await self._http.aclose()

    # ---------------------------------------------------------------- files in and out

    def _fetch(self, model: ModelSpec, work: Work, workflow: Template, ended: Ended) -> Fetch:
        async def fetch() -> Output:
            made = await self._result(work.key, workflow, ended) if ended.told else ended
            await self._attempts.give_way()
            if not made.files:
                draws = workflow.medium is Medium.IMAGE
                why = NO_IMAGE if draws else NO_RESULT
                raise Rejected(f"the attempt ended without a file ({model.name})", problem=why)
            keep = self._options.keep_metadata
            output = await collected(self._server, made.files, model.name, keep_metadata=keep)
            upscaled = isinstance(work.request, TextToImage) and work.request.upscale
            return await asyncio.to_thread(as_clear, output, work.files[0]) if upscaled else output

        return fetch

    async def _result(self, key: str, workflow: Template, told: Ended) -> Ended:
        """Read the result of an attempt that the server has reported as done.

        If its history has been cleared, returns `told`, the result from its websocket messages.
        """
        seen = await self._server.look(key)
        if isinstance(seen, Ended):
            raise_if_failed(workflow, seen)
            return seen
        if not told.files:
            raise ResultGone(f"the result is gone: the attempt is {seen}")
        return told

    # ---------------------------------------------------------------- memory

    async def load(self, model: ModelSpec) -> None:
        """Run the model's first template once, in one step, at its smallest size and unsaved."""
        if await self.loaded([model]):
            return
        self._described.clear()  # the nodes may have changed
        workflow = self._templates(model).all[0]
        limits = {word: await self._limits(workflow, word) for word in ("seed", "frames", *TINY)}
        files = {word: await self._server.upload(stand_in(word)) for word in sorted(workflow.needs)}
        seed = limits["seed"].wrapped(secrets.randbits(63))
        graph = await self._spelled(warm_up(workflow, seed=seed, files=files, limits=limits))
        nothing = TextToImage(prompt="")
        try:
            await self._attempts.run(str(uuid4()), graph, workflow, nothing, lambda _: None)
        except Rejected as error:  # no person made this request
            raise BadModel(f"warm-up: {error}", problem=MISCONFIGURED) from error

    async def unload(self, model: ModelSpec) -> None:
        """Free all models of this process. Waits until its memory is free, at most `FREE_S`."""
        if self.weightless(model):
            return
        newest = await self._server.newest()
        await self._server.free()
        self._freed_after = newest[0].id if newest else None
        with suppress(TimeoutError):
            async with timeout(FREE_S):
                while await self._holds_memory():  # noqa: ASYNC110  # the server sends no signal
                    await asyncio.sleep(0.1)

    async def loaded(self, models: Sequence[ModelSpec]) -> frozenset[str] | None:
        """Return the models that the server's running or newest prompt used, whoever sent it.

        People also load models from the server's own page. An empty history after a restart means
        that the memory is empty. A model that loads nothing always counts as loaded.
        """
        always = frozenset(model.name for model in models if self.weightless(model))
        weighing = [model for model in models if model.name not in always]
        return always | await self._in_memory(weighing)

    async def _in_memory(self, models: Sequence[ModelSpec]) -> frozenset[str]:
        running = await self._server.running()
        if running is not None and not running.weightless:
            return self._using(running, models)
        newest = await self._server.newest()
        if newest is None or newest[0].id == self._freed_after:
            return frozenset()
        prompt, ended = newest
        using = self._using(prompt, models)
        return frozenset(name for name in using if not emptied(self._known[name][1].all[0], ended))

    async def _holds_memory(self) -> bool:
        """Return whether the memory is not free yet: the worker is busy, or has not freed it."""
        if await self._server.running() is not None:
            return True
        return (await self._server.stats()).held_mb > FREED_MB

    def _using(self, prompt: ServerPrompt, models: Sequence[ModelSpec]) -> frozenset[str]:
        return frozenset(
            model.name
            for model in models
            if any(workflow.marks <= prompt.marks for workflow in self._templates(model).all)
        )

    # ---------------------------------------------------------------- requests and templates

    async def _limits(self, workflow: Template, word: str) -> NumberRange:
        """Return the limits the server sets for a placeholder, read once per load."""
        found = []
        for place in inputs_of(workflow.nodes, word):
            offered = await self._description(place[0])
            found.append(limits_in(input_of(offered, *place)) or NumberRange())
        return common(found)

    async def _spelled(self, graph: Graph) -> Graph:
        """Return a graph with the names of files and choices as this server spells them."""
        spelled = dict(graph)
        for key, node in graph.items():
            if not any(isinstance(value, str) for value in node.inputs.values()):
                continue
            info = info_of(await self._description(node.class_type), node.class_type)
            if info:
                spelled[key] = replace(node, inputs=as_offered(node.inputs, info))
        return spelled

    async def _description(self, class_type: str) -> JsonValue:
        """Return the server's description of a node type, read once per load."""
        known = self._described.get(class_type)
        if known is None:  # returned at once: loading another model forgets them all
            known = self._described[class_type] = await self._server.node_type(class_type)
        return known

    def _templates(self, model: ModelSpec) -> Templates:
        known = self._known.get(model.name)
        if known is None or known[0] != model:
            known = self._known[model.name] = (model, read_templates(model))
        return known[1]

    def _request(self, model: ModelSpec, work: Work) -> tuple[Asked, Template, dict[str, File]]:
        if not isinstance(work.request, Asked):
            draws = self._templates(model).all[0].medium is Medium.IMAGE
            what = ProblemKind.DRAWS_ONLY if draws else ProblemKind.UNABLE
            raise Rejected("a workflow cannot serve a chat request", problem=problem(what))
        files = places(work.request, work.files)
        return work.request, self._templates(model).serving(work.request, files.keys()), files
