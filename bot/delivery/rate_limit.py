"""Decides when the next request to a chat may go: spacing, budget, penalties, pauses. Sends nothing.

The numbers come from the platforms' `ChatLimits`. Each platform's documentation states their source
and how reliable they are. A final state may use a larger share of the budget than an update, so it
always gets through.
"""

import math
from bisect import bisect_left
from collections import deque

from bot.core.platform import ChatLimits

_SECOND_S = 1.0
_MINUTE_S = 60.0
# Share of a group's budget per minute; the rest is reserved for news and urgent requests.
_FOR_UPDATES = 0.7
_FOR_NEWS = 0.8
_FOR_ALL = 0.9  # the remainder is for requests that are not counted here
_CALM_S = 120.0  # a chat without a penalty for this long is trusted again
_SLOWEST = 8.0
_SLOWEST_END = 2.0  # the chat itself says how long an end must wait
_OLD_MESSAGE_S = 300.0  # between edits of a message that the platform restricts because of its age

_FIRST_PAUSE_S = 2.0
_LONGEST_PAUSE_S = 3600.0

HEAD = 11  # the first ten of a queue, and the one about to join them
_HEAD_PATIENCE_S = 0.5
_FURTHER_S = 0.8  # per open job
_LONGEST_PATIENCE_S = 600.0
_FREE_EVERY_S = 0.1  # a chat that accepts requests this close together takes any number of edits
_CROWD = 200  # with more open jobs than this, progress is shown less often


def patience_s(position: int | None, crowd: int) -> float:
    """Return how long a waiting job's message may be out of date, in seconds.

    People watch the head of a queue most. Further back, one position more or less says little and
    the time in the message stays true. All messages there together cost about one edit a second,
    however large `crowd`, the number of open jobs, is.
    """
    if position is None or position <= HEAD:
        return _HEAD_PATIENCE_S
    return min(max(crowd * _FURTHER_S, _HEAD_PATIENCE_S), _LONGEST_PATIENCE_S)


def stretch(crowd: int) -> float:
    """Return the factor by which progress updates are slowed down with many open jobs."""
    return max(1.0, crowd / _CROWD)


def pause_s(failures: int) -> float:
    """Return the backoff after that many consecutive failures, in seconds."""
    return min(_FIRST_PAUSE_S * 2.0 ** min(failures - 1, 30), _LONGEST_PAUSE_S)


def paused_until(since: float, tries: int) -> float:
    """Return when to retry a chat that has failed `tries` times since `since`."""
    return since + sum(pause_s(number) for number in range(1, tries + 1))


class Sent:
    """The requests of one budget: those in flight, and the times at which the others were answered.

    A request counts from its answer, because only then has it certainly arrived, however long it
    was under way. An upload may take minutes and others need not wait for it, so until it is
    answered it counts from its start.
    """

    def __init__(self) -> None:
        self.under_way = 0
        self.answered: deque[float] = deque()

    def begin(self, now: float, *, upload: bool) -> None:
        """Record that a request is being sent."""
        if upload:
            self.answered.append(now)
        else:
            self.under_way += 1

    def end(self, now: float, *, upload_from: float | None, sent: bool = True) -> None:
        """Record that a request was answered or that no answer will come.

        `upload_from` is when an upload started. A request with `sent` false was never made and uses
        no budget.
        """
        if upload_from is None:
            self.under_way -= 1
        else:
            begun = bisect_left(self.answered, upload_from)  # sorted: the clock never goes back
            if begun < len(self.answered) and self.answered[begun] == upload_from:
                del self.answered[begun]
        if sent:
            self.answered.append(now)

    def room_at(self, now: float, most: int, per_s: float) -> float:
        """Return the earliest time for one more request, given `most` in any `per_s` seconds."""
        free = most - self.under_way
        if free <= 0:
            return now + per_s
        return now if len(self.answered) < free else max(now, self.answered[-free] + per_s)

    def forget(self, before: float) -> None:
        """Drop answers older than `before`, but always keep the last one."""
        while len(self.answered) > 1 and self.answered[0] < before:
            self.answered.popleft()


class PlatformRateLimit:
    """The budget of a whole bot, shared by all its chats."""

    def __init__(self, per_s: float) -> None:
        self._most = max(1, int(per_s))
        self._sent = Sent()

    def earliest(self, now: float) -> float:
        """Return the earliest time the budget allows a request."""
        return self._sent.room_at(now, self._most, _SECOND_S)

    def begin(self, now: float, *, upload: bool = False) -> None:
        """Record that a request is being sent."""
        self._sent.begin(now, upload=upload)

    def end(self, now: float, *, upload_from: float | None = None, sent: bool = True) -> None:
        """Record that a request was answered, or was not `sent` after all."""
        self._sent.end(now, upload_from=upload_from, sent=sent)
        self._sent.forget(now - _SECOND_S)


