"""Constant work, so that a leading process always has something to write."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress

import aiohttp

FILLER = "filler"
TAKES_S = 0.2
AT_ONCE = 64
TRY_S = 5.0
_HOST = f"""  gpu-of-fillers:
    vram: 24GB
    backends:
      for-fillers: {{kind: demo, load_s: 0.01, service_s: {TAKES_S}}}
models:
  {FILLER}:
    backends: [for-fillers]
    capabilities: [text-to-text]
    vram: 1GB
    parallel: 1
    max_waiting: 100000
"""


def with_filler(config: str) -> str:
    """Return a configuration with an additional host and model."""
    return config.replace("models:\n", _HOST, 1)


async def fill(ports: Sequence[int], count: int) -> None:
    """Put this many jobs into the queue, through whichever process answers."""
    waiting = iter(range(count))
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TRY_S)) as session,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(AT_ONCE):
            group.create_task(_fill(session, ports, waiting))


async def _fill(
    session: aiohttp.ClientSession, ports: Sequence[int], waiting: Iterator[int]
) -> None:
    for number in waiting:
        body = {"model": FILLER, "messages": [{"role": "user", "content": "wait"}]}
        headers = {"Idempotency-Key": f"filler-{number}"}
        accepted = False
        while not accepted:
            for port in ports:
                url = f"http://127.0.0.1:{port}/v1/jobs"
                with suppress(aiohttp.ClientError, TimeoutError):
                    async with session.post(url, json=body, headers=headers) as answer:
                        accepted = answer.status == 202
                if accepted:
                    break
            else:
                await asyncio.sleep(0.2)
