"""What an admin has stopped: a plain value that the store keeps and the planner's views read."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True, slots=True)
class Paused:
    """Everything, or these models and hosts by name.

    Nothing that is paused starts a job or loads a model; running work ends normally.
    """

    everything: bool = False
    models: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()

    def stops_model(self, model: str) -> bool:
        """Return whether no job of a model may start anywhere."""
        return self.everything or model in self.models

    def stops_host(self, host: str) -> bool:
        """Return whether nothing may start or load on a host."""
        return self.everything or host in self.hosts

    def adding(self, *, model: str | None, host: str | None) -> "Paused":
        """Return this with a model, a host or both paused as well; with neither, everything."""
        return replace(
            self,
            everything=self.everything or (model is None and host is None),
            models=self.models | _one(model),
            hosts=self.hosts | _one(host),
        )

    def without(self, *, model: str | None, host: str | None) -> "Paused":
        """Return this without a model, a host or both; with neither, nothing stays paused."""
        if model is None and host is None:
            return Paused()
        return replace(self, models=self.models - _one(model), hosts=self.hosts - _one(host))


def _one(name: str | None) -> frozenset[str]:
    return frozenset() if name is None else frozenset({name})
