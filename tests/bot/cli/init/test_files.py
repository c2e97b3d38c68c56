"""`usher init` writes only files that do not exist, whole or not at all."""

import os
import stat
from pathlib import Path

import pytest

from bot.cli.init.files import PRIVATE, NewFile, is_there, write_all
from bot.cli.init.terminal import InitFailed


def new(path: Path, text: str = "mine\n") -> NewFile:
    return NewFile(path=path, text=text, mode=PRIVATE)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="other systems have other rights")
@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_a_private_file_is_private_from_its_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int, linked: bool
) -> None:
    """Another account could read a token while the file is being written."""
    modes: list[int] = []
    opened = os.fdopen

    def watch(fd: int, *given: object, **named: object) -> object:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))
        return opened(fd, *given, **named)  # type: ignore[call-overload]  # as it was called

    monkeypatch.setattr(os, "fdopen", watch)
    if not linked:
        monkeypatch.setattr(os, "link", _without_links)
    before = os.umask(umask)
    try:
        write_all([new(tmp_path / "usher.env")])
    finally:
        os.umask(before)
    assert set(modes) == {0o600}
    assert (tmp_path / "usher.env").read_text() == "mine\n"
    assert stat.S_IMODE((tmp_path / "usher.env").stat().st_mode) == 0o600
    assert names(tmp_path) == ["usher.env"]


def _without_links(*_: object, **__: object) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("there", ["file", "folder", "link to nothing", "link to a file"])
def test_what_has_the_name_already_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, linked: bool
) -> None:
    """Another program's file would be lost, or the token written to the target of a link."""
    if not linked:
        monkeypatch.setattr(os, "link", _without_links)
    target, victim = tmp_path / "config.yaml", tmp_path / "victim"
    if there == "folder":
        target.mkdir()
    elif there == "file":
        target.write_text("theirs")
    else:
        target.symlink_to(victim)
    if there == "link to a file":
        victim.write_text("theirs")
    assert is_there(target)
    before = names(tmp_path)
    with pytest.raises(InitFailed, match="was not changed"):
        write_all([new(tmp_path / "usher.env"), new(target)])
    assert names(tmp_path) == before
    if there not in {"folder", "link to nothing"}:
        assert target.read_text() == "theirs"


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_is_stopped_in_the_middle_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, linked: bool
) -> None:
    """After Ctrl-C or on a full disk the next start would read half a configuration."""
    if not linked:
        monkeypatch.setattr(os, "link", _without_links)
    calls = iter([None, error] if linked else [None, None, None, error])

    def fails(_: int) -> None:
        if (raised := next(calls)) is not None:
            raise raised

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises((KeyboardInterrupt, InitFailed)):
        write_all([new(tmp_path / "usher.env"), new(tmp_path / "config.yaml")])
    assert names(tmp_path) == []


def test_a_folder_that_takes_no_files_is_told(tmp_path: Path) -> None:
    """The reason would be a traceback."""
    with pytest.raises(InitFailed, match="cannot be written"):
        write_all([new(tmp_path / "none" / "config.yaml")])
