"""The commands `usher` and `usher-bot`, and `python -m usher_bot`.

A wheel has the packages `bot`, `backends` and `queueing` inside this one, so that no such names lie
among a person's libraries; in a checkout they lie beside it. They are imported by these names, so
the folder they lie in comes first on the path of this process, before anyone else's `bot`.
"""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
PROGRAM = _HERE if (_HERE / "bot").is_dir() else _HERE.parent


def main() -> int:
    """Carry out the command line and return its exit status."""
    sys.path.insert(0, str(PROGRAM))
    from bot.cli.main import main as usher  # noqa: PLC0415  # found only now

    return usher()


if __name__ == "__main__":
    sys.exit(main())
