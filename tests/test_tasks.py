"""tasks.py: one command on a fresh machine, quick when repeated, clear when it cannot work."""

import ast
import errno
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import tasks
from tests.conftest import LONG, TESTS

ROOT = Path(__file__).parents[1]
INSTALL = tasks.install


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a complete environment, into which nothing is installed."""
    monkeypatch.setattr(tasks, "VENV", tmp_path)
    monkeypatch.setattr(tasks, "PYTHON", tmp_path / "python")
    monkeypatch.setattr(tasks, "make_venv", lambda *, anew: None)
    monkeypatch.setattr(tasks, "install", lambda _: None)
    (tmp_path / "python").touch()
    (tmp_path / "pyvenv.cfg").write_text(f"home = {tmp_path}\n", encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the repository whose lock files are empty, so that nothing is downloaded.

    All tests share it, because making an environment takes seconds.
    """
    tmp_path = tmp_path_factory.mktemp("copy")
    for name in ("tasks.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "locks").mkdir()
    for lock in tasks.LOCKS.values():
        (tmp_path / "locks" / lock.name).write_text("# nothing\n", encoding="utf-8")
    package = tmp_path / "bot"
    package.mkdir()
    for name in (
        "cli/__init__.py",
        "cli/arguments.py",
        "cli/demo/__init__.py",
        "cli/demo/options.py",
        "version.py",
    ):
        (package / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / "bot" / name, package / name)
    (package / "__init__.py").write_text('"""A stand-in."""\n', encoding="utf-8")
    (package / "__main__.py").write_text(
        "import os, sys\nprint(sys.prefix, os.getcwd(), sys.argv[1:])\nsys.exit(7)\n",
        encoding="utf-8",
    )
    return tmp_path


def do(copy: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    own = {"PYTHONPATH", "USHER_VENV"}
    environment = {key: value for key, value in os.environ.items() if key not in own}
    return subprocess.run(
        [sys.executable, str(copy / "tasks.py"), *arguments],
        cwd=cwd or copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.thorough
def test_a_task_makes_the_environment_once_and_hands_everything_on(copy: Path) -> None:
    """A newcomer would have to create it by hand, or wait for it at every start."""
    elsewhere = copy / "elsewhere"
    elsewhere.mkdir()
    first = do(copy, "demo", "--say", "/image flux a cat", cwd=elsewhere)
    assert first.returncode == 7, first.stderr  # the program's own
    assert first.stderr.startswith("preparing .venv")
    venv, cwd, arguments = first.stdout.strip().split(" ", 2)
    assert Path(venv).resolve() == (copy / ".venv").resolve()
    assert Path(cwd).resolve() == elsewhere.resolve()  # files are in the caller's folder
    assert arguments == "['demo', '--say', '/image flux a cat']"
    again = do(copy, "usher", "version")
    assert (again.returncode, again.stderr) == (7, "")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("line", "status"), [(["demo", "--help"], 0), (["usher", "run", "-h"], 0), (["demo", "-x"], 2)]
)
def test_help_and_mistakes_of_the_command_line_install_nothing(
    copy: Path, line: list[str], status: int
) -> None:
    """A newcomer would wait a minute for a help text."""
    lock = copy / "locks/run.lock"
    before = lock.read_text(encoding="utf-8")
    lock.write_text("./nowhere-to-be-found.whl --hash=sha256:00\n", encoding="utf-8")
    done = do(copy, *line)
    lock.write_text(before, encoding="utf-8")
    assert done.returncode == status, done.stderr
    assert "usage: usher" in done.stdout + done.stderr
    assert "preparing" not in done.stderr


@pytest.mark.thorough
def test_a_changed_lock_file_is_installed_and_a_failure_is_told(copy: Path) -> None:
    """After an upgrade the old libraries would stay, or half of the new ones count as all."""
    lock = copy / "locks/run.lock"
    lock.write_text("./nowhere-to-be-found.whl --hash=sha256:00\n", encoding="utf-8")
    failed = do(copy, "usher", "version")
    assert failed.returncode == 1
    assert "Installing failed" in failed.stderr
    assert "Traceback" not in failed.stderr
    lock.write_text("# another nothing\n", encoding="utf-8")
    assert do(copy, "usher", "version").stderr.startswith("preparing .venv")
    assert do(copy, "usher", "version").stderr == ""


def test_a_broken_environment_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system's Python is gone, the environment would never work again."""
    made: list[bool] = []
    python = tmp_path / "python"
    python.touch()
    monkeypatch.setattr(tasks, "PYTHON", python)
    monkeypatch.setattr(tasks, "run", lambda _: 1)  # whatever it is asked to do
    monkeypatch.setattr("venv.create", lambda _, *, clear, **__: made.append(clear))
    tasks.make_venv(anew=False)
    assert made == [True]


def test_a_python_without_ensurepip_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Debian's plain python3 would end in a traceback."""
    monkeypatch.setattr(tasks, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(tasks, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert tasks.main(["demo"]) == 1
    assert "apt install python3-venv" in capsys.readouterr().err


def _read_only(*_: object, **__: object) -> None:
    raise OSError(errno.EROFS, "Read-only file system")


def test_a_copy_that_may_not_be_written_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shared or mounted copy would end in a traceback."""
    monkeypatch.setattr(tasks, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(tasks, "PYTHON", tmp_path / ".venv" / "bin" / "python")
    monkeypatch.setattr("venv.create", _read_only)
    assert tasks.main(["demo"]) == 1
    told = capsys.readouterr().err
    assert f"{tmp_path / '.venv'} cannot be written (Read-only file system): " in told
    assert "USHER_VENV" in told


def test_an_environment_that_may_not_be_written_works_as_it_is(
    environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An administrator's installation would work for nobody else after an upgrade."""
    assert tasks.prepare("dev")
    mark = environment / "installed"
    mark.write_text(mark.read_text(encoding="utf-8").splitlines()[0], encoding="utf-8")
    monkeypatch.setattr(Path, "write_text", _read_only)
    assert not tasks.prepare("dev")


def test_an_old_python_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A newcomer would see a syntax error deep in a library."""
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    assert tasks.main(["demo"]) == 1
    assert "needs Python 3.11 or newer" in capsys.readouterr().out
    source = Path(tasks.__file__).read_text(encoding="utf-8")
    assert ast.parse(source, feature_version=(3, 7)).body[1:2]  # it can be read so far
    assert "\nfrom __future__ import annotations" in source  # and does not evaluate list[str]


# A check that says its name and ends with its status.
NOTES = "import sys; print('says', *sys.argv[1:]); sys.exit(int(sys.argv[2]))"


@pytest.mark.parametrize("wrong", ["", "lint", "types", "docs", "tests"])
def test_checks_run_beside_the_tests_and_each_failure_is_told(
    wrong: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A mistake in types would be lost among the dots of eleven thousand tests."""
    made = {name: ["-c", NOTES, name, str(int(name == wrong))] for name in tasks.CHECKS}
    monkeypatch.setattr(tasks, "CHECKS", made)
    monkeypatch.setattr(tasks, "PYTHON", sys.executable)
    monkeypatch.setattr(tasks, "prepare", lambda _: None)
    assert tasks.main(["check", "--thorough"]) == int(bool(wrong))
    shown = capfd.readouterr()
    assert [shown.out.count(f"says {name} ") for name in tasks.CHECKS] == [1] * len(tasks.CHECKS)
    assert shown.err == (f"check: failed: {wrong}\n" if wrong else "")
    if wrong in tasks.BESIDE:
        assert shown.out.endswith(f"{wrong}:\nsays {wrong} 1\n\n")


@pytest.mark.parametrize("fresh", [True, False])
def test_what_the_tests_import_is_compiled_once_after_an_installation(
    fresh: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Each worker would compile all of it; later, everything is compiled already."""
    said = tmp_path / "said"
    note = ["-c", "import sys; open(sys.argv[1], 'a').write(sys.argv[2] + ' ')", str(said)]
    monkeypatch.setattr(tasks, "QUICK", [])
    monkeypatch.setattr(tasks, "CHECKS", {name: ["-c", ""] for name in tasks.BESIDE})
    monkeypatch.setitem(tasks.CHECKS, "tests", [*note, "tests"])
    monkeypatch.setattr(tasks, "COMPILE", [*note, "compile"])
    monkeypatch.setattr(tasks, "PYTHON", sys.executable)
    monkeypatch.setattr(tasks, "prepare", lambda _: fresh)
    assert tasks.main(["check"]) == 0
    assert said.read_text() == ("compile tests " if fresh else "tests ")


@pytest.mark.usefixtures("environment")
def test_extras_without_a_wheel_are_left_out_and_all_else_is_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A machine with no build of PyAV would have no Usher at all."""
    installed: list[str] = []

    def pip(arguments: list[str]) -> int:
        wanted = [Path(arguments[place + 1]) for place, a in enumerate(arguments) if a == "-r"]
        if tasks.LOCKS["media"] in wanted:
            return 1
        installed.extend(lock.name for lock in wanted)
        return 0

    monkeypatch.setattr(tasks, "install", INSTALL)
    monkeypatch.setattr(tasks, "run", pip)
    monkeypatch.setattr(tasks, "quietly", pip)
    assert tasks.prepare("run")
    assert installed == ["run.lock", "postgres.lock"]
    told = capsys.readouterr().err
    assert "Left out: videos" in told
    assert "Left out: PostgreSQL" not in told
    assert not tasks.prepare("run")


def test_help_lists_every_task_and_an_unknown_one_shows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only people who read the source would know of a task."""
    assert tasks.main([]) == 0
    assert tasks.main(["help"]) == 0
    assert tasks.main(["dance"]) == 1
    shown = capsys.readouterr().out
    assert all(len(re.findall(rf"^  {task} ", shown, re.MULTILINE)) == 3 for task in tasks.TASKS)


@pytest.mark.parametrize(
    ("asked", "extra"), [([], ["-m", "not thorough"]), (["--thorough"], [])], ids=["quick", "all"]
)
def test_the_quick_check_leaves_the_thorough_tests_out(
    asked: list[str],
    extra: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """People would wait for tests that take hours, or those would never run."""
    ran: list[list[str]] = []

    def run(arguments: list[str]) -> int:
        ran.append(arguments)
        return 0

    monkeypatch.setattr(tasks, "run", run)
    monkeypatch.setattr(tasks, "run_and_tell", lambda _: (0, ""))
    monkeypatch.setattr(tasks, "prepare", lambda _: False)
    assert tasks.main(["check", *asked]) == 0
    assert ran[-1] == [*tasks.CHECKS["tests"], *extra]


def test_a_wrong_option_of_check_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped option such as `--through` would run the quick check, not the thorough one."""
    assert tasks.main(["check", "--through"]) == 1
    assert "usage" in capsys.readouterr().err


@pytest.mark.usefixtures("environment")
def test_an_environment_of_another_python_is_recreated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check on one Python would run on the one that made the environment."""
    made: list[bool] = []
    monkeypatch.setattr(tasks, "make_venv", lambda *, anew: made.append(anew))
    assert tasks.prepare("dev")
    assert not tasks.prepare("run")
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    assert tasks.prepare("dev")
    assert made == [True, True]


def _marked(environment: Path, python: str, suffix: str = "") -> None:
    """Write a mark as if the environment were of another Python or machine."""
    mark = environment / "installed"
    line, _, built = mark.read_text(encoding="utf-8").partition("\n")
    rest, program = line.split(" ", 1)[1], built.split(" ", 1)[1]
    mark.write_text(f"{python} {rest}\n{suffix} {program}", encoding="utf-8")


def _linked(environment: Path, target: str) -> None:
    python = environment / "python"
    python.unlink()
    python.symlink_to(environment / target)


OURS = f"{sys.version_info[0]}.{sys.version_info[1]}"


@pytest.mark.parametrize(
    ("says", "happens"),
    [
        ("", lambda _: None),
        (f"belongs to Python 3.8, and this is Python {OURS}", lambda made: _marked(made, "3.8")),
        (
            "belongs to another Python or machine",
            lambda made: _marked(made, OURS, ".cpython-311-arm-linux-musl.so"),
        ),
        ("belongs to another Python or machine", lambda made: _linked(made, "another")),
        ("belongs to a Python that is gone", lambda made: _linked(made, "gone")),
        ("belongs to a Python that is gone", lambda made: (made / "pyvenv.cfg").unlink()),
        (
            "belongs to a Python that is gone",
            lambda made: (made / "pyvenv.cfg").write_text(f"home = {made / 'gone'}\n"),
        ),
        (
            "belongs to Python garbage, and this is",
            lambda made: (made / "installed").write_text("garbage"),
        ),
    ],
)
def test_an_environment_that_no_longer_fits_is_made_again_with_one_sentence(
    says: str,
    happens: Callable[[Path], object],
    environment: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After a system upgrade, each start would end in a traceback that does not mention .venv."""
    assert tasks.prepare("dev")
    (environment / "another").touch()
    happens(environment)
    capsys.readouterr()
    assert tasks.prepare("run") is bool(says)
    told = capsys.readouterr().err.splitlines()
    assert [line.startswith(f"{environment.name} {says}") for line in told[:1]] == [True] * bool(
        says
    )


def test_the_mark_of_an_earlier_version_still_counts(environment: Path) -> None:
    """Each upgrade of Usher would install everything again."""
    assert tasks.prepare("dev")
    mark = environment / "installed"
    mark.write_text(mark.read_text(encoding="utf-8").splitlines()[0], encoding="utf-8")
    assert not tasks.prepare("dev")
    assert len(mark.read_text(encoding="utf-8").splitlines()) == 2


def test_a_service_whose_python_was_replaced_is_told_what_to_run(tmp_path: Path) -> None:
    """The service would restart it every five seconds, with a traceback about a library."""
    for name in ("bot", "backends", "queueing"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "bot").unlink()
    shutil.copytree(ROOT / "bot", tmp_path / "bot", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "tasks.py").touch()
    ended = subprocess.run(
        [sys.executable, "-S", "-E", "-m", "bot", "version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("usher: ")
    assert f"run `python3 tasks.py usher version` in {tmp_path.resolve()}" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


# ---------------------------------------------------------------- the lock files


@pytest.mark.parametrize("lock", tasks.LOCKS.values(), ids=lambda path: path.name)
def test_lock_files_hold_hashes_and_nothing_of_a_machine(lock: Path) -> None:
    """An installation could download something else, or only work where the file was made."""
    entries = lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    for entry in entries:
        if entry.strip() and not entry.strip().startswith("#"):
            assert re.match(r"[\w.\-]+(\[[\w,]+\])?==\S+ (; .*?)?\s*--hash=sha256:", entry), entry
        assert not re.search(r"https?:|file:|--index|--find-links|(^|\s)/", entry), entry


def test_lock_files_hold_what_the_project_needs() -> None:
    """A library in pyproject.toml would be missing on a fresh machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = {
        "run": project["project"]["dependencies"],
        "dev": project["project"]["dependencies"] + project["dependency-groups"]["dev"],
        "media": project["project"]["optional-dependencies"]["media"],
    }
    for name, wanted in needed.items():
        locked = set(
            re.findall(
                r"^([\w.\-]+)==", tasks.LOCKS[name].read_text(encoding="utf-8"), re.MULTILINE
            )
        )
        for requirement in wanted:
            name_of = re.split(r"[<>=!~ \[;]", requirement)[0]
            assert re.sub(r"[-_.]+", "-", name_of).lower() in locked
    run, dev = (
        set(re.findall(r"^\S+==\S+", lock.read_text(), re.MULTILINE))
        for lock in (tasks.LOCKS["run"], tasks.LOCKS["dev"])
    )
    assert run <= dev  # the checks run on what is released


def test_the_lock_task_without_uv_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person who changes a dependency would get a traceback."""
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert tasks.main(["lock"]) == 1
    assert "needs uv" in capsys.readouterr().err


def test_the_files_begun_first_are_there() -> None:
    """A renamed file would silently come last again, and its worker finish alone."""
    assert [name for name in LONG if not (TESTS / name).exists()] == []
