"""What is installed is what the lock files name, byte for byte."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
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


@pytest.mark.parametrize(
    ("name", "least"), [*((lock, 21) for lock in LOCKS), *((lock, 1) for lock in EXTRAS.values())]
)
def test_every_line_of_a_lock_is_a_pin_or_a_hash(name: str, least: int) -> None:
    """A library could be fetched from another place, or as other bytes than were tried."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pins = 0
    for number, line in enumerate(lines):
        if line.startswith("    #"):
            continue
        if PINNED.match(line):
            pins += 1
            assert HASH.match(lines[number + 1]), line
            continue
        assert HASH.match(line), line
    assert pins >= least


def test_what_runs_is_tested_in_the_same_versions() -> None:
    """The tests would pass with other libraries than people get."""
    runs, tested = (locked(name) for name in LOCKS)
    assert runs.items() <= tested.items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = map(Requirement, project["dependencies"])
    here = {plain(each.name) for each in needed if each.marker is None or each.marker.evaluate()}
    assert here <= runs.keys()


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_locked_and_fits_what_runs(extra: str) -> None:
    """The same library would be wanted in two versions."""
    runs, pinned = locked("locks/run.lock"), locked(EXTRAS[extra])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["optional-dependencies"][extra]
    assert {plain(re.split(r"[<>=~! \[]", each)[0]) for each in wanted} <= pinned.keys()
    shared = pinned.keys() & runs.keys()
    assert {name: pinned[name] for name in shared} == {name: runs[name] for name in shared}


def test_the_libraries_here_are_those_of_the_lock() -> None:
    """What these tests found would be true of other libraries."""
    pinned = locked("locks/dev.lock")
    here = {plain(each.metadata["Name"]): each.version for each in metadata.distributions()}
    both = pinned.keys() & here.keys()
    assert len(both) > 20
    assert {name: here[name] for name in both} == {name: pinned[name] for name in both}


def test_installing_demands_the_hashes() -> None:
    """The hashes would stand in the files and no one would look at them."""
    assert "--require-hashes" in (ROOT / "tasks.py").read_text(encoding="utf-8")
    assert "--require-hashes" in (ROOT / "Dockerfile").read_text(encoding="utf-8")
