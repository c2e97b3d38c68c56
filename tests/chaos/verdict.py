"""What a trial showed: breaches of promises, counted from the chats and the servers."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bot.requests.enhancement import DELAY_S
from queueing.planning.retry import LOST_AT_ONCE
from tests.chaos.people.chats import Asked, Chats
from tests.chaos.people.crowd import (
    Crowd,
    NumberOf,
    has_ended,
    replies,
    results,
    strangers,
    was_cancelled,
)
from tests.chaos.people.programs import OnApi


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A job as the database has it."""

    id: int
    number: int
    model: str
    owner: str
    state: str
    acknowledged: bool
    attempt: int
    sendings: int
    queued_at: float
    started_at: float | None
    finished_at: float | None

    @property
    def is_open(self) -> bool:
        """Return whether it waits or runs."""
        return self.state in {"pending", "processing"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """How a model's queue is judged.

    A server works on `at_once` of its jobs at a time. A job may be overtaken during its pause after
    a failed attempt, and while it is `held` for a better prompt. Owners in `overflow` enter a queue
    later than they are accepted: they may be overtaken, and overtake only each other.
    """

    model: str
    at_once: int = 1
    held: bool = False
    overflow: frozenset[str] = frozenset()

    def overtaken(self, rows: Sequence[Row], began: Sequence[tuple[int, float]]) -> Iterator[str]:
        """Yield a sentence for each job that a server began before one accepted earlier."""
        first: dict[int, float] = {}
        for number, at in began:
            first.setdefault(number, at)
        jobs = Counter(row.number for row in rows)  # of one begun again, the first was not first
        waiting = [
            row
            for row in rows
            if row.model == self.model and row.number in first and jobs[row.number] == 1
        ]
        begun: set[int] = set()
        for row in sorted(waiting, key=lambda row: first[row.number]):
            begun.add(row.number)
            ahead = [
                other.number
                for other in waiting
                if other.id < row.id
                and other.number not in begun
                and (other.owner not in self.overflow or other.owner == row.owner)
                and not self._pauses(other, first[row.number])
            ]
            if len(ahead) >= self.at_once:
                yield f"{row.number} began before {ahead} in the queue of {self.model}"

    def _pauses(self, row: Row, at: float) -> bool:
        """Return whether a job could not be started at a moment.

        A server that died before it began with a job knows nothing of the first attempt.
        """
        tried = row.attempt > 1 or row.sendings > LOST_AT_ONCE
        failed = tried and row.started_at is not None and at < row.started_at
        return failed or (self.held and at < row.queued_at + DELAY_S)


@dataclass(kw_only=True)
class Verdict:
    """Every list holds one sentence for each breach of a promise."""

    kills: int
    stops: int
    accepted: int = 0
    lost: list[str] = field(default_factory=list)
    delivered_twice: list[str] = field(default_factory=list)
    regenerated: list[str] = field(default_factory=list)
    wrong_chat: list[str] = field(default_factory=list)
    order_violations: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    recovery_s: list[float] = field(default_factory=list)
    died_at: dict[str, int] = field(default_factory=dict)
    server_kills: int = 0
    second_messages: list[str] = field(default_factory=list)  # a send no one could note
    unheard: int = 0  # Discord calls that came to no one: people are told so at once
    broken_streams: int = 0  # programs were told that the server was lost in the middle
    calls: Mapping[str, int] = field(default_factory=dict)  # of programs, by kind
    servers: Mapping[str, int | None] = field(default_factory=dict)  # what else was counted there

    @property
    def breaches(self) -> list[str]:
        """Return every breach of a promise."""
        return [
            *self.lost,
            *self.delivered_twice,
            *self.regenerated,
            *self.wrong_chat,
            *self.order_violations,
            *self.stuck,
            *self.faults,
        ]

    def as_json(self) -> str:
        """Return the figures as JSON."""
        return json.dumps(self.figures())

    def figures(self) -> dict[str, Any]:
        """Return the figures by name."""
        return {
            "kills": self.kills,
            "stops": self.stops,
            "accepted": self.accepted,
            "lost": len(self.lost),
            "delivered_twice": len(self.delivered_twice),
            "regenerated": len(self.regenerated),
            "wrong_chat": len(self.wrong_chat),
            "order_violations": len(self.order_violations),
            "stuck": len(self.stuck),
            "recovery_s_p50": round(median(self.recovery_s), 2) if self.recovery_s else None,
            "other_faults": len(self.faults),
            "server_kills": self.server_kills,
            "second_messages": len(self.second_messages),
            "unheard": self.unheard,
            "broken_streams": self.broken_streams,
            **self.servers,
            "calls": dict(sorted(self.calls.items())),
            "died_at": dict(sorted(self.died_at.items())),
        }

    # ------------------------------------------------------------ what the chats show

    def judge_chats(
        self, crowd: Crowd, chats: Sequence[Chats], rows: Sequence[Row], number_of: NumberOf
    ) -> None:
        """Compare what the chats show with what was accepted."""
        by_number = {row.number: row for row in rows}
        crowd.count_out({row.number: row.id for row in rows})
        self.accepted, self.unheard = len(crowd.asked), crowd.unheard
        for request in crowd.asked:
            self._judge(request, by_number.get(request.number), number_of)
        self.faults += accepted_twice(rows)
        self.wrong_chat += strangers(chats, crowd.asked, number_of)
        self.order_violations += _out_of_turn(crowd.asked, by_number)

    def judge_programs(self, programs: OnApi) -> None:
        """Count what programs found wrong with their answers."""
        self.faults += programs.broke_down()
        self.broken_streams, self.calls = programs.broken, programs.kinds

    def count_outages(self, kills: int) -> None:
        """Record how often servers died; no stream may break off without that."""
        self.server_kills = kills
        if self.broken_streams and not kills:
            self.faults.append("streams were broken off though no server died")

    def _judge(self, request: Asked, row: Row | None, number_of: NumberOf) -> None:
        shown = results(request, number_of)
        told = replies(request)
        if len(told) > 1:
            self.second_messages.append(f"{request.number} in {request.chat}: {told}")
        if len(shown) > 1:
            self.delivered_twice.append(f"{request.number} was shown {len(shown)} times")
        if not has_ended(request, number_of):
            under_way = row is not None and (row.is_open or not row.acknowledged)
            kind = self.stuck if under_way else self.lost
            kind.append(f"{request.number} ({request.model}) in {request.chat}: {row}, {told[-1:]}")
        elif shown and was_cancelled(request) and row and row.state == "cancelled":
            self.delivered_twice.append(f"{request.number} was shown and cancelled")


def accepted_twice(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a sentence for each request that became a job while its earlier job still existed.

    A job that failed or was cancelled cannot be continued: a retry without a key asks for another
    try, and begins again.
    """
    before: dict[int, Row] = {}
    for row in rows:
        earlier = before.get(row.number)
        if earlier is not None and not _is_over(earlier, row.queued_at):
            yield f"{row.number} was accepted twice: {earlier}, {row}"
        before[row.number] = row


def _is_over(row: Row, at: float) -> bool:
    """Return whether a job had ended without a result at a moment."""
    ended = row.finished_at is not None and row.finished_at <= at
    return ended and row.state in {"failed", "cancelled"}


def _out_of_turn(asked: Sequence[Asked], rows: Mapping[int, Row]) -> Iterator[str]:
    """Yield a queue where a person's later request was accepted before their earlier one."""
    latest: dict[str, Row] = {}
    for request in asked:
        row, earlier = rows.get(request.number), latest.get(request.chat)
        if row is None:
            continue
        if earlier is not None and row.id < earlier.id:
            yield f"{request.number} was accepted before {earlier.number} in {request.chat}"
        latest[request.chat] = row
