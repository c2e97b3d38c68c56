"""Tries a template on the ComfyUI servers of a configuration, and reads what nodes they have."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from backends.comfyui.verifying import described, opened, verify
from backends.comfyui.workflow.graph.nodes import Graph
from backends.comfyui.workflow.template import Template
from bot.config.config import Config
from queueing.core.concurrency import timeout
from queueing.core.errors import BackendError, BadModel
from queueing.core.specs import BackendSpec

TRY_S = 20.0  # per server
_KIND = "comfyui"


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """A server's verdict on a template: `refused` is the reason, or empty if it accepts it."""

    backend: str
    refused: str = ""
    notes: tuple[str, ...] = ()
    reached: bool = True


def servers_of(config: Config | None) -> Sequence[BackendSpec]:
    """Return the ComfyUI servers of a configuration."""
    if config is None:
        return ()
    return [spec for spec in config.catalog().backends.values() if spec.kind == _KIND]


async def described_by(servers: Sequence[BackendSpec], graph: Graph) -> dict[str, JsonValue]:
    """Return the descriptions of a graph's nodes from the first server that answers."""
    kinds = {node.class_type for node in graph.values()}
    for spec in servers:
        try:
            async with timeout(TRY_S), opened(spec) as server:
                return await described(server, kinds)
        except (BackendError, TimeoutError):
            continue
    return {}


async def tried(servers: Sequence[BackendSpec], template: Template) -> Sequence[Outcome]:
    """Return each server's verdict on a template."""
    return [await _outcome(spec, template) for spec in servers]


async def _outcome(spec: BackendSpec, template: Template) -> Outcome:
    try:
        async with timeout(TRY_S), opened(spec) as server:
            notes = await verify(server, [template])
    except BadModel as error:
        return Outcome(backend=spec.name, refused=str(error))
    except BackendError as error:
        return Outcome(backend=spec.name, refused=str(error), reached=False)
    except TimeoutError:
        return Outcome(backend=spec.name, refused=f"none within {TRY_S:.0f} s", reached=False)
    return Outcome(backend=spec.name, notes=tuple(notes))


def usable(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Return the servers that accept the template, and those that could not be reached."""
    return tuple(each.backend for each in outcomes if not each.refused or not each.reached)


def lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield a line about each server, and its notes."""
    if not outcomes:
        yield "Not tried: no ComfyUI server is configured."
    for each in outcomes:
        if not each.reached:
            yield f"{each.backend}: not tried: no usable answer ({each.refused})"
        else:
            yield f"{each.backend}: {f'FAILED: {each.refused}' if each.refused else 'ok'}"
        yield from (f"{each.backend}: {note}" for note in each.notes)
