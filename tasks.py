"""Development tasks, for a machine with only Python 3.11 or newer and git.

Creates the virtual environment `.venv` (or `$USHER_VENV`) from the lock files if it is missing, out
of date or of another Python, then runs one task in it. Uses only the standard library and never
touches the system's Python.
"""

from __future__ import annotations  # older Pythons would fail without a message

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / os.environ.get("USHER_VENV", ".venv")
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
LOCKS = {
    "run": ROOT / "locks/run.lock",
    "dev": ROOT / "locks/dev.lock",
    "media": ROOT / "locks/media.lock",  # in addition to either: videos, sound and PDFs
    "postgres": ROOT / "locks/postgres.lock",  # in addition to either: PostgreSQL's driver
}
EXTRAS = {"media": "videos, sound and PDFs (PyAV, pypdfium2)", "postgres": "PostgreSQL (psycopg)"}
OLDEST = (3, 11)


def cores() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux, where a container may have fewer than the machine
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


CHECKS: dict[str, list[str]] = {
    "format": ["-m", "ruff", "format", "--check", "."],
    "lint": ["-m", "ruff", "check", "."],
    "types": ["-m", "mypy"],
    "imports": ["-c", "import sys, importlinter.cli as c; sys.exit(c.lint_imports_command())"],
    "docs": ["-m", "mkdocs", "build", "--strict"],
    # Two more workers than cores: many tests wait for sockets and processes. The long files come
    # first, see tests/conftest.py.
    "tests": [
        *("-m", "pytest", "-n", str(cores() + 2)),
        *("--dist", "loadfile", "--no-loadscope-reorder"),
    ],
}
# `check` skips thorough tests; `check --thorough` runs them, see tests/conftest.py.
QUICK = ["-m", "not thorough"]
# Compiles the tests and what they import; otherwise all test workers would do so at once.
COMPILE = ["-m", "pytest", "--collect-only", "-qq"]
# Run one after another in parallel with the tests, whose processes often wait for each other.
BESIDE = ("types", "imports", "docs")

NO_PIP = """\
This Python cannot make virtual environments: its module ensurepip is missing.
Debian and Ubuntu ship it apart; install it once with

    sudo apt install python3-venv

or use a Python from python.org, then run this command again.
"""

UNWRITABLE = """\
{1} cannot be written ({0}): name a folder that you may write in the variable USHER_VENV, such as
USHER_VENV=~/usher-venv, or run this as the owner of the copy."""


class TaskFailed(Exception):
    """A task cannot continue. The text explains what to do."""


def demo(arguments: Sequence[str]) -> int:
    """Try Usher now; no account, GPU or server needed (see `demo --help`)."""
    return usher(["demo", *arguments])


def usher(arguments: Sequence[str]) -> int:
    """Run the command `usher`, such as `usher run -c config.yaml`."""
    from bot.cli.arguments import parser  # noqa: PLC0415  # needs a Python that `main` has accepted

    parser().parse_args(arguments)  # help and usage errors need no installation
    prepare("run")
    # -P and PYTHONPATH: the program is found here, and files in the caller's folder.
    return become(["-P", "-m", "bot", *arguments], PYTHONPATH=str(ROOT))


