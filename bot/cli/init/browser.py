"""Opens the page in the operator's browser as soon as it is served."""

import socket
import threading
import time
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

TRY_EVERY_S = 0.2
GIVE_UP_S = 60.0


@contextmanager
def opening(page: str) -> Iterator[None]:
    """Open an address in the browser once its server accepts connections, while the block runs."""
    ended = threading.Event()
    threading.Thread(target=_open, args=(page, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _open(page: str, ended: threading.Event) -> None:
    parts = urlsplit(page)
    server = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    give_up_at = time.monotonic() + GIVE_UP_S
    while time.monotonic() < give_up_at and not ended.wait(TRY_EVERY_S):
        try:
            socket.create_connection(server, timeout=1.0).close()
        except OSError:
            continue
        webbrowser.open(page)  # does nothing without a browser; the address was printed
        return
