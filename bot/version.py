"""The version of this program, from pyproject.toml in a checkout or from the installed package."""

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"


@cache
def version() -> str:
    """Return this program's version.

    In a checkout, it is the checkout's version, even if another version is installed as well.
    """
    if _PROJECT.is_file():
        return str(tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]["version"])
    return metadata.version("usher-bot")
