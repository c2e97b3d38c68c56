"""The process that reads untrusted files can reach nothing but its pipes."""

import asyncio
import errno
import json
import os
import platform
import re
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from backends.media.helper import process as helper
from backends.media.helper import sandbox
from backends.media.helper.process import _environment
from backends.media.helper.sandbox import Barrier

ROOT = Path(__file__).parents[3]

# What a library that was taken over would try, each with what it needs to succeed.
TRIED = {
    "open a socket": "import socket; socket.socket()",
    "open a local socket": "import socket; socket.socketpair()",
    "write a file": "open(path + '/written', 'w')",
    "append to a file": "open(path + '/there', 'a')",
    "empty a file": "os.truncate(path + '/there', 0)",
    "remove a file": "os.unlink(path + '/there')",
    "rename a file": "os.rename(path + '/there', path + '/elsewhere')",
    "make a folder": "os.mkdir(path + '/made')",
    "link a file": "os.symlink(path + '/there', path + '/linked')",
    "change who may read a file": "os.chmod(path + '/there', 0o777)",
    "start a program": "import subprocess; subprocess.run([sys.executable, '-c', ''], check=True)",
    "become a program": "os.execv(sys.executable, [sys.executable, '-c', ''])",
    "split": "os.fork() or os._exit(0)",
    "end the bot": "import signal; os.kill(os.getppid(), 0)",
    "have a signal sent to the bot": "import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())",
    "choose that signal": "import fcntl; fcntl.fcntl(0, 10, 9)",
    "have it sent by the next byte": "import fcntl; fcntl.fcntl(1, fcntl.F_SETFL, os.O_ASYNC)",
    "outlive the bot": "import ctypes; ctypes.CDLL(None, use_errno=True).prctl(1, 0, 0, 0, 0) == 0"
    " or os.open(path + '/' + os.strerror(ctypes.get_errno()), os.O_CREAT | os.O_RDWR)",
    "slow the bot down": "os.setpriority(os.PRIO_PROCESS, os.getppid(), {nice})",
    "bound the bot": "import resource as r; r.prlimit(os.getppid(), r.RLIMIT_CORE, {core})",
}
READ = {
    "read a file": "open(path + '/there').read()",
    "read the bot's environment": "open(f'/proc/{os.getppid()}/environ').read()",
}
STILL = {
    "start a thread": "import threading; threading.Thread(target=int).start()",
    "read a library": "open(os.__file__).read()",
    "allocate memory": "bytearray(50_000_000)",
}
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux offers it")


def harmless(act: str) -> str:
    """Return an action that leaves the tests' process, the "bot" of the sandbox, as it is."""
    import resource  # noqa: PLC0415  only where Linux is

    core = resource.getrlimit(resource.RLIMIT_CORE)
    return act.format(nice=os.getpriority(os.PRIO_PROCESS, 0), core=core)


def outcome(doing: str, folder: Path, *, held: str) -> str:
    """Return how an action ended in a separate process, behind those barriers."""
    code = (
        f"import os, sys; path = {str(folder)!r}\n"
        f"from backends.media.helper.sandbox import *; {held}\n"
        f"try:\n    {doing}\n"
        "except PermissionError: print('refused')\n"
        "else: print('done')"
    )
    return _said(code)


def _said(code: str, *given: str) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *given],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=dict(_environment()),
    )
    if done.returncode == -getattr(signal, "SIGSYS", 0):
        return "refused"
    return done.stdout.strip() or done.stderr


def offered() -> set[str]:
    """Return what this kernel offers: in a container it may be less."""
    return set(_said("from backends.media.helper.sandbox import *; print(*confine())").split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "there").write_text("secret")
    return tmp_path


@linux
def test_a_video_that_takes_the_process_over_reaches_nothing(
    folder: Path, subtests: pytest.Subtests
) -> None:
    """A stranger's file could send the bot's tokens away, or change its database."""
    if Barrier.CALLS not in offered():
        pytest.skip("this kernel has no seccomp, or lets no process use it")
    for act, harmful in TRIED.items():
        with subtests.test(act):
            # Without a sandbox the same act succeeds, or the test would prove nothing.
            doing = harmless(harmful)
            assert outcome(doing, folder, held="") in {"done", ""}
            (folder / "there").write_text("secret")
            before = sorted(each.name for each in folder.iterdir())
            assert outcome(doing, folder, held="confine()") == "refused"
            if "become" not in act:
                assert sorted(each.name for each in folder.iterdir()) == before
            assert (folder / "there").read_text() == "secret"


