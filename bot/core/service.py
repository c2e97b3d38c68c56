"""The queue as a whole, for the few users that need several of its parts."""

from typing import Protocol

from bot.core.queue import (
    Deliveries,
    JobEraser,
    JobReader,
    JobSubmitter,
    ModelPreloads,
    ModelReader,
    QueueAdmin,
    QueueEvents,
    QueueStatus,
)


class QueueService(Protocol):
    """Everything the bot asks of the queue. Awaited calls raise only `QueueError`s.

    `queueing.service.job_queue.JobQueue` implements it in this process. The contract is in
    `tests/contracts/queue/test_queue_service.py`.
    """

    @property
    def submitter(self) -> JobSubmitter:
        """Accepts, changes and cancels jobs."""

    @property
    def jobs(self) -> JobReader:
        """Reads jobs."""

    @property
    def deliveries(self) -> Deliveries:
        """Lists jobs to deliver."""

    @property
    def models(self) -> ModelReader:
        """Reports what can be requested."""

    @property
    def status(self) -> QueueStatus:
        """Reports the state of jobs, models, servers and hosts."""

    @property
    def admin(self) -> QueueAdmin:
        """Pauses hosts and models, and changes queues."""

    @property
    def preloads(self) -> ModelPreloads:
        """Keeps models in memory."""

    @property
    def erasure(self) -> JobEraser:
        """Deletes jobs permanently."""

    @property
    def events(self) -> QueueEvents:
        """Announces changes and progress."""
