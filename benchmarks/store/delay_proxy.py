"""A longer way to a server: `python -m benchmarks.store.delay_proxy HOST PORT MILLISECONDS`.

Prints the port it listens on and forwards to the server until it is killed. Whatever the client sends
arrives that much later, and answers come back at once. Each round trip takes that much longer, and the
rate has no limit.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from benchmarks.processes import ROOT

_MOST = 1 << 18


@contextmanager
def delayed(url: str, delay_ms: float) -> Iterator[str]:
    """Run the proxy as a process; give the server's address by way of it, or its own without a delay."""
    if not delay_ms:
        yield url
        return
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 5432
    command = [sys.executable, "-m", "benchmarks.store.delay_proxy", host, str(port), str(delay_ms)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            near = int(proxy.stdout.readline())
            account, at, _ = parts.netloc.rpartition("@")
            yield parts._replace(netloc=f"{account}{at}127.0.0.1:{near}").geturl()
        finally:
            proxy.kill()


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float
) -> None:
    """Pass on what arrives, and then its end, that much later."""
    loop = asyncio.get_running_loop()
    with suppress(OSError):
        while data := await reader.read(_MOST):
            loop.call_later(delay_s, writer.write, data)
    loop.call_later(delay_s, writer.close)


async def _serve(host: str, port: int, delay_s: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, server = await asyncio.open_connection(host, port)
        await asyncio.gather(_forward(reader, server, delay_s), _forward(answers, writer, 0.0))

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]) / 1000))
