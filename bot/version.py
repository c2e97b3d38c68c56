"""The version of this program: what pyproject.toml says, read from a checkout or as installed."""

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"


@cache
def version() -> str:
    """Return this program's version.

    A checkout says its own, also where another version is installed as well.
    """
    if _PROJECT.is_file():
        return str(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"])
    return metadata.version("usher-bot")
