"""Which traces a benchmark replays: kinds and seeds from the command line, in as many processes as cores."""

import argparse
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Asked:
    """The kinds of traces that are asked for, and of each kind those with these seeds."""

    kinds: Sequence[str]
    seeds: range

    def by_kind(
        self, figures: Callable[[tuple[str, int]], Found]
    ) -> Iterator[tuple[str, list[Found]]]:
        """Yield each kind with what `figures` finds in its traces, given as (kind, seed)."""
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            found = pool.map(figures, product(self.kinds, self.seeds))
            for kind in self.kinds:
                yield kind, [next(found) for _ in self.seeds]


def asked(
    about: str | None, kinds: Collection[str], arguments: Sequence[str] | None, *, seeds: int
) -> Asked:
    """Read the command line; `about` is what the benchmark says of itself, `seeds` the usual number."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=seeds, help="traces of each kind")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--families", nargs="+", choices=sorted(kinds), default=list(kinds))
    options = parser.parse_args(arguments)
    return Asked(options.families, range(options.first, options.first + options.seeds))
