"""The commands `usher` and `usher-bot`, and `python -m usher_bot`.

A wheel contains the packages `bot`, `backends` and `queueing` inside this one, so that it does not
install such common names among a person's libraries. In a checkout they are next to it. They are
imported by these names, so their folder comes first on this process's path, before any other `bot`.
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
