"""Records of control responses that several flavours share.

`Listed` is the only one that every server sends.
"""

from pydantic import JsonValue

from backends.common.http import Http
from backends.common.http_replies import HttpRefused
from backends.common.server_replies import ServerReply, read


class Chunk(ServerReply):
    """A whole answer, of which only the number of choices is used."""

    choices: tuple[JsonValue, ...] | None = None


MB = 1024 * 1024


class Listed(ServerReply):
    """An entry of /v1/models, including llama.cpp's additions."""

    class Status(ServerReply):
        """llama.cpp's router and llama-swap: unloaded, loading, loaded, sleeping."""

        value: str = ""
        failed: bool = False
        exit_code: int | None = None

    class Architecture(ServerReply):
        """llama.cpp's router: accepted inputs."""

        input_modalities: tuple[str, ...] = ()

    class Meta(ServerReply):
        """llama.cpp: `size` of the weights in bytes, `n_ctx` the context of each slot."""

        size: int | None = None
        n_ctx: int | None = None

    id: str
    aliases: tuple[str, ...] | None = None
    owned_by: str | None = None
    status: Status | None = None
    architecture: Architecture | None = None
    meta: Meta = Meta()
    max_model_len: int | None = None  # the context of vLLM and SGLang
    context_length: int | None = None  # the same of gateways

    @property
    def context(self) -> int | None:
        """The context in tokens, if the server reports it."""
        return self.max_model_len or self.context_length or self.meta.n_ctx


class Listing(ServerReply):
    """GET /v1/models."""

    data: tuple[Listed, ...]


async def listing(http: Http) -> tuple[Listed, ...]:
    """Return the entries of GET /v1/models, which every server supports."""
    return read(Listing, await http.get_json("/v1/models")).data


async def post_settled(http: Http, path: str, body: JsonValue, settled: str) -> None:
    """POST and ignore the response. An error containing `settled` means nothing is to be done."""
    try:
        async with http.stream_lines(path, body, read_s=60.0):  # llama-swap's answer is not JSON
            pass
    except HttpRefused as error:
        if settled not in error.body:
            raise


def in_mb(size: int | None) -> int | None:
    """Return a size in bytes as MB; None if unknown."""
    return None if size is None else round(size / MB)
