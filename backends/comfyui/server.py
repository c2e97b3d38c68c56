"""The HTTP calls of one ComfyUI server, including old versions. Contains nothing about models.

Methods raise only `Unavailable`, for a server that is unreachable or sends invalid responses,
unless stated otherwise.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import quote

from pydantic import JsonValue

from backends.comfyui.answers import (
    Ended,
    ServerFile,
    ServerPrompt,
    Stage,
    Stats,
    read_ahead,
    read_ended,
    read_job,
    read_metadata,
    read_names,
    read_newest,
    read_queue,
    read_running,
    read_sizes,
    read_stats,
    read_upload,
)
from backends.comfyui.workflow.graph.nodes import Graph, as_json
from backends.common.error_rules import judged
from backends.common.http import Http, Params
from backends.common.http_replies import WORDS_LIMIT, HttpRefused
from backends.common.options import read_options
from queueing.core.errors import (
    ResultGone,
    Unavailable,
    UnreadableAnswer,
)
from queueing.core.requests import File, Record
from queueing.core.specs import BackendSpec

STRANGER = "no ComfyUI answers at this url"
ABSENT = frozenset({404, 405})  # of a path that another server lacks
FILE_LIMIT = 256 * 1024 * 1024
WORKFLOWS_LIMIT = 32 * 1024 * 1024  # of hundreds of prompts
LIST_LIMIT = 4 * 1024 * 1024  # of a folder's file list
FORGETS_S = 1.0  # interval between checks whether it still knows a prompt
NEWEST = (1, 8, 64, 512)  # how many prompts of the history to read, growing as needed
PREVIEWS = "latent2rgb"  # costs the GPU nothing; the server's default is no preview


class ServerOptions(Record):
    """The settings of a ComfyUI backend.

    `token` is sent as a bearer token, for servers behind a proxy that requires one. `keep_metadata`
    leaves the workflow in the files that people receive.
    """

    token: str | None = None
    keep_metadata: bool = False

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of every call."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def server_options(spec: BackendSpec) -> ServerOptions:
    """Return a backend's own settings. Raises `BadModel` for others."""
    return read_options(ServerOptions, spec.options, f"backends.{spec.name}")


