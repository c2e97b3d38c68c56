"""What is sent next to a chat, and which chats are removed from memory."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.core.content import Content
from bot.core.origin import Origin
from bot.core.platform import MessageRef
from bot.delivery.channels import Channel, Channels
from bot.delivery.rate_limit import RateLimit
from bot.delivery.status_message import StatusMessage
from bot.platforms.telegram.platform import Telegram
from queueing.core.jobs import JobState, stand_in
from queueing.core.status import Estimate
from tests.fakes.chat import FakeChat
from tests.samples import examples
from tests.simulation.loop import in_virtual_time


@dataclass
class Clock:
    at: float = 1000.0

    def now(self) -> float:
        return self.at


def test_chats_at_rest_are_put_away_and_others_stay() -> None:
    """Memory would grow with everyone who ever asked, or a penalty would be forgotten."""
    clock = Clock()
    channels = Channels({"fake": FakeChat()}, clock)
    punished, away, busy = (channels.at("fake", name) for name in ("punished", "away", "busy"))
    punished.rate_limit.slow_down(clock.now(), 1e9)
    away.unreachable(clock.now(), 1e9)
    busy.served = True
    for number in range(5000):
        rate_limit = channels.at("fake", f"g{number}").rate_limit
        rate_limit.begin(clock.now())
        rate_limit.end(clock.now())
        clock.at += 1.0
    assert len(channels._channels) <= 1000
    for name, channel in (("punished", punished), ("away", away), ("busy", busy)):
        assert channels.find("fake", name) is channel
    newest = channels.find("fake", "g4999")
    assert newest is not None
    assert newest.rate_limit.earliest(clock.now() - 1.0, urgent=False) > clock.now() - 1.0


@in_virtual_time
async def test_a_turn_that_was_not_used_leaves_its_room_to_others() -> None:
    """An update that is no longer needed would delay whatever comes next."""
    clock = Clock()
    channels = Channels({"fake": FakeChat()}, clock)
    for used in (False, True):
        for upload in (False, True):
            clock.at += 100.0
            async with channels.turn("fake", "g1", upload=upload) as turn:
                turn.used = used
            rate_limit = channels.at("fake", "g1").rate_limit
            assert (rate_limit.earliest(clock.now(), urgent=True) > clock.now()) is used


def message(number: int, state: JobState, **fields: Any) -> StatusMessage:
    """Return a job's message in a group, with or without a call that can still be answered."""
    job = replace(stand_in(number, "flux", 0.0), state=state)
    origin = Origin(
        platform="telegram", chat="-1", group=True, user="telegram:1", user_name="", language="en",
        key=str(number), request="7",
    )  # fmt: skip
    return StatusMessage(job=job, origin=origin, **fields)


async def respond(_content: Content, _private: bool) -> None:
    return None


ends = st.one_of(
    st.none(), st.floats(0, 200).map(lambda at: Estimate(at=at, earliest=at - 1.0, latest=at + 1.0))
)
messages = st.lists(
    st.builds(
        lambda state, ends, known, called, pings: {
            "state": state,
            "ends": ends,
            "ref": MessageRef(platform="telegram", chat="-1", message="9") if known else None,
            "respond": respond if called else None,
            "ping_by": 130.0 if pings and state.final else None,
        },
        st.sampled_from(JobState),
        ends,
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@examples(100, quick=25)
@given(messages, st.integers(0, 20))
def test_what_goes_next_is_a_result_if_one_is_ready(
    several: list[dict[str, Any]], sent: int
) -> None:
    """First messages, updates and pings would use up the requests that results need."""
    now = 100.0
    channel = Channel(rate_limit=RateLimit(Telegram.limits, group=True))
    for number, fields in enumerate(several):
        channel.messages[number] = message(number, **fields)
    for second in range(sent):
        channel.rate_limit.begin(now - 59.0 + second)
        channel.rate_limit.end(now - 59.0 + second)
    following = channel.next_message(now, len(several))
    ready = [number for number, each in channel.messages.items() if each.ready]
    assert following is not None
    if ready:
        chosen, at = following
        assert chosen.job.id == ready[0]
        assert at == channel.rate_limit.earliest(now, urgent=True, burst=chosen.awaited)
