"""The real program as one of several: `python -m tests.chaos.cluster.child run -c FILE`.

Like `tests.chaos.crash_points`, on which it is based, it reads environment variables:
`USHER_CLOCK_AHEAD_S` shifts this machine's clock, `USHER_PLAIN_ROLES` takes away the locks and
notices of roles, so that leases alone must suffice, and `USHER_CABLES_AT` is the first port of this
machine's cables: every machine has the same configuration, but its own cables. Clocks that only
count are left unchanged, as no operator sets those.
"""

import os
import socket
import sys
import time
from functools import partial
from typing import Any

CLOCK = "USHER_CLOCK_AHEAD_S"
PLAIN = "USHER_PLAIN_ROLES"
HERE = "USHER_CABLES_AT"
HERE_NAME = "localhost"


def set_clock(ahead_s: float) -> None:
    """Set this process's time of day."""
    machine_s = time.time
    machine_ns = time.time_ns
    time.time = lambda: machine_s() + ahead_s
    time.time_ns = lambda: machine_ns() + int(ahead_s * 1e9)


def find_cables(address: str) -> None:
    """Have this process use this machine's own cables."""
    everywhere = socket.getaddrinfo

    def here(host: Any, *which: Any, **how: Any) -> Any:
        names = {HERE_NAME, HERE_NAME.encode()}
        return everywhere(address if host in names else host, *which, **how)

    socket.getaddrinfo = here


def without_locks() -> None:
    """Have this process take roles by their leases alone."""
    from queueing.store.postgres import lease_store  # noqa: PLC0415  once the clock is set

    lease_store.PostgresLeases = partial(lease_store.PostgresLeases, quick=False)  # type: ignore[assignment,misc]


if __name__ == "__main__":
    set_clock(float(os.environ.get(CLOCK, "0")))
    find_cables(os.environ[HERE])
    if os.environ.get(PLAIN):
        without_locks()
    from tests.chaos.crash_points import begin_runs

    sys.exit(begin_runs(sys.argv[1:]))
