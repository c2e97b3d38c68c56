"""The installed libraries are those that the lock files name, byte for byte."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)( ; [^\\]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
LOCKS = ["locks/run.lock", "locks/dev.lock"]
EXTRAS = {"media": "locks/media.lock", "postgres": "locks/postgres.lock"}


def locked(name: str) -> dict[str, str]:
    """Return the version of each library that a lock file names for this Python and system."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [match for line in lines if (match := PINNED.match(line))]
    return {
        plain(match[1]): match[2]
        for match in found
        if match[3] is None or Marker(match[3].removeprefix(" ; ")).evaluate()
    }


def plain(name: str) -> str:
    """Return a library's name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_line_of_a_lock_is_a_pin_or_a_hash() -> None:
    """A library could be downloaded from another place, or be other bytes than those tested."""
    for name, least in {**dict.fromkeys(LOCKS, 21), **dict.fromkeys(EXTRAS.values(), 1)}.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if not line.startswith("    #")]
        pins = [number for number, line in enumerate(lines) if PINNED.match(line)]
        assert len(pins) >= least, name
        others = [line for line in lines if not PINNED.match(line) and not HASH.match(line)]
        assert others == [], name
        assert [lines[at] for at in pins if not HASH.match(lines[at + 1])] == [], name


def test_what_runs_is_tested_in_the_same_versions() -> None:
    """The tests would pass with other libraries than people get."""
    runs, tested = (locked(name) for name in LOCKS)
    assert runs.items() <= tested.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = map(Requirement, project["dependencies"])
    here = {plain(each.name) for each in needed if each.marker is None or each.marker.evaluate()}
    assert here <= runs.keys()


def test_an_extra_is_locked_and_fits_what_runs() -> None:
    """The same library would be required in two versions."""
    runs = locked("locks/run.lock")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra, lock in EXTRAS.items():
        pinned = locked(lock)
        wanted = map(Requirement, project["optional-dependencies"][extra])
        assert {plain(each.name) for each in wanted} <= pinned.keys(), extra
        shared = pinned.keys() & runs.keys()
        assert {name: pinned[name] for name in shared} == {name: runs[name] for name in shared}


def test_the_libraries_here_are_those_of_the_lock() -> None:
    """The results of these tests would only apply to other libraries."""
    pinned = locked("locks/dev.lock")
    here = {plain(each.metadata["Name"]): each.version for each in metadata.distributions()}
    both = pinned.keys() & here.keys()
    assert len(both) > 20
    assert {name: here[name] for name in both} == {name: pinned[name] for name in both}


def test_installing_demands_the_hashes() -> None:
    """The hashes would be in the files but not be checked."""
    assert "--require-hashes" in (ROOT / "tasks.py").read_text(encoding="utf-8")
    assert "--require-hashes" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
