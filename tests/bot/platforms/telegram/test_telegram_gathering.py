"""Parts of albums in virtual time: gathered as they come, confirmed when they are durable."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from telegram import Update

from bot.platforms.telegram.acts import ALBUM_MOST, ALBUM_QUIET_S
from tests.fakes.telegram.polled_updates import PolledUpdates
from tests.simulation.loop import in_virtual_time, run


def _update(number: int, album: str | None) -> Update:
    message: dict[str, Any] = {
        "message_id": number,
        "date": 1,
        "chat": {"id": 7, "type": "private"},
        "media_group_id": album,
    }
    update = Update.de_json({"update_id": number, "message": message}, None)
    assert update is not None
    return update


def server(arrivals: Sequence[tuple[float, str | None]]) -> PolledUpdates:
    return PolledUpdates(
        [(at, _update(number, album)) for number, (at, album) in enumerate(arrivals, 1)]
    )


def gathered(*arrivals: tuple[float, str | None]) -> list[tuple[int, ...]]:
    polled = server(arrivals)
    run(polled.live(60.0))
    return polled.served


def test_an_album_is_whole_when_no_part_has_come_for_a_while() -> None:
    """An image that is uploaded a little later would become a separate request."""
    slow = [(0.8 * ALBUM_QUIET_S * number, "a") for number in range(4)]
    assert gathered(*slow) == [(1, 2, 3, 4)]
    assert gathered((0.0, "a"), (3 * ALBUM_QUIET_S, "a")) == [(1,), (2,)]


def test_other_messages_do_not_wait_for_an_album() -> None:
    """A /cancel would wait for the upload of a person's holiday photos."""
    assert gathered((0.0, "a"), (0.0, None), (0.0, "b"), (0.5, "a")) == [(2,), (3,), (1, 4)]


def test_an_album_that_is_as_large_as_can_be_waits_for_nothing() -> None:
    """Ten images would wait for an eleventh."""
    polled = server([(0.0, "a")] * ALBUM_MOST)
    run(polled.live(ALBUM_QUIET_S / 2))
    assert polled.served == [tuple(range(1, ALBUM_MOST + 1))]


@settings(max_examples=25)
@given(
    gaps=st.lists(
        st.tuples(st.floats(0, 4), st.sampled_from([None, "a", "b"])), min_size=1, max_size=8
    ),
    lives=st.lists(st.floats(0.1, 6), max_size=4),
)
@in_virtual_time
async def test_no_part_is_lost_whenever_the_bot_dies(
    gaps: list[tuple[float, str | None]], lives: list[float]
) -> None:
    """An image would be confirmed to Telegram, and be lost in the crash."""
    at, arrivals = 0.0, []
    for gap, album in gaps:
        at += gap
        arrivals.append((at, album))
    polled = server(arrivals)
    for seconds in lives:
        await polled.live(seconds)
    await polled.live(90.0)
    assert polled.durable == set(range(1, len(gaps) + 1))
    assert polled.confirmed == len(gaps)
