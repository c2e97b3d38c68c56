"""The audit log: every act of an admin, with who did what to whom and when."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Act:
    """One act of an admin. `at` is in UNIX seconds."""

    at: float
    actor: str
    action: str
    subject: str
    detail: str = ""


class AuditLog(Protocol):
    """Appends and reads acts; nothing changes one that is written."""

    async def write(self, act: Act) -> None:
        """Record an act; durable when it returns."""

    async def newest(self, limit: int) -> Sequence[Act]:
        """Return the newest acts, newest first."""
