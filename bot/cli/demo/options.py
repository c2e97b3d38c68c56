"""The options of `usher demo`, apart from the demo, whose libraries are slow to import."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoOptions:
    """How `usher demo` runs.

    With `say` there is no page: the commands are carried out and the demo ends by itself. `crowd`
    simulated people use it at the same time. Without `port` the page is at 8080, or at any free
    port if that is taken. `speed` divides the times the demo takes. The jobs are stored in
    `database`; without it in the person's state folder, or with `say` nowhere. `fresh` deletes what
    earlier demos stored. `out` is a folder for the results.
    """

    port: int | None = None
    crowd: int = 0
    say: tuple[str, ...] = ()
    out: Path | None = None
    database: Path | None = None
    fresh: bool = False
    speed: float = 1.0