@linux
def test_it_reads_no_files_but_its_libraries(folder: Path, subtests: pytest.Subtests) -> None:
    """A stranger's file could have the bot's tokens drawn into an image."""
    if Barrier.FILES not in offered():
        pytest.skip("this kernel has no Landlock")
    for act, doing in READ.items():
        with subtests.test(act):
            assert outcome(doing, folder, held="") == "done"
            assert outcome(doing, folder, held="confine()") == "refused"


@linux
def test_it_can_still_work(folder: Path, subtests: pytest.Subtests) -> None:
    """A sandbox that is too tight would refuse every video."""
    for act, doing in STILL.items():
        with subtests.test(act):
            assert outcome(doing, folder, held="confine()") == "done"


@linux
def test_its_privileges_are_given_up() -> None:
    """A program with more rights could be started."""
    assert Barrier.PRIVILEGES in offered()


def test_elsewhere_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without these features could deliver no videos at all."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert sandbox.confine() == frozenset()
    assert sandbox.filter_for("riscv64", 1) is None
    assert sandbox.offered() == frozenset()


@linux
def test_a_kernel_that_offers_nothing_is_lived_with(folder: Path) -> None:
    """An old kernel could deliver no videos at all."""
    instead = (
        "import ctypes; ctypes.CDLL = lambda *a, **b: type('Old', (), {'prctl': lambda *a: -1,"
        " 'syscall': lambda *a: -1})(); print(len(confine()))"
    )
    assert outcome("pass", folder, held=instead) == "0\ndone"


def test_the_filter_is_whole(subtests: pytest.Subtests) -> None:
    """A jump beyond its end would make the kernel refuse the whole filter."""
    for machine in ["x86_64", "aarch64"]:
        with subtests.test(machine=machine):
            if struct.calcsize("P") != 8:
                pytest.skip("no filter for 32 bits")
            program = sandbox.filter_for(machine, 4711)
            assert program is not None
            steps = list(struct.iter_unpack("=HBBI", program))
            assert steps[-1] == (sandbox._RETURN, 0, 0, sandbox._ERROR | errno.EPERM)
            for at, (code, met, otherwise, _) in enumerate(steps):
                if code in {sandbox._EQUALS, sandbox._AT_LEAST, sandbox._ANY_BIT}:
                    assert at + 1 + max(met, otherwise) < len(steps)


# Of calls whose arguments decide: one that the filter lets through would fail for another reason.
BY_ARGUMENT: Mapping[str, tuple[int, int, tuple[int, ...]]] = {
    **{f"fcntl {what}": (72, 25, (0, what)) for what in (4, 6, 8, 10, 15, 1024, 1026, 1031)},
    **{
        f"ioctl {what:#x}": (16, 29, (0, what)) for what in (0x540E, 0x5410, 0x5412, 0x5452, 0x8901)
    },
    "ioctl TIOCSTI with high bits": (16, 29, (0, 0x1_0000_5412)),
    **{f"prctl {what}": (157, 167, (what, 0)) for what in (1, 4, 22, 35, 0x59616D61)},
    "clone a process": (56, 220, (17,)),
    "clone a thread in a new network": (56, 220, (0x40010000,)),
    "limits of the bot": (302, 261, (1, 4)),
    "a signal to a thread of the bot": (234, 131, (1, 1)),
}
PROBES = {335, 336}  # of x86-64: the kernel's own, which it shows to no filter
OUTCOMES = """
import ctypes, errno, json, os, platform, sys
from backends.media.helper import sandbox as calls, sandbox
from backends.media.helper import process as helper
numbers, fatal = json.loads(sys.argv[1]), json.loads(sys.argv[2])
kernel = ctypes.CDLL(None, use_errno=True)
def called(number, *given):
    given = [ctypes.c_long(each) for each in (*given, *(-1,) * 6)[:6]]  # harmless: an error at once
    return "done" if kernel.syscall(number, *given) != -1 else errno.errorcode[ctypes.get_errno()]
ended = {}
for number in fatal:
    if (child := os.fork()) == 0:
        sandbox.confine()
        os._exit(called(number) == "done")
    ended[number] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sandbox.confine()
refused = {name: called(*each) for name, each in numbers.items()}
sys.stdout.write(json.dumps([refused, ended]))
"""


def _outcomes(refused: Mapping[str, Sequence[int]], fatal: Sequence[int]) -> Any:
    given = (json.dumps(refused), json.dumps(fatal))
    return json.loads(_said(OUTCOMES, *given))


