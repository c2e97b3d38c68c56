"""The system calls that the helper process is refused, as a filter for the kernel. Pure.

Reading, memory, time and threads are left. Numbers are of x86-64 and of AArch64; 64-bit kernels of
other machines get no filter.
"""

import errno
import struct
from collections.abc import Mapping, Sequence

STEP = 8  # bytes of one instruction

_Numbers = Sequence[int | None]
_MACHINES: Mapping[str, tuple[int, int]] = {  # the column below, and how a filter sees the machine
    "x86_64": (0, 0xC000003E),
    "aarch64": (1, 0xC00000B7),
}
_REFUSED: Mapping[str, _Numbers] = {
    # networks, and rings through which other calls are made
    "socket": (41, 198), "socketpair": (53, 199),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # programs and processes
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None),
    "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "process_madvise": (440, 440), "kcmp": (312, 272),
    "setpriority": (141, 140), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "ioprio_set": (251, 30),
    # files
    "creat": (85, None), "truncate": (76, 45), "rename": (82, None), "renameat": (264, 38),
    "renameat2": (316, 276), "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None),
    "link": (86, None), "linkat": (265, 37), "unlink": (87, None), "unlinkat": (263, 35),
    "symlink": (88, None), "symlinkat": (266, 36), "mknod": (133, None), "mknodat": (259, 33),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "utimensat": (280, 88), "futimesat": (261, None),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "open_by_handle_at": (304, 265),
    # the system, and memory shared with others
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "unshare": (272, 97), "setns": (308, 268), "fsopen": (430, 430), "open_tree": (428, 428),
    "move_mount": (429, 429), "mount_setattr": (442, 442), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "shmget": (29, 194), "shmat": (30, 196),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
}  # fmt: skip
# Their arguments lie behind a pointer, which no filter sees; libraries then use the older call.
_UNKNOWN: Mapping[str, _Numbers] = {"clone3": (435, 435), "openat2": (437, 437)}
_WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000  # any flag of open(2) that creates or changes a file
_THREAD = 0x10000  # of clone(2)

_LOAD, _EQUALS, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_CALL, _MACHINE, _ARGUMENTS = 0, 4, 16  # where a filter finds what was called
_OTHER_ABI = 0x40000000


def refused(machine: str, process: int) -> bytes | None:
    """Return the filter for the process of that number; None for a machine it does not know."""
    if machine not in _MACHINES or struct.calcsize("P") != 8:
        return None
    column, seen_as = _MACHINES[machine]
    no = _step(_RETURN, _ERROR | errno.EPERM)
    unknown = _step(_RETURN, _ERROR | errno.ENOSYS)
    steps = [_step(_LOAD, _MACHINE), _step(_EQUALS, seen_as, 1, 0), no]
    steps += [_step(_LOAD, _CALL), _step(_AT_LEAST, _OTHER_ABI, 0, 1), no]
    for numbers, end in ((_REFUSED, no), (_UNKNOWN, unknown)):
        for pair in numbers.values():
            steps += _when(pair[column], [end])
    for pair, argument in (((2, None), 1), ((257, 56), 2)):  # open, openat: for reading only
        steps += _when(pair[column], _tested(argument, _ANY_BIT, _WRITING, no_if=True))
    for pair, value in (
        ((234, 131), process),
        ((302, 261), 0),
    ):  # tgkill, prlimit64: of itself only
        steps += _when(pair[column], _tested(0, _EQUALS, value, no_if=False))
    steps += _when((56, 220)[column], _tested(0, _ANY_BIT, _THREAD, no_if=False))  # clone
    return b"".join([*steps, _step(_RETURN, _ALLOW)])


def _when(number: int | None, then: Sequence[bytes]) -> list[bytes]:
    """Return steps that are taken for one system call, which ends them."""
    return [] if number is None else [_step(_EQUALS, number, 0, len(then)), *then]


def _tested(argument: int, how: int, value: int, *, no_if: bool) -> list[bytes]:
    """Return steps that allow a call by one of its arguments."""
    yes, no = _step(_RETURN, _ALLOW), _step(_RETURN, _ERROR | errno.EPERM)
    met, otherwise = (no, yes) if no_if else (yes, no)
    return [_step(_LOAD, _ARGUMENTS + 8 * argument), _step(how, value, 0, 1), met, otherwise]


def _step(code: int, value: int, met: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, met, otherwise, value)
