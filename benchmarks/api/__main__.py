"""Compares the HTTP API with the server behind it, in the same run.

`python -m benchmarks.api [--json] [--tokens 1000] [--llama-cpp URL]`: a stand-in server, Usher and this
client run as three processes, and each call passes through all of Usher: admission without a key,
durable acceptance and the queue. Calls to the server and calls through Usher take turns. Keys of the JSON:

- `ttft_ms`: the median time to the first word, of calls that begin evenly over time, while 1, 8 or 64
  streams of 50 tokens a second are open; {"direct": {"1", "8", "64"}, "usher": {…}}.
- `tokens_per_s`: the rate of all streams together, if the server writes as fast as it is read; likewise.
- `requests_per_s`: short answers, with 50 callers.
- `embeddings_per_s`: single texts of a document, each in a separate call, with 50 callers and vectors of
  1024 numbers; {"direct", "usher"}.
- `batch_per_s`: texts of a document that is sent as one call of 1000, as OpenAI's packages ask for it
  (base64), one call after the other; {"direct", "usher"}.
- `rss_mb`: the memory of Usher with 500 streams waiting in the queue.
- `llama_cpp`: `ttft_ms` and `tokens_per_s` of the llama.cpp server at that address and its first model,
  as fast as it writes; null without one.

Without `--json`, `cpu_us_per_token` is printed as well: the processor time of Usher over all streams
of `tokens_per_s`.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.api.client import Client
from benchmarks.figures import medians, show
from benchmarks.processes import cpu_s, process, usher
from tests.fakes.ports import free_port

STREAMS = (1, 8, 64)
ROUNDS = 3
PROBES = 12  # in each round
PROBE_EVERY_S = 0.1124  # no multiple of the 20 ms between two tokens, so probes meet all phases
SPREAD_S = 0.02
CALLERS = 50
SHORT_S = 5.0
BATCH = 1000
BATCHES = 9
WAITING = 500
REAL_TOKENS = 64
TEXTS = "capabilities: [text-to-text], vram: 1GB"
CONFIG = """
hosts:
  box: {{vram: 24GB, backends: {{server: {{kind: openai, url: "{server}", parallel: 256}}}}}}
models: {{{models}}}
limits: {{open_per_person: 2000, queued_per_person: 2000, embeddings_open: 2000}}
chats: {{}}
api: {{port: {usher}, open: true}}
"""
STAND_IN = f"""
  fast: {{backends: [server], {TEXTS}, parallel: 256}},
  paced: {{backends: [server], {TEXTS}, parallel: 256}},
  held: {{backends: [server], {TEXTS}, parallel: 1, max_waiting: 2000}},
  words: {{backends: [server], capabilities: [embedding], vram: 1GB, parallel: 256}}
"""
REAL = f"""
  real: {{model: "MODEL", backends: [server], {TEXTS}, parallel: 256}}
