"""Jobs of programs that may wait for everything else, and calls that wait too long."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from queueing.core.jobs import LATER
from tests.bot.api.whole_api import CONFIG, running

SLOW = CONFIG.replace("service_s: 0.1", "service_s: 60") + "waiting: {api: 2s}\n"


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "image", "prompt": "a cat", "model": "flux"},
        {"messages": [{"role": "user", "content": "hi"}], "model": "llama"},
    ],
    ids=["image", "chat"],
)
async def test_a_job_of_a_program_may_run_later(tmp_path: Path, body: dict[str, Any]) -> None:
    """A night's batch would run before people's jobs, or miss its moment."""
    async with running(tmp_path, CONFIG) as api:
        whens: list[dict[str, Any]] = [
            {},
            {"later": True},
            {"by": "2999-01-01T08:00:00+02:00"},
        ]
        found = []
        for when in whens:
            made = await api.post("/jobs", {**body, **when}, status=202)
            found.append(await api.parts.queue.jobs.get(made["id"]))
        due_at = datetime.fromisoformat("2999-01-01T08:00:00+02:00").timestamp()
        assert [(job.lane, job.due_at) for job in found if job is not None] == [
            ("normal", None),
            (LATER, None),
            (LATER, due_at),
        ]
        await api.post("/jobs", {**body, "by": "8:00"}, status=400)


async def test_a_call_whose_job_does_not_begin_in_time_gets_504(tmp_path: Path) -> None:
    """A program would wait for hours for an outdated result, or take the wait for a bug."""
    async with running(tmp_path, SLOW) as api:
        await api.parts.queue.admin.pause(model="llama")
        said = [{"role": "user", "content": "hi"}]
        body = {"model": "llama", "messages": said}
        error = (await api.post("/chat/completions", body, status=504))["error"]
        assert error["code"] == "waited"
        assert "without starting" in error["message"]
