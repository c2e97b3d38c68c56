"""Calls whose job can never start as things are: refused at once, with what must change."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from backends.demo.backend import Demo
from bot.api.runs import answers, runs
from bot.api.runs.runs import STUCK_LOOKS, Run
from queueing.core.jobs import JobState, stand_in
from queueing.core.snapshot import Reason, WaitCause
from queueing.core.status import Standing
from tests.bot.api.whole_api import CONFIG, Api, running

FULL = CONFIG.replace("vram: 24GB", "vram: 12GB").replace(
    "chats: {}",
    """  mistral:
    backends: [studio]
    capabilities: [text-to-text, text-to-speech]
    vram: 9GB
    load_s: 0.01
    service_s: 0.1
chats: {}""",
)
MESSAGES = [{"role": "user", "content": "What is a cat?"}]
ASKED: dict[str, Any] = {"model": "mistral", "messages": MESSAGES}
CALLS: dict[str, dict[str, Any]] = {
    "/chat/completions": ASKED,
    "/images/generations": {"model": "flux", "prompt": "a fox"},
    "/audio/speech": {"model": "mistral", "input": "a cat", "voice": "x"},
}
PINNED = "llama stays in memory on box until an admin unloads it"
KEPT = "the operator can stop that server, or set a smaller vram for llama"


def standing(why: WaitCause) -> Standing:
    reason = Reason(why=why, model="flux", host="box", other="llama")
    return Standing(job=stand_in(1, "flux", 0.0), shown="pending", reason=reason)


async def refusals(api: Api, told: str) -> None:
    """Have every kind of call refused, and get the reason for a job of the native API."""
    for path, body in CALLS.items():
        async with api.session.post(f"{api.url}{path}", json=body) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (503, "cannot_start"), path
            assert told in error["message"]
            assert answer.headers["x-should-retry"] == "false"
    events, _ = await api.stream("/chat/completions", ASKED)
    assert told in events[-1]["error"]["message"]
    assert not await api.open_jobs()
    job = await api.post("/jobs", {"kind": "chat", **ASKED}, status=202)
    shown = await api.get(f"/jobs/{job['id']}?wait=0.3")
    assert shown["state"] == "pending"
    assert told in shown["reason"]


async def test_no_call_waits_for_a_copy_that_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program would hang for hours, and nobody would learn what is wrong."""
    monkeypatch.setattr(runs, "LOOK_EVERY_S", 0.02)
    async with running(tmp_path, FULL) as api:
        await api.parts.queue.preloads.preload("llama", None)
        await refusals(api, PINNED)


async def test_a_call_waits_after_headers_no_longer_than_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a short `hold_s`, the reason comes in the body; some servers cannot unload at all."""
    monkeypatch.setattr(runs, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(Demo, "can_unload", False)
    early = FULL.replace("  open: true", "  open: true\n  hold_s: 0.01")
    async with running(tmp_path, early) as api:
        await api.post("/chat/completions", {"model": "llama", "messages": MESSAGES})
        async with api.session.post(f"{api.url}/chat/completions", json=ASKED) as answer:
            assert KEPT in (await answer.json())["error"]["message"]
        assert not await api.open_jobs()


def test_only_a_lasting_reason_counts() -> None:
    """A call would be refused just before a measurement shows that there is room."""
    run = Run(stand_in(1, "flux", 0.0))

    def stuck(*reasons: WaitCause) -> bool:
        for why in reasons:
            run.stand(standing(why))
        return run.stuck is not None

    assert not stuck(*[WaitCause.KEPT] * (STUCK_LOOKS - 1), WaitCause.LOADING)
    assert not stuck(*[WaitCause.PINNED] * (STUCK_LOOKS - 1))
    assert stuck(WaitCause.KEPT)
    run.change(replace(run.job, state=JobState.PROCESSING, version=1))
    assert run.stuck is None


def test_who_waits_to_the_end_learns_why() -> None:
    """The error after hours would only be a number."""
    run = Run(stand_in(1, "flux", 0.0))
    run.stand(standing(WaitCause.OFFLINE))
    assert "box is offline" in answers.unfinished(run).message