@linux
def test_no_other_call_reaches_the_kernel() -> None:
    """A call that nobody thought of could change the system, or reach another process."""
    if Barrier.CALLS not in sandbox.offered():
        pytest.skip("no filter here")
    column = ("x86_64", "aarch64").index(platform.machine())
    some = {pair[column] for pair, _ in sandbox._by_argument(1)}
    listed = {pair[column] for pair in (*sandbox.ALLOWED.values(), *sandbox.FATAL.values())}
    others = {str(number): (number,) for number in set(range(480)) - listed - some - PROBES}
    decided = {
        name: ((x86, arm)[column], *given) for name, (x86, arm, given) in BY_ARGUMENT.items()
    }
    fatal = [number for pair in sandbox.FATAL.values() if (number := pair[column]) is not None]
    other_abi = 0x40000000
    refused, ended = _outcomes({**others, **decided}, [*fatal, other_abi])
    assert {name: said for name, said in refused.items() if said != _expected(name)} == {}
    assert set(ended.values()) == {-signal.SIGSYS}


def _expected(name: str) -> str:
    return "ENOSYS" if name.isdecimal() and int(name) >= 424 else "EPERM"


@linux
def test_what_is_not_guaranteed_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An operator would rely on protection that their kernel does not offer."""
    assert {str(barrier) for barrier in sandbox.offered()} == offered()
    monkeypatch.setattr(sandbox, "offered", lambda: frozenset(Barrier) - {Barrier.FILES})
    helper._warn.cache_clear()
    helper._warn()
    helper._warn()
    (told,) = caplog.messages
    assert "could read every file of this account: Landlock is missing" in told
    monkeypatch.setattr(sandbox, "offered", frozenset)
    assert len(sandbox.unheld()) == 2
    helper._warn.cache_clear()


def test_a_machine_without_a_filter_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine for which there is no filter would be regarded as confined."""
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert Barrier.CALLS not in sandbox.offered()
    assert "seccomp is missing" in sandbox.unheld()[Barrier.CALLS]


@linux
def test_it_ends_with_the_bot_even_while_it_is_stopped() -> None:
    """A stopped process would stay with a stranger's file after the bot was killed."""
    inner = "from backends.media.helper.sandbox import *; confine(); print(flush=True); input()"
    code = (
        "import os, signal, subprocess, sys\n"
        f"inner = [sys.executable, '-P', '-c', {inner!r}]\n"
        "how = dict(stdin=-1, stdout=-1, stderr=subprocess.DEVNULL, start_new_session=True)\n"
        "child = subprocess.Popen(inner, **how)\n"
        "child.stdout.readline(); os.kill(child.pid, signal.SIGSTOP)\n"
        "print(child.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    stat = Path("/proc", _said(code), "stat")
    until = time.monotonic() + 60
    with suppress(FileNotFoundError):
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < until
            time.sleep(0.01)


HEADERS = ("x86_64-linux-gnu/asm/unistd_64.h", "asm-generic/unistd.h")  # AArch64's are the generic


@linux
def test_the_numbers_of_the_calls_are_the_kernels() -> None:
    """A wrong number would refuse one call and let another through."""
    for column, name in enumerate(HEADERS):
        header = Path("/usr/include", name)
        if not header.exists():
            pytest.skip("the kernel's headers are not installed")
        found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", header.read_text())
        named = {call: int(number) for call, number in found}
        ours = {call: pair[column] for call, pair in {**sandbox.ALLOWED, **sandbox.FATAL}.items()}
        wrong = {call for call, number in ours.items() if named.get(call, number) != number}
        assert wrong == set(), name


async def test_the_helper_is_confined_before_it_reads_the_file() -> None:
    """The sandbox would exist but not be used."""
    code = (
        "from backends.media.helper import worker\n"
        "worker.confine = lambda: print('confined', flush=True)\n"
        "import os; os.dup2 = lambda *_: None\n"
        "worker.main()"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", code),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=_environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"task": "read", "mime": "application/zip", "size": 1000}\n')
    assert await process.stdout.readline() == b"confined\n"  # it still waits for the file
    process.stdin.close()
    assert b"EOFError" in await process.stdout.read()
    await process.wait()


def test_the_helper_loads_little() -> None:
    """Each file would wait for libraries of the bot that it does not need: five times as long."""
    heavy = "{'asyncio', 'pydantic', 'queueing.core.requests'} & set(sys.modules)"
    begins = (
        "import sys; from backends.media.helper.worker import _WORKS\n"
        "import backends.media.helper.office\n"
        "assert 'PIL' not in sys.modules\n"
        "try: import av, backends.media.helper.video_encoding, backends.media.helper.audio\n"
        "except ImportError: pass\n"
    )
    assert _said(f"{begins}print({heavy})") == "set()"


def test_the_helper_is_found_however_the_bot_was_started(tmp_path: Path) -> None:
    """The helper of a bot started in its source folder would find none of the modules."""
    code = "import json; from backends.media.helper import process as p; print(json.dumps("
    code += "dict(p._environment())))"
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import backends.media.helper.worker"],
        cwd=tmp_path,
        env=json.loads(told.stdout),
        check=False,
    )
    assert done.returncode == 0
