"""A start is quick however many jobs wait: it reads what it needs, not every queue whole."""

from pathlib import Path

import pytest

from queueing.core.jobs import Job
from queueing.store.jobs.job_store import JobStore
from tests.bot.whole_bot import on_telegram
from tests.fakes.telegram.telegram import FakeTelegram

TEXT = """
hosts: {home: {vram: 24GB, backends: {here: {kind: demo, load_s: 0.1, service_s: 0.1}}}}
chats: {telegram: {token: "${TELEGRAM_TOKEN}", api_url: "${TELEGRAM_API}"}}
metrics: {port: 0}
"""


async def test_no_part_reads_every_waiting_job_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a million waiting jobs the bot took 25 s and 2.5 GB to start."""
    read, open_jobs = list[str | None](), JobStore.open_jobs

    async def noted(self: JobStore, owner: str | None = None) -> list[Job]:
        read.append(owner)
        return await open_jobs(self, owner)

    monkeypatch.setattr(JobStore, "open_jobs", noted)
    async with FakeTelegram() as fake:
        person = fake.person(7)
        person.says("/ask why is the sky blue")
        async with on_telegram(fake, tmp_path, TEXT):
            await fake.wait_for(lambda: any("sky" in each.shown for each in person.chat.from_bot))
    assert None not in read
