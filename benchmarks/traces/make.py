"""Makes the traces beside it, the same ones every time: `python -m benchmarks.traces.make`.

`--dir DIR --variants N` makes N others of each kind elsewhere, and of further kinds whose cards,
models and load are drawn by lot, to see what is luck; `--kinds` names some of them; `--crowd JOBS` makes one of so many jobs for
50 models on 8 hosts, to see what promises cost. Each trace is one situation people are in:
cards shared by several models, bursts, a model everyone wants beside ones hardly anyone does,
more work than the cards can do.
"""

import argparse
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))  # run as a plain script, too

from benchmarks.trace import Trace
from benchmarks.traces.cards import CARDS, two_cards
from benchmarks.traces.drawn import DRAWN, crowd
from benchmarks.traces.flooders import FLOODED
from benchmarks.traces.shared import SHARED
from benchmarks.traces.shipped import TRACES
from benchmarks.traces.sparse import SPARSE

HERE = Path(__file__).resolve().parent
KINDS = TRACES | CARDS | DRAWN | SHARED | FLOODED


def as_text(trace: Trace) -> str:
    """Return a trace as JSON, one line for each host, model and job."""

    def rows(records: Sequence[object]) -> str:
        return ",\n".join(json.dumps(record, separators=(",", ":")) for record in records)

    dumped = trace.model_dump(mode="json", exclude_defaults=True)
    parts = (f'"{key}":[\n{rows(dumped[key])}\n]' for key in dumped)
    return "{" + ",\n".join(parts) + "}\n"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dir", type=Path, default=HERE)
    parser.add_argument("--variants", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS | SPARSE), default=list(KINDS))
    parser.add_argument("--crowd", type=int, metavar="JOBS")
    options = parser.parse_args()
    if options.crowd:
        name = f"crowd-{options.crowd}"
        _write(options.dir, name, crowd(random.Random(name), options.crowd))
        return
    if not options.variants:
        for name, make in (TRACES | {"two-cards": two_cards}).items():
            _write(options.dir, name, make(random.Random(name)))
        return
    for name in options.kinds:
        for number in range(1, options.variants + 1):
            variant = f"{name}-{number}"
            _write(options.dir, variant, (KINDS | SPARSE)[name](random.Random(variant)))


def _write(folder: Path, name: str, trace: Trace) -> None:
    (folder / f"{name}.json").write_text(as_text(trace), encoding="utf-8")


if __name__ == "__main__":
    main()
