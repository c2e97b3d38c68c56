"""Administration: what admins stop, move and keep in memory."""

from collections.abc import Sequence
from typing import Protocol

from queueing.core.jobs import Job
from queueing.core.paused import Paused
from queueing.core.snapshot import Reason


class QueueAdmin(Protocol):
    """Pauses and lines. Every change is durable before it takes effect.

    Every call raises `Refused` when it names something that does not exist, and `StoreError`.
    """

    async def pause(self, *, model: str | None = None, host: str | None = None) -> Paused:
        """Start and load nothing more of a model, on a host, or (with neither) at all.

        Running work continues to its end, waiting jobs keep their place. Returns everything that is
        paused then. Idempotent.
        """

    async def resume(self, *, model: str | None = None, host: str | None = None) -> Paused:
        """Lift the pause of a model or a host, or (with neither) every pause.

        A model's own pause is lifted even while everything is paused; it stays stopped then.
        Returns what is still paused. Idempotent.
        """

    async def drain(self, host: str) -> None:
        """Pause a host, wait until its running work has ended, and unload every copy.

        Its memory is free then, as far as its servers report; `resume` takes it back. Raises
        `Refused` when it was resumed meanwhile, `Unavailable` when a server does not answer or
        cannot unload; the host stays paused then.
        """

    async def clear(self, model: str) -> list[Job]:
        """Cancel every waiting job of a model, and return them, oldest first."""

    async def move_first(self, job_id: int) -> Job | None:
        """Give a waiting job the first place of its line; None when it does not wait.

        Its lane is kept, and the positions of the jobs it passes rise by one. Idempotent.
        """


class ModelPreloads(Protocol):
    """What is kept in memory at an admin's request. Every call raises `Refused`.

    The problem of an error is what the admin is shown.
    """

    async def preload(self, model: str, host: str | None) -> str:
        """Load a model and pin it; return the backend it is on once it is loaded.

        Idempotent: a copy already there is pinned. Raises `BackendError` when its load failed.
        """

    async def waits_for(self, model: str, host: str | None) -> Reason | None:
        """Return what would keep a preload from beginning now; None if nothing would.

        Raises `StoreError`.
        """

    async def unload(self, model: str, host: str | None) -> Sequence[str]:
        """Unpin a model and unload its copies: busy ones as soon as they are idle, others at once.

        Those that are being loaded leave as soon as that is done.

        Returns the backends it leaves; idle copies have left by then.
        """
