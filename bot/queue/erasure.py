"""Erasure: deleting for good what is stored of a person's jobs."""

from typing import Protocol


class JobEraser(Protocol):
    """Deletes jobs."""

    async def forget(self, owner: str, job_ids: frozenset[int] | None = None) -> int:
        """Cancel and really delete a person's jobs, or only those named; return how many.

        Rows, requests, inputs, outputs and whatever refers to a job are gone from the database
        and its log, their bytes overwritten; jobs made for one of them go with it. Not reached are
        backups made before, what the file system or disk keeps of overwritten blocks, what a
        server of pictures or texts has stored itself, and the learned times, which name nobody.
        Raises `StoreError`; asking again then deletes the rest.
        """
