"""The queue as a whole: its parts, for the few users that need several of them."""

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
    """Everything the bot asks of the queue; awaited calls raise `QueueError`s only.

    The queue in this process is one implementation, `queueing.service.job_queue.JobQueue`. Its
    promises are in `tests/contracts/queue/test_queue_service.py`.
    """

    @property
    def submitter(self) -> JobSubmitter:
        """Accepts, changes and cancels jobs."""

    @property
    def jobs(self) -> JobReader:
        """Reads jobs."""

    @property
    def deliveries(self) -> Deliveries:
        """Lists what is to be delivered."""

    @property
    def models(self) -> ModelReader:
        """Knows what can be requested."""

    @property
    def status(self) -> QueueStatus:
        """Reports where everything stands."""

    @property
    def admin(self) -> QueueAdmin:
        """Stops and moves."""

    @property
    def preloads(self) -> ModelPreloads:
        """Keeps models in memory."""

    @property
    def erasure(self) -> JobEraser:
        """Deletes for good."""

    @property
    def events(self) -> QueueEvents:
        """Announces what happens."""
