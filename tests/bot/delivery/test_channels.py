"""Chats no one writes to any more are put away; those with something to wait out are not."""

from dataclasses import dataclass

from bot.delivery.channels import Channels
from tests.fakes.chat import FakeChat
from tests.simulation.loop import run


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


def test_a_turn_that_was_not_used_leaves_its_room_to_others() -> None:
    """What became true again while it waited would hold up whatever is shown next."""

    async def scenario() -> None:
        clock = Clock()
        channels = Channels({"fake": FakeChat()}, clock)
        for used in (False, True):
            for upload in (False, True):
                clock.at += 100.0
                async with channels.turn("fake", "g1", upload=upload) as turn:
                    turn.used = used
                rate_limit = channels.at("fake", "g1").rate_limit
                assert (rate_limit.earliest(clock.now(), urgent=True) > clock.now()) is used

    run(scenario())
