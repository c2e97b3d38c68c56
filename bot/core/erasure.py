"""Erasure: deleting for good what is stored of a person's jobs."""

from typing import Protocol


class JobEraser(Protocol):
    """Deletes jobs."""

    async def forget(self, owner: str, job_ids: frozenset[int] | None = None) -> int:
        """Cancel and really delete a person's jobs, or only those named; return how many.

        Rows, requests, inputs, outputs and all references to a job are removed from the database
        and its log, their bytes overwritten; jobs made for one of them are deleted too. Not reached
        are earlier backups, what the file system or disk keeps of overwritten blocks, what a
        picture or text server has stored itself, and the learned times, which name no person.
        Raises `StoreError`; calling again then deletes the rest.
        """