"""
TEXT = "The cat sleeps on the warm sofa while it rains outside."
Figure = Callable[..., Awaitable[float]]


async def tokens_per_s(client: Client, streams: int, tokens: int) -> float:
    """Return the rate of all streams together."""
    began = time.perf_counter()
    words = await asyncio.gather(*(client.read(client.fast, tokens) for _ in range(streams)))
    return sum(words) / (time.perf_counter() - began)


async def ttft_ms(client: Client, streams: int) -> float:
    """Return the median time to the first word while that many streams are open."""
    others = []
    for _ in range(streams - 1):
        others.append(asyncio.create_task(client.go_on()))
        await asyncio.sleep(SPREAD_S / streams)  # their tokens come evenly over time, too
    await asyncio.sleep(1.0)
    waits = []
    for _ in range(PROBES):
        waits.append(asyncio.create_task(client.first_word_ms()))
        await asyncio.sleep(PROBE_EVERY_S)
    found = await asyncio.gather(*waits)
    for other in others:
        other.cancel()
    for failed in await asyncio.gather(*others, return_exceptions=True):
        if not isinstance(failed, asyncio.CancelledError):
            raise SystemExit(f"a stream ended: {failed!r}")
    return statistics.median(found)


async def in_turns(clients: Mapping[str, Client], figure: Figure, rounds: int) -> Any:
    """Return a figure by client: the median of rounds in which the clients take turns."""
    found = [{name: await figure(each) for name, each in clients.items()} for _ in range(rounds)]
    return medians(found)


async def by_streams(clients: Mapping[str, Client], figure: Figure) -> dict[str, dict[str, float]]:
    """Return a figure by client and number of streams."""
    found = {
        streams: await in_turns(clients, partial(figure, streams=streams), ROUNDS)
        for streams in STREAMS
    }
    return {name: {str(n): each[name] for n, each in found.items()} for name in clients}


async def requests_per_s(client: Client) -> float:
    """Return how many short answers the callers get per second."""
    return await _calls_per_s(lambda: client.read(client.fast, 1), SHORT_S)


async def embeddings_per_s(client: Client) -> float:
    """Return how many texts the callers get embedded per second."""
    return await _calls_per_s(partial(client.embed, f"{TEXT} " * 18), SHORT_S / ROUNDS)


async def batch_per_s(client: Client) -> float:
    """Return how many texts of a large call are embedded per second."""
    began = time.perf_counter()
    await client.embed([TEXT] * BATCH, encoding_format="base64")
    return BATCH / (time.perf_counter() - began)


async def _calls_per_s(call: Callable[[], Awaitable[object]], during_s: float) -> float:
    began, done = time.perf_counter(), 0

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() < began + during_s:
            await call()
            done += 1

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return done / (time.perf_counter() - began)


async def rss_mb(client: Client, pid: int) -> float:
    """Return the memory of Usher while five hundred streams wait."""
    async with AsyncExitStack() as stack:
        opened = (stack.enter_async_context(client.opened("held", 1)) for _ in range(WAITING + 1))
        await asyncio.gather(*opened)
        await asyncio.sleep(3.0)  # by then, every stream has sent comments
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")  # noqa: ASYNC240
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def both(clients: Mapping[str, Client], tokens: int) -> dict[str, Any]:
    """Return the figures that are compared."""
    rate = partial(tokens_per_s, tokens=tokens)
    return {
        "ttft_ms": await by_streams(clients, ttft_ms),
        "tokens_per_s": await by_streams(clients, rate),
    }


@asynccontextmanager
async def compared(
    server: str, model: str | None = None
) -> AsyncIterator[tuple[dict[str, Client], int]]:
    """Run Usher in front of a server, the stand-in or one with a real model; give both clients.

    Also gives the id of Usher's process.
    """
    models = STAND_IN if model is None else REAL.replace("MODEL", model)
    port = free_port()
    config = CONFIG.format(server=server, models=models, usher=port)
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    with tempfile.TemporaryDirectory() as folder, usher(Path(folder), config) as running:
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            direct, usher_ = Client(session, server), Client(session, f"http://127.0.0.1:{port}")
            if model is not None:
                direct = replace(direct, paced=model, fast=model, long=REAL_TOKENS)
                usher_ = replace(usher_, paced="real", fast="real", long=REAL_TOKENS)
            clients = {"direct": direct, "usher": usher_}
            for client in clients.values():
                await client.up()
                await client.read(client.fast, 10)
            yield clients, running.pid


async def of_stand_in(tokens: int) -> tuple[dict[str, Any], float]:
    """Return all figures of the stand-in, and the processor time of Usher per token in µs."""
    port = free_port()
    with process("-m", "benchmarks.api.server", str(port)):
        async with compared(f"http://127.0.0.1:{port}") as (clients, usher_pid):
            figures = await both(clients, tokens)
            before = cpu_s(usher_pid)
            await tokens_per_s(clients["usher"], max(STREAMS), tokens)
            used_us = (cpu_s(usher_pid) - before) * 1e6 / (max(STREAMS) * tokens)
            figures["requests_per_s"] = await requests_per_s(clients["usher"])
            figures["embeddings_per_s"] = await in_turns(clients, embeddings_per_s, ROUNDS)
            figures["batch_per_s"] = await in_turns(clients, batch_per_s, BATCHES)
            figures["rss_mb"] = await rss_mb(clients["usher"], usher_pid)
    return figures, used_us


async def of_llama_cpp(server: str) -> dict[str, Any]:
    """Return the compared figures of a real server."""
    async with aiohttp.ClientSession() as session:
        model = (await Client(session, server).up())[0]
    async with compared(server, model) as (clients, _):
        return await both(clients, REAL_TOKENS)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser("benchmarks.api", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--tokens", type=int, default=1000, help="number of tokens of each stream")
    parser.add_argument("--llama-cpp", metavar="URL", help="the address of a llama.cpp server")
    options = parser.parse_args(arguments)
    figures, used_us = asyncio.run(of_stand_in(options.tokens))
    address = options.llama_cpp
    figures["llama_cpp"] = asyncio.run(of_llama_cpp(address.rstrip("/"))) if address else None
    shown = figures if options.json else {**figures, "cpu_us_per_token": used_us}
    show(shown, as_json=options.json)


if __name__ == "__main__":
    main()
