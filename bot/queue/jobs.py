"""Reading jobs: what was accepted, from whom, with what, and its outcome."""

from typing import Protocol

from queueing.core.storage import AcceptedJobs, GpuReader


class JobReader(AcceptedJobs, GpuReader, Protocol):
    """Reads stored jobs. Every call raises `StoreError` when the database fails."""