def check(arguments: Sequence[str]) -> int:
    """Check format, lint, types, imports, docs and quick tests; all tests with --thorough."""
    if [*arguments] not in ([], ["--thorough"]):
        raise TaskFailed("usage: python3 tasks.py check [--thorough]")
    checks = CHECKS if arguments else CHECKS | {"tests": [*CHECKS["tests"], *QUICK]}
    fresh = prepare("dev")
    aside = ThreadPoolExecutor(max_workers=1)
    try:
        beside = {name: aside.submit(run_and_tell, checks[name]) for name in BESIDE}
        if fresh:
            quietly(COMPILE)  # the test run reports errors in tests
        status = {name: run(checks[name]) for name in checks if name not in beside}
        outcomes = {name: running.result() for name, running in beside.items()}
    finally:  # Ctrl-C has ended the running checks; start no others
        aside.shutdown(cancel_futures=True)
    status |= {name: ended for name, (ended, _) in outcomes.items()}
    failed = [name for name in CHECKS if status[name] != 0]
    for name in (name for name in failed if name in outcomes):
        print(f"\n{name}:\n{outcomes[name][1]}", flush=True)
    if failed:
        print(f"check: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def test(arguments: Sequence[str]) -> int:
    """Run the tests; further arguments go to pytest."""
    prepare("dev")
    os.chdir(ROOT)
    return become(["-m", "pytest", *arguments])


def docs(_: Sequence[str]) -> int:
    """Build the documentation site into build/site."""
    prepare("dev")
    return run(CHECKS["docs"])


def build(_: Sequence[str]) -> int:
    """Build the wheel and the source archive into `dist`."""
    prepare("dev")
    return run(["-m", "hatchling", "build", "--clean", "--directory", "dist"])


def lock(_: Sequence[str]) -> int:
    """Rewrite the lock files from pyproject.toml (needs uv)."""
    import tomllib  # noqa: PLC0415  # needs a Python that `main` has accepted

    uv = shutil.which("uv", path=os.pathsep.join([str(BIN), os.environ.get("PATH", "")]))
    if uv is None:
        raise TaskFailed("This needs uv, see https://docs.astral.sh/uv/: pip install uv")
    # No addresses or paths of this machine may end up in the files.
    options = "--universal --generate-hashes --no-header --no-emit-index-url --no-emit-find-links"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {  # separate: they are installed in addition
        name: "\n".join(wanted) for name, wanted in project["optional-dependencies"].items()
    }
    same = ["-c", "locks/run.lock"]
    for name, what, wanted in (
        ("run", ["pyproject.toml"], ""),
        ("dev", ["pyproject.toml", "--group", "dev", *same], ""),
        *((extra, ["-", *same], wanted) for extra, wanted in extras.items()),
    ):
        compiled = [uv, "pip", "compile", *what, *options.split(), "--python-version", "3.11"]
        compiled += ["--quiet", "-o", f"locks/{name}.lock"]
        done = subprocess.run(compiled, cwd=ROOT, check=False, input=wanted, text=True)
        if done.returncode != 0:
            raise TaskFailed("uv could not resolve the dependencies, see above.")
    return 0


def show_help(_: Sequence[str] = ()) -> int:
    """Show this list."""
    print("python3 tasks.py TASK …\n")
    for name, task in TASKS.items():
        print(f"  {name:<7} {(task.__doc__ or '').splitlines()[0]}")
    return 0


TASKS: dict[str, Callable[[Sequence[str]], int]] = {
    "demo": demo,
    "usher": usher,
    "check": check,
    "test": test,
    "docs": docs,
    "build": build,
    "lock": lock,
    "help": show_help,
}


def prepare(level: str) -> bool:
    """Install a lock file into the environment if necessary. Returns whether it was."""
    mark = VENV / "installed"
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock in LOCKS.values())).hexdigest()
    enough = {f"{python} {digest} {name}" for name in (level, "dev")}
    text = mark.read_text(encoding="utf-8") if mark.exists() else ""
    found, _, built = text.partition("\n")
    wrong = why_unfit(found, built, python) if found else ""
    if found in enough and not wrong:
        if not built:  # the mark of an earlier version
            with suppress(OSError):  # the environment works even if it may not be written
                mark.write_text(f"{found}\n{built_for()}", encoding="utf-8")
        return False
    if wrong:
        print(f"{VENV.name} {wrong}: creating it again.", file=sys.stderr)
    print(f"preparing {VENV.name} (once; this takes a minute) …", file=sys.stderr, flush=True)
    try:
        make_venv(anew=bool(wrong) or not found)
        mark.unlink(missing_ok=True)
        install(level)
        mark.write_text(f"{python} {digest} {level}\n{built_for()}", encoding="utf-8")
    except OSError as error:
        raise TaskFailed(UNWRITABLE.format(error.strerror or error, VENV)) from None
    return True


def why_unfit(found: str, built: str, python: str) -> str:
    """Return why an environment no longer works, or "". Starts no process, to stay quick.

    `found` and `built` are the lines of its mark.
    """
    if not found.startswith(f"{python} "):
        return f"belongs to Python {found.partition(' ')[0]}, and this is Python {python}"
    if not PYTHON.exists() or not is_python_there():  # a link to nothing does not exist either
        return "belongs to a Python that is gone"
    return "belongs to another Python or machine" if built not in ("", built_for()) else ""


