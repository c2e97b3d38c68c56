"""When the next request to a chat may go: spacing, a minute's budget, penalties. Decides, never sends.

Numbers come from the platforms' `Limits`; what they are worth and where they were found is in the
documents of each platform. A final state needs less room than an update, so it always gets through.
"""

from collections import deque

from bot.platforms.base import Limits

_MINUTE_S = 60.0
_FOR_UPDATES = 0.6  # of a group's minute; the rest is kept for what is urgent
_FOR_ALL = 0.9  # the last requests are left to what nobody here counts
_CALM_S = 120.0  # after so long without a penalty, a chat is trusted again
_SLOWEST = 8.0
_OLD_MESSAGE_S = 300.0  # between updates of a message the platform no longer edits freely

_HEAD = 11  # the first ten of a line, and the one about to join them
_HEAD_PATIENCE_S = 8.0
_FURTHER_S = 0.8  # for each open job
_LONGEST_PATIENCE_S = 600.0
_CROWD = 200  # open jobs from which on steps are shown less often


def patience_s(position: int | None, crowd: int) -> float:
    """Return how long a waiting job's message may lag behind the truth, in seconds.

    The head of a line is watched most. Further back, a place more or less says little and the
    moment the message names stays true, so all of these together cost about one edit a second,
    however many of the `crowd` of open jobs they are.
    """
    if position is None or position <= _HEAD:
        return _HEAD_PATIENCE_S
    return min(max(crowd * _FURTHER_S, _HEAD_PATIENCE_S), _LONGEST_PATIENCE_S)


def stretch(crowd: int) -> float:
    """Return how many times rarer than usual a running job's steps are shown in a crowd."""
    return max(1.0, crowd / _CROWD)


class Overall:
    """Spaces the requests of a whole bot, all chats together."""

    def __init__(self, per_s: float) -> None:
        self._gap_s = 1.0 / per_s
        self._free_at = 0.0

    def reserve(self, now: float) -> float:
        """Take the next free moment and return how long to wait for it, in seconds."""
        at = max(now, self._free_at)
        self._free_at = at + self._gap_s
        return at - now


class Pace:
    """The budget of one chat."""

    def __init__(self, limits: Limits, *, group: bool) -> None:
        self._limits = limits
        self._per_minute = limits.group_per_minute if group else None
        self._sent: deque[float] = deque()
        self._held_until = 0.0
        self._slowness = 1.0
        self._penalised_at = 0.0

    @property
    def free_answers(self) -> bool:
        """Whether first answers to calls are on nobody's account."""
        return self._limits.free_answers

    def earliest(self, now: float, *, urgent: bool, burst: bool = False) -> float:
        """Return the first moment the budget allows a request.

        Ends and first answers are urgent: a part of a group's minute is kept for them. What a
        person has just asked for may come in a `burst`, which the platforms bear when it is short.
        """
        at = max(now, self._held_until)
        if self._sent and not burst:
            at = max(at, self._sent[-1] + self._limits.chat_every_s * self._slow(now))
        if self._per_minute is not None:
            share = _FOR_ALL if urgent else _FOR_UPDATES
            room = max(1, int(self._per_minute * share))
            self._forget(now)
            if len(self._sent) >= room:
                at = max(at, self._sent[-room] + _MINUTE_S)
        return at

    def edit_gap_s(self, age_s: float | None) -> float:
        """Return the least time between two updates of one message of that age, in seconds."""
        if age_s is not None and self._limits.free_edit_s and age_s > self._limits.free_edit_s:
            return _OLD_MESSAGE_S
        return self._limits.edit_every_s

    def turn_s(self, messages: int) -> float:
        """Return how often each of a chat's messages may be edited so that all get their turn.

        Without it the foremost in line would use up a group's minute.
        """
        if self._per_minute is None:
            return 0.0
        return messages * _MINUTE_S / (self._per_minute * _FOR_UPDATES)

    def at_rest(self, now: float) -> bool:
        """Return whether the whole budget is there, as in a chat never written to."""
        quiet = not self._sent or self._sent[-1] < now - _MINUTE_S
        return quiet and self._held_until <= now and self._slow(now) == 1

    def spend(self, now: float) -> None:
        """Note a request that is being sent."""
        self._sent.append(now)
        self._forget(now)

    def slow_down(self, now: float, retry_after_s: float) -> None:
        """Wait out a penalty, and go slower for a while after it."""
        self._held_until = max(self._held_until, now + retry_after_s)
        self._penalised_at = self._held_until
        self._slowness = min(self._slowness * 2, _SLOWEST)

    def _slow(self, now: float) -> float:
        if self._slowness > 1 and now > self._penalised_at + _CALM_S:
            self._slowness = 1.0
        return self._slowness

    def _forget(self, now: float) -> None:
        while len(self._sent) > 1 and self._sent[0] < now - _MINUTE_S:
            self._sent.popleft()
