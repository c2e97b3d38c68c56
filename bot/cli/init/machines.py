"""Puts servers onto hosts: those of one machine share its memory. Asks only what nothing tells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from bot.cli.init import card
from bot.cli.init.places import HERE
from bot.cli.init.scan import FoundServer
from bot.cli.init.terminal import Terminal, ask_for
from bot.config.values import Megabytes

GUESS_MB = 8 * 1024
_SIZE: TypeAdapter[int] = TypeAdapter(Megabytes)


@dataclass(frozen=True, kw_only=True, slots=True)
class HostPlan:
    """A host to write: its memory and where that was learned, and its servers by their names."""

    name: str
    vram: str
    why: str
    gpu: int | None = None
    servers: tuple[tuple[str, FoundServer], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnMemory:
    """What this machine has: the memory of its cards by number, and its own, in MB."""

    cards: tuple[int, ...] = ()
    machine_mb: int | None = None


def hosts(found: Sequence[FoundServer], own: OwnMemory, terminal: Terminal) -> tuple[HostPlan, ...]:
    """Return the hosts of these servers."""
    machines = list(dict.fromkeys(server.machine for server in found))
    machines.sort(key=lambda machine: machine != HERE)
    named = dict(_named(found))
    return tuple(
        _host(machine, f"gpu-{number}", named, own, terminal)
        for number, machine in enumerate(machines, start=1)
    )


def _named(found: Sequence[FoundServer]) -> Iterator[tuple[FoundServer, str]]:
    """Yield each server with a name of its own."""
    taken: set[str] = set()
    for server in found:
        name, number = server.called, 2
        while name in taken:
            name, number = f"{server.called}-{number}", number + 1
        taken.add(name)
        yield server, name


def _host(
    machine: str,
    name: str,
    named: dict[FoundServer, str],
    own: OwnMemory,
    terminal: Terminal,
) -> HostPlan:
    servers = tuple((named[server], server) for server in named if server.machine == machine)
    told_mb = max((server.total_mb or 0 for _, server in servers), default=0)
    if machine == HERE and own.cards:
        gpu = _which(own.cards, terminal)
        vram, why = card.size(own.cards[gpu]), "measured"
        return HostPlan(name=name, vram=vram, why=why, gpu=gpu, servers=servers)
    if told_mb:
        return HostPlan(
            name=name, vram=card.size(told_mb), why="as its server says", servers=servers
        )
    if machine == HERE and own.machine_mb:
        usual, why = own.machine_mb, "this machine's memory: no card was measured"
    else:
        usual, why = GUESS_MB, "a guess: put the memory of its card here"
    where = "this machine" if machine == HERE else machine
    question = f"Memory of the card of {where}, such as 24GB"
    size_mb = ask_for(terminal, question, card.size(usual), _size)
    if card.size(size_mb) != card.size(usual) or terminal.asks:
        why = "as you said"
    return HostPlan(name=name, vram=card.size(size_mb), why=why, servers=servers)


def _size(answer: str) -> int:
    try:
        return _SIZE.validate_python(answer)
    except ValidationError:
        raise ValueError("It must be a size with its unit, such as 24GB.") from None


def _which(sizes: Sequence[int], terminal: Terminal) -> int:
    """Return the card that the servers of this machine use: the largest unless a person says so."""
    largest = max(range(len(sizes)), key=lambda number: sizes[number])
    if len(sizes) == 1:
        return largest

    def read(answer: str) -> int:
        if answer.isdecimal() and int(answer) < len(sizes):
            return int(answer)
        raise ValueError(f"It must be a number from 0 to {len(sizes) - 1}.")

    listed = ", ".join(f"{number} ({card.size(mb)})" for number, mb in enumerate(sizes))
    terminal.tell(f"This machine has {len(sizes)} cards: {listed}.")
    return ask_for(terminal, "Which one do its servers use", str(largest), read)
