"""Reads secrets: from `usher.env` next to the configuration, and from secret files.

The lines of `usher.env` act like environment variables, and the real environment takes precedence.
Its form is what systemd, Docker and shells all read alike: NAME=value, one per line.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FILE = "usher.env"
LARGEST = 64 * 1024  # bytes; a token has about a hundred
_ASSIGNMENT = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)")
_QUOTED = re.compile(r"'(?P<single>[^']*)'|\"(?P<double>[^\"\\$`]*)\"")
_COMMENTED = re.compile(r"""(?P<bare>[^=]+=\s*(?:"[^"]*"|'[^']*'|[^\s"'].*?)?)\s+#.*""")
_PUT_ABOVE = (
    "the comment behind the value is left out here, but systemd and Docker take it for a part of "
    "the value: give it a line of its own, or quote a value that contains #"
)
_OTHERS = stat.S_IRWXO


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentFile:
    """The variables of a file.

    `unread` says why it could not be read. `warnings` concern its permissions and ignored lines.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    unread: str = ""
    warnings: tuple[str, ...] = ()

    def beneath(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Return the variables, overridden by the environment.

        Empty environment variables are ignored.
        """
        return {**self.variables, **{name: value for name, value in environ.items() if value}}


def read_beside(folder: Path) -> EnvironmentFile:
    """Return the variables of the folder's file, which may be missing."""
    try:
        text, mode = _contents(folder / FILE)
    except FileNotFoundError:
        return EnvironmentFile()
    except UnicodeDecodeError:
        return EnvironmentFile(unread=f"{FILE}: is not UTF-8 text")
    except OSError as error:
        return EnvironmentFile(unread=f"{FILE}: cannot be read: {error.strerror}")
    variables: dict[str, str] = {}
    warnings = [*_exposed(mode)]
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(("#", ";")):
            continue
        commented = _COMMENTED.fullmatch(line.strip())
        if (read := _assigned(commented["bare"] if commented else line.strip())) is None:
            warnings.append(f"{FILE}:{number}: must be NAME=value; the line is ignored")
            continue
        variables[read[0]] = read[1]
        if commented:
            warnings.append(f"{FILE}:{number}: {_PUT_ABOVE}")
    return EnvironmentFile(variables=variables, warnings=tuple(warnings))


def _contents(file: Path) -> tuple[str, int]:
    """Return a file's text and mode.

    Raises `OSError` if it is not a regular file, such as a pipe.
    """
    with os.fdopen(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as opened:
        about = os.fstat(opened.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "it is not a file")
        if about.st_size > LARGEST:
            raise OSError(0, f"it is larger than {LARGEST} bytes")
        return opened.read(LARGEST).decode("utf-8-sig"), about.st_mode


def _exposed(mode: int) -> Iterator[str]:
    if os.name == "posix" and mode & _OTHERS:
        yield f"{FILE}: other accounts on this machine can access it: run chmod 600 {FILE}"


def _assigned(line: str) -> tuple[str, str] | None:
    """Return a line's name and value; None if other programs would read it differently."""
    if (found := _ASSIGNMENT.fullmatch(line)) is None:
        return None
    value = found["value"].strip()
    if not value.startswith(("'", '"')):
        return None if value.endswith("\\") else (found["name"], value)
    quoted = _QUOTED.fullmatch(value)
    return quoted and (found["name"], quoted["single"] or quoted["double"] or "")


FOLDER = Path("/run/secrets")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read(environ: Mapping[str, str]) -> EnvironmentFile:
    """Return the secrets of both folders, either of which may be missing."""
    variables: dict[str, str] = {}
    unread: list[str] = []
    credentials = environ.get("CREDENTIALS_DIRECTORY")
    for folder in (FOLDER, *([Path(credentials)] if credentials else [])):
        try:
            files = sorted(folder.iterdir())
        except FileNotFoundError:
            continue
        except OSError as error:  # for example a system folder for other accounts
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
    """Return a file's contents.

    Raises `OSError`, and `ValueError` if they cannot be a secret.
    """
    with file.open("rb") as opened:
        said = opened.read(LARGEST + 1)
    if len(said) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST} bytes")
    return said.decode("utf-8-sig").rstrip("\r\n")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
