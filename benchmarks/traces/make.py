"""Makes the shipped traces, the same ones every time: `python -m benchmarks.traces.make`.

`--dir` names another folder than this one. `benchmarks.schedule` takes the name of a shipped trace without a file.
"""

import argparse
import json
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from random import Random

from benchmarks.schedule.trace import Trace
from benchmarks.traces.kinds import SHIPPED


def shipped(name: str) -> Trace:
    """Return the shipped trace of a name."""
    return SHIPPED[name](Random(name))


def named(path: Path) -> list[Path]:
    """Return the shipped traces, as if they were files, that a pattern's last part matches."""
    return [path.with_name(f"{name}.json") for name in SHIPPED if fnmatch(name, path.stem)]


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
    parser.add_argument("--dir", type=Path, default=Path(__file__).resolve().parent)
    options = parser.parse_args()
    for name in SHIPPED:
        text = as_text(shipped(name))
        (options.dir / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
