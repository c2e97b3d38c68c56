"""Confines the helper process with Linux's Landlock and seccomp. Does nothing on other systems.

Once confined, the process reads no files except fonts and its libraries, changes none, opens no
socket, starts no program, and cannot reach other processes or a terminal. Its pipes stay usable.
`UNHELD` describes the risk if a barrier is missing.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import backends
import queueing

STEP = 8  # bytes per instruction

_Numbers = Sequence[int | None]
_MACHINES: Mapping[str, tuple[int, int]] = {  # column in the tables below, seccomp's architecture
    "x86_64": (0, 0xC000003E),
    "aarch64": (1, 0xC00000B7),
}
ALLOWED: Mapping[str, _Numbers] = {
    # open files, and files by name
    "read": (0, 63), "readv": (19, 65), "pread64": (17, 67), "write": (1, 64), "writev": (20, 66),
    "close": (3, 57), "lseek": (8, 62), "dup": (32, 23), "fadvise64": (221, 223),
    "poll": (7, None), "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72),
    "stat": (4, None), "lstat": (6, None), "fstat": (5, 80), "newfstatat": (262, 79),
    "statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44), "access": (21, None),
    "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None),
    "readlinkat": (267, 78), "getdents": (78, None), "getdents64": (217, 61), "getcwd": (79, 17),
    # memory
    "brk": (12, 214), "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215),
    "mremap": (25, 216), "madvise": (28, 233), "membarrier": (324, 283),
    # threads, and this process's own signals
    "futex": (202, 98), "set_robust_list": (273, 99), "rseq": (334, 293),
    "set_tid_address": (218, 96), "arch_prctl": (158, None), "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "getcpu": (309, 168), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "exit": (60, 93), "exit_group": (231, 94),
    # time, and this process's properties
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "gettimeofday": (96, 169),
    "time": (201, None), "nanosleep": (35, 101), "clock_nanosleep": (230, 115),
    "times": (100, 153), "getrusage": (98, 165), "getrlimit": (97, 163), "sysinfo": (99, 179),
    "uname": (63, 160), "getrandom": (318, 278), "getpid": (39, 172), "gettid": (186, 178),
    "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176),
    "getegid": (108, 177),
}  # fmt: skip
FATAL: Mapping[str, _Numbers] = {
    # other programs and processes
    "execve": (59, 221), "execveat": (322, 281), "kill": (62, 129), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "process_madvise": (440, 440), "kcmp": (312, 272),
    # the system
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266),
    "adjtimex": (159, 171), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None),
    "ioperm": (173, None), "syslog": (103, 116), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268),
    "fsopen": (430, 430), "move_mount": (429, 429), "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    # kernel services: rings, programs, counters, faults, keys
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
}  # fmt: skip
# Calls from this number on are new: libraries try them and fall back to an older one if missing.
# The arguments of clone3 and openat2 are behind a pointer, which no filter can read.
_NEW = 424

_WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000  # flags of open(2) that create or change a file
_THREAD, _NAMESPACES = 0x10000, 0x7E020000  # of clone(2)
# fcntl(2): copying handles and setting their flags; none that makes a handle send signals.
_COPY, _GET, _SET, _STATE, _COPY_CLOSED = 0, 1, 2, 3, 1030
# ioctl(2): whether it is a terminal, its size, and inheritance by programs; none that writes.
_IS_TERMINAL, _IS_TERMINAL_2, _SIZE, _KEPT, _CLOSED = 0x5401, 0x802C542A, 0x5413, 0x5450, 0x5451
_NAME_THREAD, _NAME_MEMORY = 15, 0x53564D41  # of prctl(2)

_LOAD, _EQUALS, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_CALL, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets of a filter's input
_OTHER_ABI = 0x40000000


def _step(code: int, value: int, met: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, met, otherwise, value)


_YES, _NO = _step(_RETURN, _ALLOW), _step(_RETURN, _ERROR | errno.EPERM)
_END, _UNKNOWN = _step(_RETURN, _KILL), _step(_RETURN, _ERROR | errno.ENOSYS)


def filter_for(machine: str, process: int) -> bytes | None:
    """Return the filter for a process id, or None on an unsupported architecture."""
    if machine not in _MACHINES or struct.calcsize("P") != 8:
        return None
    column, seen_as = _MACHINES[machine]
    steps = [_step(_LOAD, _MACHINE), _step(_EQUALS, seen_as, 1, 0), _END]
    steps += [_step(_LOAD, _CALL), _step(_AT_LEAST, _OTHER_ABI, 0, 1), _END]
    for numbers, end in ((ALLOWED, _YES), (FATAL, _END)):
        for pair in numbers.values():
            steps += _when(pair[column], [end])
    for pair, tested in _by_argument(process):
        steps += _when(pair[column], tested)
    return b"".join([*steps, _step(_AT_LEAST, _NEW, 0, 1), _UNKNOWN, _NO])


def _by_argument(process: int) -> Sequence[tuple[_Numbers, Sequence[bytes]]]:
    """Return the tests for calls that are allowed only with some arguments."""
    states, terminals = (_COPY, _GET, _SET, _STATE, _COPY_CLOSED), (_IS_TERMINAL, _IS_TERMINAL_2)
    a_thread = [*_loaded(0), _step(_ANY_BIT, _THREAD, 1, 0), _NO, *_unless_any(0, _NAMESPACES)]
    return (
        ((2, None), _unless_any(1, _WRITING)),  # open
        ((257, 56), _unless_any(2, _WRITING)),  # openat
        ((72, 25), _if_one_of(1, states)),  # fcntl
        ((16, 29), _if_one_of(1, (*terminals, _SIZE, _KEPT, _CLOSED))),  # ioctl
        ((157, 167), _if_one_of(0, (_NAME_THREAD, _NAME_MEMORY))),  # prctl
        ((234, 131), _if_one_of(0, (process,))),  # tgkill, called by abort(3)
        ((302, 261), _if_one_of(0, (0,))),  # prlimit64 of itself
        ((56, 220), a_thread),  # clone
    )


def _when(number: int | None, then: Sequence[bytes]) -> list[bytes]:
    """Return instructions that run for one system call; `then` must end with a verdict."""
    return [] if number is None else [_step(_EQUALS, number, 0, len(then)), *then]


def _loaded(argument: int) -> list[bytes]:
    return [_step(_LOAD, _ARGUMENTS + 8 * argument)]


def _if_one_of(argument: int, values: Sequence[int]) -> list[bytes]:
    """Return instructions that allow a call if an argument has one of these values."""
    tests = [part for value in values for part in _when(value, [_YES])]
    return [*_loaded(argument), *tests, _NO]


def _unless_any(argument: int, bits: int) -> list[bytes]:
    """Return instructions that allow a call if an argument has none of these bits."""
    return [*_loaded(argument), _step(_ANY_BIT, bits, 0, 1), _NO, _YES]


class Barrier(StrEnum):
    """A protection that confines the process."""

    PRIVILEGES = "no_new_privs"
    FILES = "landlock"
    CALLS = "seccomp"


UNHELD: Mapping[Barrier, str] = {
    Barrier.FILES: "a video or document that exploits its decoder could read every file of this "
    "account: Landlock is missing (it needs Linux 5.13, and containers must allow it)",
    Barrier.CALLS: "a video or document that exploits its decoder could start programs, open "
    "connections, kill other processes and, without Landlock, change files: seccomp is missing "
    "(it needs Linux on x86-64 or AArch64)",
}
"""What the operator is warned about if a barrier is missing."""

_END_WITH_PARENT, _NO_NEW_PRIVS, _GET_NO_NEW_PRIVS = 1, 38, 39  # of prctl(2)
_GET_SECCOMP, _SECCOMP, _FILTER = 21, 22, 2
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _VERSION = 444, 445, 446, 1
_READ_FILE, _READ_DIR = 4, 8
_RIGHTS = (0, 0x1FFF, 0x3FFF, 0x7FFF, 0x7FFF, 0xFFFF)  # file rights, by Landlock's ABI version
_SHARED = ("/usr/lib", "/usr/share", "/lib", "/lib64", "/etc/fonts", "/etc/ssl/openssl.cnf")


def offered() -> frozenset[Barrier]:
    """Return the barriers that this machine supports, without confining this process."""
    if sys.platform != "linux":
        return frozenset()
    kernel = ctypes.CDLL(None, use_errno=True)
    found = {
        Barrier.PRIVILEGES: kernel.prctl(_GET_NO_NEW_PRIVS, 0, 0, 0, 0) >= 0,
        Barrier.FILES: kernel.syscall(_CREATE_RULESET, None, 0, _VERSION) >= 1,
        Barrier.CALLS: filter_for(platform.machine(), os.getpid()) is not None
        and kernel.prctl(_GET_SECCOMP, 0, 0, 0, 0) >= 0,
    }
    return frozenset(barrier for barrier, there in found.items() if there)


def unheld() -> Mapping[Barrier, str]:
    """Return the barriers that this machine lacks, with the risk of each."""
    there = offered()
    return {barrier: harm for barrier, harm in UNHELD.items() if barrier not in there}


def confine() -> frozenset[Barrier]:
    """Confine this process permanently and return its barriers. Call it before starting threads."""
    if sys.platform != "linux":
        return frozenset()
    kernel = ctypes.CDLL(None, use_errno=True)
    kernel.prctl(_END_WITH_PARENT, signal.SIGKILL, 0, 0, 0)  # also while it is stopped
    held = set()
    if kernel.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        held.add(Barrier.PRIVILEGES)
    if _restrict_files(kernel):
        held.add(Barrier.FILES)
    if _restrict_system_calls(kernel):
        held.add(Barrier.CALLS)
    return frozenset(held)


def _restrict_files(kernel: ctypes.CDLL) -> bool:
    """Allow reading below a few folders only, and no changes (Linux 5.13 and later)."""
    version = kernel.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < 1:
        return False
    # Rights for files; for networks from version 4; for signals and named sockets from version 6.
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
    """Yield the folders of Python, libraries and fonts; nothing else is read after imports."""
    yield from (Path(file).parent for file in (backends.__file__, queueing.__file__))
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield Path(sysconfig.get_path(name))
    yield from (
        Path(path) for path in sys.path if path.endswith(("site-packages", "dist-packages"))
    )
    yield from (Path(path) for path in _SHARED)


def _restrict_system_calls(kernel: ctypes.CDLL) -> bool:
    """Install a kernel filter that refuses all system calls except those on a list."""
    program = filter_for(platform.machine(), os.getpid())
    if program is None:
        return False
    code = ctypes.create_string_buffer(program)
    asked = struct.pack("@HP", len(program) // STEP, ctypes.addressof(code))
    return bool(kernel.prctl(_SECCOMP, _FILTER, asked, 0, 0) == 0)
