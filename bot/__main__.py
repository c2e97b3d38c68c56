"""`python -m bot` is the command `usher`."""

import sys
from pathlib import Path

try:
    from bot.cli.main import main
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] in {"bot", "backends", "queueing"}:
        raise
    # A service starts the environment's Python directly, which a system upgrade may replace.
    folder = Path(__file__).resolve().parents[1]
    again = "install usher-bot again"
    if (folder / "tasks.py").exists():
        again = f"run `python3 tasks.py usher version` in {folder}, which makes .venv again"
    python = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    sys.exit(f"usher: {error.name} is not installed for {python}, which may be new here: {again}")

sys.exit(main())