class RateLimit:
    """The budget of one chat."""

    def __init__(self, limits: ChatLimits, *, group: bool) -> None:
        self._limits = limits
        self._per_minute = limits.group_per_minute if group else None
        self._sent = Sent()
        self._updated_at = -math.inf
        self._held_until = 0.0
        self._slowness = 1.0
        self._penalised_at = 0.0

    @property
    def free_answers(self) -> bool:
        """Whether first answers to calls use no budget."""
        return self._limits.free_answers

    def earliest(
        self,
        now: float,
        *,
        urgent: bool,
        burst: bool = False,
        soon: bool = False,
        ending: int = 0,
    ) -> float:
        """Return the earliest time the budget allows a request.

        Ends and first answers are `urgent`. One part of a group's minute is reserved for them and
        another for news to be shown `soon`; other updates are spread over the rest. All requests
        except ends leave room for the `ending` jobs, which may end within seconds. Answers to a
        person's request may come in a `burst`, as far as the platform allows.
        """
        slow = min(self._slow(now), _SLOWEST_END if urgent else _SLOWEST)
        gap_s, most = self._limits.chat_every_s * slow, self._limits.burst
        at = max(now, self._held_until, self._sent.room_at(now, most, most * gap_s))
        if not burst:
            at = max(at, self._sent.room_at(now, 1, gap_s))
        if self._per_minute is None:
            return at
        share = _FOR_ALL if urgent else _FOR_NEWS if soon else _FOR_UPDATES
        left = int(self._per_minute * _FOR_ALL) - ending
        room = max(1, min(int(self._per_minute * share), left))
        at = max(at, self._sent.room_at(now, room, _MINUTE_S))
        if not (urgent or soon):
            at = max(at, self._updated_at + self.turn_s(1))
        return at

    def news_gap_s(self, age_s: float | None) -> float:
        """Return the minimum time before a message of that age shows news, in seconds."""
        return _OLD_MESSAGE_S if self._old(age_s) else self._limits.chat_every_s

    def patience_s(self, position: int | None, crowd: int) -> float:
        """Return how long a waiting job's message may be out of date, in seconds."""
        if self._limits.chat_every_s > _FREE_EVERY_S:
            return patience_s(position, crowd)
        return 0.0 if position is None or position <= HEAD else _HEAD_PATIENCE_S

    def lags(self, position: int | None) -> bool:
        """Return whether a job at that position is updated only from time to time, not at once."""
        return self.patience_s(position, 2) > _HEAD_PATIENCE_S

    def edit_gap_s(self, age_s: float | None) -> float:
        """Return the minimum time between two edits of a message of that age, in seconds."""
        return _OLD_MESSAGE_S if self._old(age_s) else self._limits.edit_every_s

    def _old(self, age_s: float | None) -> bool:
        free_s = self._limits.free_edit_s
        return age_s is not None and free_s is not None and age_s > free_s

    def turn_s(self, messages: int) -> float:
        """Return the interval between edits of each message that gives all messages an equal share.

        Without it, the first messages would use up a group's minute.
        """
        if self._per_minute is None:
            return 0.0
        return messages * _MINUTE_S / (self._per_minute * _FOR_UPDATES)

    def at_rest(self, now: float) -> bool:
        """Return whether the full budget is available, as in a new chat."""
        sent = self._sent
        quiet = not sent.answered or sent.answered[-1] < now - _MINUTE_S
        return quiet and not sent.under_way and self._held_until <= now and self._slow(now) == 1

    def begin(self, now: float, *, upload: bool = False) -> None:
        """Record that a request is being sent."""
        self._sent.begin(now, upload=upload)

    def end(self, now: float, *, upload_from: float | None = None, sent: bool = True) -> None:
        """Record that a request was answered, or was not `sent` after all."""
        self._sent.end(now, upload_from=upload_from, sent=sent)
        self._sent.forget(now - _MINUTE_S)

    def updated(self, now: float) -> None:
        """Record an update that is not urgent."""
        self._updated_at = now

    def slow_down(self, now: float, retry_after_s: float) -> None:
        """Wait out a penalty, and stay slower for a while afterwards."""
        self._held_until = max(self._held_until, now + retry_after_s)
        self._penalised_at = self._held_until
        self._slowness = min(self._slowness * 2, _SLOWEST)

    def _slow(self, now: float) -> float:
        if self._slowness > 1 and now > self._penalised_at + _CALM_S:
            self._slowness = 1.0
        return self._slowness
