"""Fills in the systemd unit, for the person's own account or for the machine."""

import getpass
import os
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from bot.cli.init.files import NewFile
from bot.cli.init.terminal import InitFailed

KINDS = ("user", "system", "none")
NAME = "usher.service"
INSTALL = "`uv tool install usher-bot` or `pipx install usher-bot`"
PROGRAMS = ("usher", "usher-bot")  # names of the installed commands
_RUNNING = Path("/run/systemd/system")
_HOMES = ("/home", "/root")  # hidden by ProtectHome
_ROOT = Path(__file__).parents[3]
_CACHE = "CACHEDIR.TAG"  # marks a folder whose contents may be deleted; uv and pipx write it


@dataclass(frozen=True, kw_only=True, slots=True)
class UnitPlan:
    """A unit to write, and the commands that start it."""

    file: NewFile
    steps: tuple[str, ...]


def is_possible() -> bool:
    """Return whether this machine runs systemd."""
    return _RUNNING.is_dir()


def passing() -> Path | None:
    """Return the cache Usher runs from, as with `uvx` and `pipx run`; None if it is installed.

    A cache can be emptied, after which a service would fail to start.
    """
    above = Path(sys.prefix).parents  # a permanent environment may contain the mark itself
    return next((folder for folder in above if (folder / _CACHE).is_file()), None)


def require_lasting() -> None:
    """Raise `InitFailed` if a unit would name a program that may be deleted."""
    if (cache := passing()) is not None:
        raise InitFailed(
            f"Usher runs from a cache ({cache}) that is emptied from time to time, and a service would"
            f" then fail to start. Install it ({INSTALL}) and run `usher init` again."
            " Nothing was written."
        )


def plan(kind: str, config: Path) -> UnitPlan | None:
    """Return the unit of a kind for a configuration."""
    if kind not in {"user", "system"}:
        return None
    folder = config.parent
    at_home = any(
        path.is_relative_to(home) for path in (folder, _ROOT, Path(sys.prefix)) for home in _HOMES
    )
    template = files("bot.cli.init").joinpath(f"{kind}.service").read_text(encoding="utf-8")
    text = template.format(
        folder=_plain(folder),
        writable=_quoted(str(folder)),
        command=" ".join(map(_quoted, command())),
        config=_quoted(str(config)),
        user=getpass.getuser(),
        home="read-only" if at_home else "yes",
    )
    if kind == "system":
        steps = (
            f"sudo cp {folder / NAME} /etc/systemd/system/",
            "sudo systemctl enable --now usher",
        )
        return UnitPlan(file=NewFile(path=folder / NAME, text=text), steps=steps)
    own = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd/user"
    steps = (
        "systemctl --user enable --now usher",
        "loginctl enable-linger    # keeps it running while you are logged out",
    )
    return UnitPlan(file=NewFile(path=own / NAME, text=text), steps=steps)


def command() -> tuple[str, ...]:
    """Return the command that starts Usher the way it was started now, from any folder."""
    started = Path(sys.argv[0])
    if started.name in PROGRAMS and os.access(started, os.X_OK):
        return (str(started.absolute()),)
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    package = spec.parent if spec is not None and spec.name.endswith("__main__") else "bot"
    return ("/usr/bin/env", f"PYTHONPATH={_ROOT}", sys.executable, "-P", "-m", package)


def _quoted(text: str) -> str:
    """Return an argument quoted for systemd."""
    plain = _plain(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{plain}"' if plain != text or " " in text or "'" in text else text


def _plain(text: object) -> str:
    """Return a path escaped for systemd.

    Raises `InitFailed` for one that no unit can contain.
    """
    if any(sign in str(text) for sign in "\n\r\0"):
        raise InitFailed(f"{text!r} cannot be used in a systemd unit. Nothing was written.")
    return str(text).replace("%", "%%")
