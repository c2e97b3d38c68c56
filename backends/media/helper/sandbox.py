"""Confines the helper process by what Linux offers: Landlock and seccomp. Elsewhere it does nothing.

Afterwards the process reads no file but its libraries' and fonts, changes none, opens no socket,
starts no program and reaches no other process or terminal. Its pipes stay usable. `UNHELD` says
what is not guaranteed where a barrier is missing.
"""

import ctypes
import os
import platform
import signal
import struct
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import backends
import queueing
from backends.media.helper import calls


class Barrier(StrEnum):
    """What holds the process in."""

    PRIVILEGES = "no_new_privs"
    FILES = "landlock"
    CALLS = "seccomp"


UNHELD: Mapping[Barrier, str] = {
    Barrier.FILES: "a film or document that takes over what reads it could read every file of this "
    "account: Landlock is missing (Linux 5.13, and containers must allow it)",
    Barrier.CALLS: "a film or document that takes over what reads it could start programs, open "
    "connections, end other processes and, without Landlock, change files: seccomp is missing "
    "(Linux on x86-64 and AArch64)",
}
"""What the operator is told is not guaranteed when a barrier is missing."""

_END_WITH_PARENT, _NO_NEW_PRIVS, _GET_NO_NEW_PRIVS = 1, 38, 39  # of prctl(2)
_GET_SECCOMP, _SECCOMP, _FILTER = 21, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _VERSION = 444, 445, 446, 1
_READ_FILE, _READ_DIR = 4, 8
_RIGHTS = (0, 0x1FFF, 0x3FFF, 0x7FFF, 0x7FFF, 0xFFFF)  # of files, by the kernel's version of rules
_SHARED = ("/usr/lib", "/usr/share", "/lib", "/lib64", "/etc/fonts", "/etc/ssl/openssl.cnf")


def offered() -> frozenset[Barrier]:
    """Return what would hold a process in on this machine; this one goes on as it is."""
    if sys.platform != "linux":
        return frozenset()
    kernel = ctypes.CDLL(None, use_errno=True)
    found = {
        Barrier.PRIVILEGES: kernel.prctl(_GET_NO_NEW_PRIVS, 0, 0, 0, 0) >= 0,
        Barrier.FILES: kernel.syscall(_CREATE_RULESET, None, 0, _VERSION) >= 1,
        Barrier.CALLS: calls.filter_for(platform.machine(), os.getpid()) is not None
        and kernel.prctl(_GET_SECCOMP, 0, 0, 0, 0) >= 0,
    }
    return frozenset(barrier for barrier, there in found.items() if there)


def unheld() -> Mapping[Barrier, str]:
    """Return the barriers that this machine lacks, and what a file could do without each."""
    there = offered()
    return {barrier: harm for barrier, harm in UNHELD.items() if barrier not in there}


def confine() -> frozenset[Barrier]:
    """Confine this process for good and return what holds it. Call it before threads begin."""
    if sys.platform != "linux":
        return frozenset()
    kernel = ctypes.CDLL(None, use_errno=True)
    kernel.prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)  # also while it is stopped
    held = set()
    if kernel.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        held.add(Barrier.PRIVILEGES)
    if _files_out_of_reach(kernel):
        held.add(Barrier.FILES)
    if _calls_refused(kernel):
        held.add(Barrier.CALLS)
    return frozenset(held)


def _files_out_of_reach(kernel: ctypes.CDLL) -> bool:
    """Let files be read below a few folders only, and none be changed (Linux 5.13 and later)."""
    version = kernel.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < 1:
        return False
    # Rights of files; of networks from version 4 on; signals and named sockets from version 6 on.
    fields = [_RIGHTS[min(version, len(_RIGHTS) - 1)], *((3,) if version >= 4 else ())]
    fields += (3,) if version >= 6 else ()
    asked = struct.pack(f"={len(fields)}Q", *fields)
    rules = kernel.syscall(_CREATE_RULESET, asked, len(asked), 0)
    if rules < 0:
        return False
    for folder in _readable():
        with suppress(OSError):
            opened = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            rights = _READ_FILE | (_READ_DIR if folder.is_dir() else 0)
            kernel.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, opened), 0)
            os.close(opened)
    done = kernel.syscall(_RESTRICT_SELF, rules, 0) == 0
    os.close(rules)
    return bool(done)


def _readable() -> Iterator[Path]:
    """Yield where Python, the libraries and fonts lie; nothing else is read once they are loaded."""
    yield from (Path(file).parent for file in (backends.__file__, queueing.__file__))
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield Path(sysconfig.get_path(name))
    yield from (
        Path(path) for path in sys.path if path.endswith(("site-packages", "dist-packages"))
    )
    yield from (Path(path) for path in _SHARED)


def _calls_refused(kernel: ctypes.CDLL) -> bool:
    """Refuse the system calls that are not on a list, by a filter in the kernel."""
    program = calls.filter_for(platform.machine(), os.getpid())
    if program is None:
        return False
    code = ctypes.create_string_buffer(program)
    asked = struct.pack("@HP", len(program) // calls.STEP, ctypes.addressof(code))
    return bool(kernel.prctl(_SECCOMP, _FILTER, asked, 0, 0) == 0)
