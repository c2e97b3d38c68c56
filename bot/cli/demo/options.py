"""The options of `usher demo`, separate from the demo because its libraries are slow to import."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoOptions:
    """The options of `usher demo`.

    - `port`: where the page listens. By default 8080, or any free port if that is in use.
    - `crowd`: how many simulated people use it at the same time.
    - `say`: commands to run without a page. The demo then ends by itself.
    - `out`: a folder for the results.
    - `database`: where jobs are stored. By default in the person's state folder; with
      `say`, nowhere.
    - `fresh`: delete what earlier demos stored.
    - `speed`: divides the times that the demo takes.
    """

    port: int | None = None
    crowd: int = 0
    say: tuple[str, ...] = ()
    out: Path | None = None
    database: Path | None = None
    fresh: bool = False
    speed: float = 1.0
