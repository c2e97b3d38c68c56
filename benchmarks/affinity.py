"""How soon a long conversation goes on at the server that remembers it, and how soon at another.

`python -m benchmarks.affinity [--json] [--tokens 8000] [--rounds 3] URL URL`: two text servers with
the same model (two `llama-server`, each on a port of its own). A conversation grows to that many
tokens in five turns. The first server is busy with another person during the first four, so the
second answers; at the fifth both are free. Real queue, store, router and backends in this process;
rounds with the rule and without it take turns, each with a conversation of its own. Keys of the JSON:
`first_word_s` and `first_word_s_without` (medians, from the acceptance of the fifth question to
the first word of its answer), `same_server` and `same_server_without` (shares of fifth answers that came
from the second server), `tokens`, `rounds`.
"""

import argparse
import asyncio
import itertools
import json
import logging
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a plain script, too

import httpx

from backends.registry import connect
from queueing.core.catalog import BackendSpec, HostSpec, ModelSpec
from queueing.core.events import Event, JobChanged, Progressed
from queueing.core.jobs import Job, JobState, NewJob
from queueing.core.requests import Chat, ChatMessage
from queueing.core.world import Residency
from tests.processes.installation import Installation, installation, until

TURNS = 5
NAMES = ("one", "two")
WORDS = ("river", "stone", "lantern", "winter", "harbour", "copper", "garden", "signal", "valley")


@dataclass
class Ear:
    """Hears when each job is first given words."""

    first_at: dict[int, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def on_event(self, event: Event) -> None:
        """Take an event of the queue."""
        match event:
            case Progressed(job_id=job_id, progress=progress) if progress.text:
                self.first_at.setdefault(job_id, time.perf_counter())
            case JobChanged(job=job) if job.state.final:
                self.first_at.setdefault(job.id, time.perf_counter())
        self.changed.set()

    async def begun(self, job: Job) -> float:
        """Return when a job had its first words, or ended without any."""
        while job.id not in self.first_at:
            self.changed.clear()
            await self.changed.wait()
        return self.first_at[job.id]


class Talking:
    """Holds conversations on a queue with two servers."""

    def __init__(self, running: Installation, model: str, chars: int) -> None:
        self._installation = running
        self._model = model
        self._chars = chars
        self._numbers = itertools.count(1)
        self._ear = Ear()
        running.queue.events.subscribe(self._ear.on_event)

    async def hold(self, number: int, *, remembered: bool) -> tuple[float, str | None]:
        """Hold a conversation; return the fifth answer's wait for its first word, and its server."""
        lots = random.Random(number)
        said: list[ChatMessage] = []
        last: Job | None = None
        waited_s = 0.0
        for turn in range(1, TURNS + 1):
            await until(self._idle)  # a cancelled answer leaves its server a moment later
            other = await self._occupy() if turn < TURNS else None
            said.append(ChatMessage(role="user", text=_words(lots, self._chars // TURNS)))
            by = last.backend if last is not None and remembered else None
            began = time.perf_counter()
            (asked,) = await self._installation.submit(self._question(said, 8, remembered_by=by))
            waited_s = await self._ear.begun(asked) - began
            (last,) = await self._installation.ends.of([asked])
            if last.state is not JobState.COMPLETED:
                raise RuntimeError(last.error)
            output = await self._installation.queue.jobs.output(last)
            said.append(ChatMessage(role="assistant", text=output.text if output else ""))
            if other is not None:
                await self._installation.queue.submitter.cancel(other.id)
                await self._installation.ends.of([other])
        return waited_s, last.backend if last else None

    def _idle(self) -> bool:
        """Return whether both servers are free."""
        (model,) = self._installation.queue.status.snapshot().models
        return not any(copy.running for copy in model.copies)

    async def _occupy(self) -> Job:
        """Keep the first server busy with another person's endless question."""
        said = [ChatMessage(role="user", text="Tell me everything.")]
        (job,) = await self._installation.submit(
            self._question(said, 100_000, remembered_by=NAMES[0])
        )
        await self._ear.begun(job)
        return job

    def _question(
        self, said: Sequence[ChatMessage], most: int, *, remembered_by: str | None
    ) -> NewJob:
        return NewJob(
            model=self._model,
            request=Chat(messages=tuple(said), max_tokens=most),
            owner="bench:1",
            key=f"bench:{next(self._numbers)}",
            remembered_by=remembered_by,
        )


def _words(lots: random.Random, chars: int) -> str:
    words: list[str] = []
    while sum(map(len, words)) + len(words) < chars:
        words.append(lots.choice(WORDS))
    return " ".join(words)


async def chars_per_token(url: str) -> float:
    """Return how many characters of our words make a token; four where the server cannot tell."""
    text = _words(random.Random(0), 2000)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.post(f"{url}/tokenize", json={"content": text})
    if answer.is_success and (tokens := answer.json().get("tokens")):
        return len(text) / len(tokens)
    return 4.0


async def offered(url: str) -> ModelSpec:
    """Return the first model a server offers."""
    backend = connect(BackendSpec(name=NAMES[0], kind="openai", url=url))
    try:
        return (await backend.discover())[0]
    finally:
        await backend.aclose()


async def measure(urls: Sequence[str], tokens: int, rounds: int) -> dict[str, float]:
    """Return the figures of one run."""
    model = replace(await offered(urls[0]), backends=NAMES, parallel=1, vram_mb=1000)
    hosts = [
        HostSpec(
            name=f"host-{name}",
            vram_mb=8000,
            backends=(BackendSpec(name=name, kind="openai", url=url),),
        )
        for name, url in zip(NAMES, urls, strict=True)
    ]
    chars = int(tokens * await chars_per_token(urls[0]))
    waits: dict[bool, list[float]] = {True: [], False: []}
    stayed: dict[bool, list[bool]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        async with installation(Path(folder), hosts, [model]) as running:
            for host in hosts:
                await running.queue.preloads.preload(model.name, host.name)
            await until(lambda: _ready(running) == len(NAMES))
            talking = Talking(running, model.name, chars)
            for number in range(rounds * 2):
                remembered = number % 2 == 0
                waited_s, backend = await talking.hold(number, remembered=remembered)
                waits[remembered].append(waited_s)
                stayed[remembered].append(backend == NAMES[1])
    return {
        "first_word_s": statistics.median(waits[True]),
        "first_word_s_without": statistics.median(waits[False]),
        "same_server": statistics.mean(stayed[True]),
        "same_server_without": statistics.mean(stayed[False]),
        "tokens": tokens,
        "rounds": rounds,
    }


def _ready(running: Installation) -> int:
    (model,) = running.queue.status.snapshot().models
    return sum(copy.residency is Residency.READY for copy in model.copies)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--tokens", type=int, default=8000, help="of the whole conversation")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("urls", nargs="*", metavar="URL", help="of two servers with one model")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING)
    if len(options.urls) != len(NAMES):
        print("Skipped: it takes the addresses of two text servers with the same model.")
        return
    measured = asyncio.run(measure(options.urls, options.tokens, options.rounds))
    figures = {name: round(value, 3) for name, value in measured.items()}
    print(
        json.dumps(figures) if options.json else "\n".join(f"{k} {v}" for k, v in figures.items())
    )


if __name__ == "__main__":
    main()
