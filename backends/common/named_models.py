"""What servers of texts and of pictures do alike with their models."""

from backends.common.http import Http
from queueing.core.catalog import ModelSpec


def served_name(model: ModelSpec) -> str:
    """Return the server's own name for a model: its option `model`, otherwise its name."""
    return str(model.options.get("model") or model.name)


class NamedModels:
    """Part of `queueing.core.ports.Backend`, for servers that know models by names of their own."""

    _http: Http

    def own_name(self, model: ModelSpec) -> str:
        """Return the option `model`, otherwise the name."""
        return served_name(model)

    async def gone(self) -> None:
        """Return when an idle connection breaks and the next is refused."""
        await self._http.gone()
