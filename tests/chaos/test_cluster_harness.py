"""The trial of a cluster finds two writers, two listeners, and a cut cable."""

import asyncio

import pytest

from tests.chaos.cluster.cable import Cable
from tests.chaos.cluster.ledger import Change, Heard, Ledger, Term

FIRST, SECOND = "127.10.0.2", "127.11.0.2"
TERMS = [
    Term(1.0, 1, FIRST, "queue", 1, held=True),
    Term(1.1, 2, FIRST, "telegram", 1, held=True),
    Term(5.0, 3, SECOND, "queue", 2, held=True),
    Term(9.0, 4, FIRST, "queue", 3, held=True),
]


def change(at: float, who: str, *, port: int = 1, platform: str = "") -> Change:
    return Change(at, round(at * 10), who, port, "jobs", 7, platform, "processing", 1)


def two_writers(*changes: Change) -> list[str]:
    return list(Ledger(terms=TERMS, changes=changes).two_writers())


def two_listeners(*heard: Heard) -> list[str]:
    return list(Ledger(terms=TERMS, changes=[]).two_listeners(heard))


def test_what_the_holder_writes_is_no_breach() -> None:
    """The trial would count permitted writes as breaches."""
    assert two_writers(change(2.0, FIRST), change(6.0, SECOND), change(9.5, FIRST, port=2)) == []
    assert two_writers(change(6.0, FIRST, platform="telegram")) == []


def test_a_row_of_an_older_epoch_is_a_breach() -> None:
    """A fence that lets an old holder write would pass the trial."""
    assert len(two_writers(change(2.0, FIRST), change(5.1, FIRST))) == 1
    assert len(two_writers(change(6.0, SECOND, platform="telegram"))) == 1


def test_a_session_of_an_older_epoch_is_a_breach_though_its_process_holds_the_post_again() -> None:
    """What a process began two epochs ago would count as written under the newest."""
    assert len(two_writers(change(2.0, FIRST), change(9.5, FIRST))) == 1


def test_a_call_without_the_post_is_a_breach() -> None:
    """Two processes would unnoticed ask one Telegram for updates."""
    mine = Heard(at=2.0, who=FIRST, platform="telegram", what="getUpdates")
    others = Heard(at=2.0, who=SECOND, platform="telegram", what="getUpdates")
    after = Heard(at=6.0, who=FIRST, platform="discord", what="identify")
    assert two_listeners(mine) == []
    assert len(two_listeners(others)) == 1
    assert len(two_listeners(after)) == 1  # without its own role it belongs to the queue's


def test_the_next_change_is_the_next_holders() -> None:
    """A failover would seem over because the old holder still wrote."""
    ledger = Ledger(terms=TERMS, changes=[change(4.5, FIRST), change(5.7, SECOND)])
    assert ledger.next_change(4.0, FIRST) == 5.7
    assert ledger.next_change(9.5, FIRST) is None


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(100):
        address, _ = writer.get_extra_info("peername")
        writer.write(data + address.encode())
    writer.close()


async def test_a_cable_passes_on_stays_silent_and_breaks() -> None:
    """A cut that lets bytes through, or that is noticed, would test another case."""
    service = await asyncio.start_server(_echo, "127.0.0.1", 0)
    async with service, Cable(service.sockets[0].getsockname()[1]) as cable:
        cable.source = "127.12.3.4"
        reader, writer = await asyncio.open_connection("127.0.0.1", cable.port)
        writer.write(b"1")
        assert await reader.readexactly(11) == b"1127.12.3.4"
        cable.silence()
        writer.write(b"2")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.1)
        cable.mend()
        assert await reader.readexactly(11) == b"2127.12.3.4"
        cable.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
        other, closing = await asyncio.open_connection("127.0.0.1", cable.port)
        with pytest.raises(ConnectionResetError):
            await other.read(1)
        closing.close()
