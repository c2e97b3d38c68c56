"""What is to be written next: ended jobs, buckets and segments that have come together since."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bot.monitoring.buckets import MINUTE_S, BucketKey, EndedJob, HostBucket, ModelBucket, beginning
from bot.monitoring.records import Segment
from queueing.core.events import CopyLeft, LoadEnded
from queueing.core.status import Promised


@dataclass(kw_only=True, slots=True)
class HistoryBatch:
    """Collects; the jobs are tallied when they are written, so that none is counted twice."""

    ended: dict[int, EndedJob] = field(default_factory=dict)
    models: dict[BucketKey, ModelBucket] = field(default_factory=dict)
    hosts: dict[BucketKey, HostBucket] = field(default_factory=dict)
    segments: dict[tuple[str, float], Segment] = field(default_factory=dict)
    promises: dict[int, Promised] = field(default_factory=dict)
    kept_promises: set[int] = field(default_factory=set)  # noted ones, of jobs that have ended

    def __bool__(self) -> bool:
        """Whether there is anything to write."""
        return any((self.ended, self.models, self.hosts, self.segments, self.promises))

    def end(self, job: EndedJob) -> None:
        """Add a job that has ended; a second time changes nothing."""
        self.ended.setdefault(job.id, job)

    def turn(self, event: LoadEnded | CopyLeft, now: float) -> None:
        """Add a load or an eviction."""
        minute, of_model, of_host = beginning(now, MINUTE_S), ModelBucket(), HostBucket()
        if isinstance(event, CopyLeft):
            of_model, of_host = replace(of_model, evictions=1), replace(of_host, evictions=1)
        elif event.failed:
            of_model, of_host = replace(of_model, failed_loads=1), replace(of_host, failed_loads=1)
        else:
            of_model = replace(of_model, loads=1, load_s=event.seconds)
            of_host = replace(of_host, loads=1, load_s=event.seconds)
        self._add_model(BucketKey(minute, event.model), of_model)
        for host in event.hosts:
            self._add_host(BucketKey(minute, host), of_host)

    def follow(
        self, host: str, segments: Sequence[Segment], minutes: Mapping[int, HostBucket]
    ) -> None:
        """Add a stretch of a host's timeline."""
        for segment in segments:
            self.segments[host, segment.begins] = segment
        for minute, bucket in minutes.items():
            self._add_host(BucketKey(minute, host), bucket)

    def before(self, earlier: "HistoryBatch") -> None:
        """Put back what could not be written before this."""
        self.ended = earlier.ended | self.ended
        self.segments = earlier.segments | self.segments
        self.promises = earlier.promises | self.promises
        self.kept_promises |= earlier.kept_promises
        for key, model in earlier.models.items():
            self._add_model(key, model)
        for key, host in earlier.hosts.items():
            self._add_host(key, host)

    def _add_model(self, key: BucketKey, bucket: ModelBucket) -> None:
        self.models[key] = self.models.get(key, ModelBucket()).plus(bucket)

    def _add_host(self, key: BucketKey, bucket: HostBucket) -> None:
        self.hosts[key] = self.hosts.get(key, HostBucket()).plus(bucket)