class ComfyUIServer:
    """Client of one server. Its only state is what the server's version supports."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self.knows_jobs = True  # has /api/jobs (0.6 and newer); set by `look`

    async def stats(self) -> Stats:
        """Return version and memory. Every ComfyUI has this call, and few other servers."""
        try:
            return read_stats(await self._get("/system_stats"))
        except UnreadableAnswer as error:
            raise UnreadableAnswer(f"{STRANGER}: {error}") from error
        except Unavailable as error:
            if isinstance(error.__cause__, HttpRefused) and error.__cause__.status in ABSENT:
                raise Unavailable(STRANGER) from error
            raise

    async def node_type(self, class_type: str) -> JsonValue:
        """Return the server's description of a node type; an empty object if it has none."""
        return await self._get(f"/object_info/{quote(class_type, safe='')}")

    async def model_files(self, folder: str) -> tuple[str, ...]:
        """Return the names of a folder's model files; empty if the server has no such folder."""
        with suppress(HttpRefused):
            return read_names(await self._http.get_json(f"/models/{folder}", limit=LIST_LIMIT))
        return ()

    async def model_sizes(self, folder: str) -> Mapping[str, int]:
        """Return the sizes in bytes of a folder's model files by name; empty if not reported."""
        with suppress(HttpRefused):
            return read_sizes(
                await self._http.get_json(f"/experiment/models/{folder}", limit=LIST_LIMIT)
            )
        return {}

    async def metadata(self, folder: str, name: str) -> Mapping[str, str]:
        """Return a model file's metadata; empty if it has none or too much."""
        with suppress(HttpRefused, UnreadableAnswer):
            path = f"/view_metadata/{folder}"
            return read_metadata(await self._http.get_json(path, params={"filename": name}))
        return {}

    async def look(self, key: str, *, said_ended: bool = False) -> Stage | Ended:
        """Return a prompt's state. With `said_ended`, tries its history first."""
        if said_ended and (ended := await self._ended(key)):
            return ended
        if self.knows_jobs:
            try:
                stage = read_job(await self._http.get_json(f"/api/jobs/{key}"))
            except HttpRefused as refused:
                if "Job not found" in refused.body:
                    return Stage.UNKNOWN
                self.knows_jobs = False
            else:
                return stage or await self._ended(key) or Stage.UNKNOWN
        # In this order, a prompt that ends between both calls is found in the history.
        stage = read_queue(await self._get("/queue"), key)
        return stage or await self._ended(key) or Stage.UNKNOWN

    async def send(self, key: str, graph: Graph) -> JsonValue:
        """Put a prompt into the server's queue and return the response.

        Raises `HttpRefused` if the server rejects the prompt. After `Unavailable`, the prompt may
        still be in the queue, so call `look` first: a second prompt with the same key would run
        too.
        """
        body: JsonValue = {
            "prompt": as_json(graph),
            "prompt_id": key,
            "client_id": key,
            "extra_data": {"preview_method": PREVIEWS},
        }
        return await self._http.post_json("/prompt", body)

    async def stop(self, key: str) -> None:
        """Remove a prompt from the queue, or interrupt it. Does nothing if it has ended."""
        if self.knows_jobs:
            with suppress(HttpRefused):  # before 0.26
                await self._http.post_json(f"/api/jobs/{key}/cancel", {})
                return
        await self._post("/queue", {"delete": [key]})
        # Before 0.3.57 an interrupt stops whichever prompt runs, so send it only to the right one.
        if read_queue(await self._get("/queue"), key) is Stage.RUNNING:
            await self._post("/interrupt", {"prompt_id": key})

    async def ahead(self, key: str) -> int:
        """Return how many prompts are ahead of a waiting one."""
        return read_ahead(await self._get("/queue"), key)

    async def running(self) -> ServerPrompt | None:
        """Return the running prompt of any client."""
        return read_running(await self._get("/queue"))

    async def newest(self) -> tuple[ServerPrompt, Ended] | None:
        """Return the last prompt that ended since the server started, or None.

        Skips prompts that load nothing.
        """
        for most in NEWEST:
            ended = read_newest(await self._get("/history", {"max_items": str(most)}))
            found = next((each for each in ended if not each[0].weightless), None)
            if found or len(ended) < most:
                return found
        return None

    async def forgets(self) -> None:
        """Wait until the server no longer knows a prompt that it knew, so it has restarted."""
        known: str | None = None
        missed = 0  # a single miss may fall into its move between two lists
        while missed < 2:
            with suppress(Unavailable, UnreadableAnswer):  # handled elsewhere
                if known is None:
                    known = await self._latest()
                elif await self.look(known) is Stage.UNKNOWN:
                    missed += 1
                else:
                    missed = 0
            await asyncio.sleep(FORGETS_S)

    async def _latest(self) -> str | None:
        """Return the id of a prompt that the server will remember long after its end."""
        newest = await self.newest()
        prompt = newest[0] if newest else await self.running()
        return prompt.id if prompt else None

    async def upload(self, file: File) -> str:
        """Store an image under its own name and return its name for LoadImage."""
        fields = {"subfolder": "usher", "type": "input", "overwrite": "true"}
        try:
            return read_upload(
                await self._http.post_multipart(
                    "/upload/image", field="image", file=file, fields=fields
                )
            )
        except HttpRefused as refused:
            raise judged((), refused.status, refused.body) from refused

    async def download(self, file: ServerFile) -> tuple[bytes, str]:
        """Return a file the server wrote and its media type."""
        try:
            return await self._http.get_bytes("/view", params=file.model_dump(), limit=FILE_LIMIT)
        except HttpRefused as refused:
            raise ResultGone(f"the result is gone: {refused}") from refused

    async def has_file(self, filename: str, subfolder: str, kind: str) -> bool:
        """Return whether a folder of the server, such as "input", contains a file."""
        params = {"filename": filename, "subfolder": subfolder, "type": kind}
        try:
            await self._http.head("/view", params=params)
        except HttpRefused:
            return False
        return True

    async def free(self) -> None:
        """Ask the server to unload all models; its worker does so when idle."""
        await self._post("/free", {"unload_models": True, "free_memory": True})

    async def _ended(self, key: str) -> Ended | None:
        return read_ended(await self._get(f"/history/{key}"), key)

    async def _get(self, path: str, params: Params | None = None) -> JsonValue:
        try:
            limit = WORKFLOWS_LIMIT if path in {"/queue", "/history"} else WORDS_LIMIT
            return await self._http.get_json(path, params=params, limit=limit)
        except HttpRefused as refused:  # every ComfyUI accepts these calls
            raise Unavailable(str(refused)) from refused

    async def _post(self, path: str, body: JsonValue) -> None:
        try:
            await self._http.post_json(path, body)
        except HttpRefused as refused:
            raise Unavailable(str(refused)) from refused
