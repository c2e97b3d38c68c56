"""A way to a server that takes longer: `python -m benchmarks.delay_proxy HOST PORT MILLISECONDS`.

Prints the port it listens on and forwards to the server until it is ended. What the client says arrives that
much later, whatever was said meanwhile is on its way, too, and answers come at once: so each round trip
takes that much longer, and the rate is not limited.
"""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
_MOST = 1 << 18


@contextmanager
def delayed(url: str, delay_ms: float) -> Iterator[str]:
    """Run the proxy as a process of its own; give the server's address by way of it.

    Without a delay it is the server's own.
    """
    if not delay_ms:
        yield url
        return
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 5432
    command = [sys.executable, "-m", "benchmarks.delay_proxy", host, str(port), str(delay_ms)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            near = int(proxy.stdout.readline())
            account = parts.netloc.rpartition("@")
            yield parts._replace(netloc=f"{account[0]}{account[1]}127.0.0.1:{near}").geturl()
        finally:
            proxy.kill()


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):  # the other direction was first
            end.shutdown(socket.SHUT_RDWR)


def _hear(client: socket.socket, said: "SimpleQueue[tuple[float, bytes]]", delay_s: float) -> None:
    data = b"-"
    while data:
        try:
            data = client.recv(_MOST)
        except OSError:
            data = b""
        said.put((time.monotonic() + delay_s, data))


def _say(
    said: "SimpleQueue[tuple[float, bytes]]", client: socket.socket, server: socket.socket
) -> None:
    with suppress(OSError):
        while True:
            due, data = said.get()
            if not data:
                break
            if (early_s := due - time.monotonic()) > 0:
                time.sleep(early_s)
            server.sendall(data)
    _hang_up(client, server)


def _answer(server: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while data := server.recv(_MOST):
            client.sendall(data)
    _hang_up(client, server)


def main() -> None:
    """Forward connections until the process is ended."""
    host, port, delay_ms = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(listening.getsockname()[1], flush=True)
        while True:
            client, _ = listening.accept()
            server = socket.create_connection((host, port))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            said: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
            for target, arguments in (
                (_hear, (client, said, delay_ms / 1000)),
                (_say, (said, client, server)),
                (_answer, (server, client)),
            ):
                threading.Thread(target=target, args=arguments, daemon=True).start()


if __name__ == "__main__":
    main()
