"""A real partition: a process in its own network namespace, whose cable is cut."""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp

from tests.fakes.ports import port_of
from tests.fakes.programs.postgres_server import (
    NOT_INSTALLED,
    PostgresServer,
    binaries,
    running_server,
)
from tests.processes.cluster.cluster import CONFIG, TRY_S, Processes, Usher

NOT_ALLOWED = "network namespaces need root and the command ip, so no cable was pulled"
LEASE_S = 3.0
WAITING = 20
_AWAY, _CABLE = "usher-away", "usher-cable"
_HERE, _THERE = "10.213.7.1", "10.213.7.2"
_LISTENS = f"listen_addresses=127.0.0.1,{_HERE}"


class NotAllowedHere(Exception):
    """This machine has no network namespaces for the tests."""


@contextmanager
def machine_away() -> Iterator[None]:
    """Provide a namespace and a cable to it. Raises `NotAllowedHere`."""
    with suppress(OSError, subprocess.CalledProcessError):
        _ip("netns", "delete", _AWAY)  # of a run that was killed
    try:
        _ip("netns", "add", _AWAY)
        _ip("link", "add", _CABLE, "type", "veth", "peer", "name", "eth0", "netns", _AWAY)
        _ip("address", "add", f"{_HERE}/30", "dev", _CABLE)
        _ip("link", "set", _CABLE, "up")
        for words in (
            ("address", "add", f"{_THERE}/30", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-netns", _AWAY, *words)
        yield
    except (OSError, subprocess.CalledProcessError) as error:
        raise NotAllowedHere(NOT_ALLOWED) from error
    finally:
        with suppress(OSError, subprocess.CalledProcessError):
            _ip("netns", "delete", _AWAY)  # and the cable with it


def pull(folder: Path, cuts: int, *, lease_s: float = LEASE_S) -> list[float]:
    """Return how long each of several failovers took, with a server of its own.

    Raises `NotAllowedHere` where there are no namespaces, or no PostgreSQL.
    """
    programs = binaries()
    if programs is None:
        raise NotAllowedHere(NOT_INSTALLED)
    with machine_away(), running_server(programs, _LISTENS) as server:
        return asyncio.run(_failovers_s(folder, server, cuts, lease_s))


async def _failovers_s(
    folder: Path, server: PostgresServer, cuts: int, lease_s: float
) -> list[float]:
    """Return how long nothing was accepted each time, from the cut to the next's first job."""
    taken = []
    async with _two(folder, server, lease_s) as both:
        there, here = both.ushers
        jobs: list[int] = []
        for _ in range(cuts):
            await here.start()
            jobs += await both.ask(WAITING)
            assert await both.holder() is there
            began = time.monotonic()
            _ip("link", "set", _CABLE, "down")
            jobs += await both.ask(1)
            taken.append(time.monotonic() - began)
            assert await both.holder() is here
            _ip("link", "set", _CABLE, "up")
            await both.all_done(jobs)
            await here.end()
            assert await both.holder() is there
        assert len(set(jobs)) == cuts * (WAITING + 1)
    return taken


@asynccontextmanager
async def _two(folder: Path, server: PostgresServer, lease_s: float) -> AsyncIterator[Processes]:
    """Start the process in the namespace; once it runs, yield the one here, which is called."""
    database, loop = server.database(), asyncio.get_running_loop()
    url = server.url(database).replace("127.0.0.1", _HERE)
    ushers = []
    for name, within in (("there", ("ip", "netns", "exec", _AWAY)), ("here", ())):
        port = port_of(loop)
        config = CONFIG.format(database=url, port=port) + f"cluster: {{lease_s: {lease_s}}}\n"
        ushers.append(Usher(folder / name, config, port, within=within))
    timeout = aiohttp.ClientTimeout(total=TRY_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        both = Processes(ushers, session, server, database)
        await ushers[0].start()
        try:
            await ushers[0].logged("holds the role queue")
            yield both
        except BaseException:
            print(*(usher.log for usher in ushers), sep="\n----\n")
            raise
        finally:
            for usher in ushers:
                if usher.runs:
                    await usher.end()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
