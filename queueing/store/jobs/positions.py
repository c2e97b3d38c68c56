"""PositionIndex: the order of all queues, in memory.

It follows committed changes and decides nothing. A position is computed from a queue's dense
sequence of places, so it costs the same at any depth.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence

QueueKey = tuple[str, str]  # model, lane
_BULK, _LATER = "\0bulk", "\0later"


def account_of(owner: str, *, bulk: bool, later: bool = False) -> str:
    """Return the account for an owner's jobs; bulk and deferred jobs have separate ones."""
    if later:
        owner += _LATER
    return owner + _BULK if bulk else owner


_MAX_QUEUES = 1 << 20


class Move:
    """A job's new place: in a queue, in its account's overflow (no `seq`), or none (no `queue`)."""

    __slots__ = ("account", "job_id", "queue", "seq")

    def __init__(
        self, job_id: int, account: str, queue: QueueKey | None = None, seq: int | None = None
    ) -> None:
        self.job_id = job_id
        self.account = account
        self.queue = queue
        self.seq = seq


class WaitingQueue:
    """The places of one queue.

    From `head` on, every place that is not in `holes` is taken. Before `head`, only the places in
    `returned` are taken: jobs that came back after a failed attempt or were moved to the front.
    Both lists are sorted and short, because they hold only the exceptions.
    """

    __slots__ = ("end", "head", "holes", "key", "number", "returned", "revision", "waiting")

    def __init__(self, key: QueueKey, number: int) -> None:
        self.key = key
        self.number = number
        self.head = 0
        self.end = 0  # one after the last place
        self.holes: list[int] = []
        self.returned: list[int] = []
        self.waiting = 0
        self.revision = 0  # incremented by every change: shows whether to read the queue again

    def enter(self, seq: int) -> None:
        """Take a place."""
        if not self.waiting:
            self.head = self.end = seq
            self.holes.clear()
        if seq >= self.end:
            self.holes.extend(range(self.end, seq))
            self.end = seq + 1
        elif seq >= self.head:
            self.holes.pop(bisect_left(self.holes, seq))
        else:
            insort(self.returned, seq)
        self.waiting += 1
        self.revision += 1

    def enter_all(self, seqs: Sequence[int]) -> None:
        """Take several places after the last one, in ascending order."""
        if not self.waiting:
            self.head = self.end = seqs[0]
            self.holes.clear()
        if seqs[-1] + 1 - self.end > len(seqs):
            self.holes.extend(sorted(set(range(self.end, seqs[-1])).difference(seqs)))
        self.end = seqs[-1] + 1
        self.waiting += len(seqs)
        self.revision += 1

    def leave(self, seq: int) -> None:
        """Release a taken place."""
        if seq < self.head:
            self.returned.pop(bisect_left(self.returned, seq))
        elif seq > self.head:
            insort(self.holes, seq)
        else:
            self._advance()
        self.waiting -= 1
        self.revision += 1

    def position(self, seq: int) -> int:
        """Return 1 + the number of taken places before this one."""
        if seq < self.head:
            return bisect_left(self.returned, seq) + 1
        return len(self.returned) + seq - self.head - bisect_left(self.holes, seq) + 1

    def _advance(self) -> None:
        self.head += 1
        gone = 0
        while gone < len(self.holes) and self.holes[gone] == self.head:
            self.head += 1
            gone += 1
        del self.holes[:gone]


class PositionIndex:
    """The places of all waiting jobs."""

    def __init__(self) -> None:
        self._queues: dict[QueueKey, WaitingQueue] = {}
        self._numbered: list[WaitingQueue] = []
        self._of_model: dict[str, list[WaitingQueue]] = {}
        # One integer per waiting job: place x _MAX_QUEUES + the queue's number. A million take 100
        # MB and, unlike tuples, add no work for the garbage collector.
        self._place_of: dict[int, int] = {}
        self._overflow: dict[str, dict[int, QueueKey]] = {}  # by account, oldest first
        self._overflow_of: dict[int, str] = {}

    def queues(self) -> Iterator[WaitingQueue]:
        """Yield the queues that have waiting jobs."""
        return (queue for queue in self._queues.values() if queue.waiting)

    def queues_of(self, model: str) -> Sequence[WaitingQueue]:
        """Return the queues of a model, including empty ones."""
        return self._of_model.get(model, ())

    def find(self, job_id: int) -> tuple[QueueKey, int] | None:
        """Return a job's queue and position, or None if it has no place."""
        place = self._place_of.get(job_id)
        if place is None:
            return None
        seq, number = divmod(place, _MAX_QUEUES)
        queue = self._numbered[number]
        return queue.key, queue.position(seq)

    def move(self, move: Move) -> None:
        """Move a job from its old place, if any, to its new one."""
        place = self._place_of.pop(move.job_id, None)
        if place is not None:
            seq, number = divmod(place, _MAX_QUEUES)
            self._numbered[number].leave(seq)
        elif move.job_id in self._overflow_of:
            self._leave_overflow(move.job_id)
        if move.queue is None:
            return
        if move.seq is None:
            self._overflow.setdefault(move.account, {})[move.job_id] = move.queue
            self._overflow_of[move.job_id] = move.account
            return
        queue = self._queues.get(move.queue) or self._new_queue(move.queue)
        queue.enter(move.seq)
        self._place_of[move.job_id] = move.seq * _MAX_QUEUES + queue.number

    def enter(self, key: QueueKey, job_ids: Sequence[int], seqs: Sequence[int]) -> None:
        """Add jobs to the end of a queue, at ascending places after its last one."""
        queue = self._queues.get(key) or self._new_queue(key)
        queue.enter_all(seqs)
        number = queue.number
        self._place_of.update(
            zip(job_ids, (seq * _MAX_QUEUES + number for seq in seqs), strict=True)
        )

    def stands_back(self, job_id: int) -> bool:
        """Return whether a job waits in its owner's overflow."""
        return job_id in self._overflow_of

    def position(self, job_id: int) -> int | None:
        """Return 1 + the number of jobs ahead, or None if the job is not waiting."""
        found = self.find(job_id)
        if found is not None:
            return found[1]
        account = self._overflow_of.get(job_id)
        return None if account is None else self._position_behind_queue(account, job_id)

    def _position_behind_queue(self, account: str, job_id: int) -> int:
        row = self._overflow[account]
        key = row[job_id]
        queue = self._queues.get(key)
        ahead = queue.waiting if queue else 0
        for other, queue_key in row.items():
            if other == job_id:
                break
            ahead += queue_key == key
        return ahead + 1

    def _new_queue(self, key: QueueKey) -> WaitingQueue:
        queue = self._queues[key] = WaitingQueue(key, len(self._numbered))
        self._numbered.append(queue)
        self._of_model.setdefault(key[0], []).append(queue)
        return queue

    def _leave_overflow(self, job_id: int) -> None:
        account = self._overflow_of.pop(job_id)
        row = self._overflow[account]
        del row[job_id]
        if not row:
            del self._overflow[account]
