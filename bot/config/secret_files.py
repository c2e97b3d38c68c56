"""Reads secrets that are laid down as files, one each, with the variable's name for a file name.

systemd does so for `LoadCredential=` in `$CREDENTIALS_DIRECTORY`, Docker and Podman in
`/run/secrets`. They count as lines of `usher.env` do, after those and the environment.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from bot.config.environment import LARGEST, EnvironmentFile

FOLDER = Path("/run/secrets")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read(environ: Mapping[str, str]) -> EnvironmentFile:
    """Return the secrets of both folders, of which neither need be there."""
    variables: dict[str, str] = {}
    unread: list[str] = []
    credentials = environ.get("CREDENTIALS_DIRECTORY")
    for folder in (FOLDER, *([Path(credentials)] if credentials else [])):
        try:
            files = sorted(folder.iterdir())
        except FileNotFoundError:
            continue
        except OSError as error:  # such as one of the system's own, for other accounts
            unread.append(f"{folder}: cannot be read: {_reason(error)}")
            continue
        for file in files:
            if not _NAME.fullmatch(file.name) or not file.is_file():
                continue
            try:
                variables[file.name] = _value(file)
            except (OSError, ValueError) as error:
                unread.append(f"{file}: cannot be read: {_reason(error)}")
    return EnvironmentFile(variables=variables, unread="; ".join(unread))


def _value(file: Path) -> str:
    """Return what a file says. Raises `OSError`, and `ValueError` for what is no secret."""
    with file.open("rb") as opened:
        said = opened.read(LARGEST + 1)
    if len(said) > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    return said.decode("utf-8-sig").rstrip("\r\n")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