def is_python_there() -> bool:
    """Return whether the Python that an environment was made from is still installed."""
    try:
        lines = (VENV / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(name == "home" and Path(home).is_dir() for name, _, home in map(setting, lines))


def setting(line: str) -> tuple[str, str, str]:
    """Return a line of `pyvenv.cfg` as its name, the equals sign and its value."""
    name, sign, value = line.partition("=")
    return name.strip(), sign, value.strip()


def built_for() -> str:
    """Return what installed packages depend on: version, machine and C library, and the program."""
    return f"{sysconfig.get_config_var('EXT_SUFFIX')} {os.path.realpath(PYTHON)}"


def install(level: str) -> None:
    """Install a lock file and the extras: together, or one by one if a wheel is missing."""
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    pip += ["--no-deps"]  # a lock file lists all dependencies
    # Most modules of the checks' tools are never imported; the others are compiled on import.
    # What people run is compiled here, because the helper for files keeps nothing it compiles.
    lazily = ["--no-compile"] if level == "dev" else []
    if run([*pip, *lazily, "-r", str(LOCKS[level])]) != 0:
        raise TaskFailed("Installing failed, see above. Is the network there? Then try again.")
    # The extras need wheels, which do not exist for every machine. Everything else works without.
    pip += ["--only-binary", ":all:"]
    if quietly([*pip, *(option for name in EXTRAS for option in ("-r", str(LOCKS[name])))]) == 0:
        return
    for extra, what in EXTRAS.items():
        if run([*pip, "-r", str(LOCKS[extra])]) != 0:
            print(f"Left out: {what}. Nothing to install for this machine.", file=sys.stderr)


def make_venv(*, anew: bool) -> None:
    """Create the virtual environment. Recreates a broken one, or any if `anew`."""
    if not anew and PYTHON.exists() and run(["-c", "import pip"]) == 0:
        return
    if importlib.util.find_spec("ensurepip") is None:  # Debian's plain python3
        raise TaskFailed(NO_PIP)
    venv.create(VENV, clear=True, with_pip=True, symlinks=os.name != "nt")


def run(arguments: Sequence[str]) -> int:
    """Run the environment's Python in the repository; return its exit status."""
    command = [str(PYTHON), *arguments]
    return subprocess.run(command, cwd=ROOT, check=False, env=environment()).returncode


def quietly(arguments: Sequence[str]) -> int:
    """Run the environment's Python, discard its output and return its exit status."""
    command = [str(PYTHON), *arguments]
    silent = subprocess.DEVNULL
    return subprocess.run(
        command, cwd=ROOT, check=False, env=environment(), stdout=silent, stderr=silent
    ).returncode


def run_and_tell(arguments: Sequence[str]) -> tuple[int, str]:
    """Run the environment's Python in parallel with another; return its status and output.

    If it succeeds, the output is printed at once in one piece.
    """
    ended = subprocess.run(
        [str(PYTHON), *arguments],
        cwd=ROOT,
        check=False,
        env=environment() | {"PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    if ended.returncode == 0:
        print(f"\n{ended.stdout}", end="", flush=True)
    return ended.returncode, ended.stdout


def environment() -> dict[str, str]:
    """Return the environment variables for the tasks.

    Compiled modules are kept regardless of the caller's settings: the tests start about a hundred
    processes, and each would otherwise compile the program again.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def become(arguments: Sequence[str], **more: str) -> int:
    """Replace this process with the environment's Python, so that signals reach it."""
    command = [str(PYTHON), *arguments]
    if os.name != "nt":
        sys.stdout.flush()
        os.execve(PYTHON, command, environment() | more)
    with subprocess.Popen(command, env=environment() | more) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:  # the console also sent it to the child: let the child stop
                continue


def main(argv: Sequence[str]) -> int:
    """Run one task and return its exit status."""
    if sys.version_info < OLDEST:
        print(
            f"This needs Python {OLDEST[0]}.{OLDEST[1]} or newer; this is {sys.version.split()[0]}."
        )
        return 1
    if not argv or argv[0] not in TASKS:
        show_help()
        return 1 if argv else 0
    try:
        return TASKS[argv[0]](argv[1:])
    except TaskFailed as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
