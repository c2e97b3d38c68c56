"""Ports for servers that tests restart; no one else on the machine can get them in between."""

import socket
import sys
import weakref

_kept: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def port_of(owner: object) -> int:
    """Return a free loopback port, reserved as long as `owner` lives.

    A program that names it may listen there, and until then connections to it are refused. Other
    tests constantly start servers, one of which would be given a port that was only looked up.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    port: int = kept.getsockname()[1]
    if sys.platform == "linux":
        weakref.finalize(owner, kept.close)
        _kept.add(kept)
    else:  # elsewhere no one can listen beside it
        kept.close()
    return port


def free_port() -> int:
    """Return a loopback port that is free now, for a program in another process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_kept(found: socket.socket) -> bool:
    """Return whether a socket reserves a port for its owner, and is closed with it."""
    return found in _kept
