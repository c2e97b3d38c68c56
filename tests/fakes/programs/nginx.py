"""A real nginx in front of servers on this machine, where it is installed."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.fakes.ports import free_port

NOT_INSTALLED = "nginx is not installed here (Debian: apt install nginx-light), so not tried"
CLIENT = "X-Test-Client"
"""The header by which a request says from which address nginx sees it come."""
_SETTINGS = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder};
  proxy_temp_path {folder};
  fastcgi_temp_path {folder};
  uwsgi_temp_path {folder};
  scgi_temp_path {folder};
  set_real_ip_from 127.0.0.1;
  real_ip_header {client};
  server {{
    listen 127.0.0.1:{port};
    {places}
  }}
}}
"""
PATIENCE_S = 30.0


def program() -> str | None:
    """Return the path of nginx, or None where it is not installed."""
    return shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")


@contextmanager
def before(places: Mapping[str, tuple[int, str]]) -> Iterator[int]:
    """Pass each path on to a port, with additional lines of settings; yield nginx's own port."""
    found = program()
    assert found is not None
    port = free_port()
    passed = "\n".join(
        f"location /{name}/ {{ {lines} proxy_set_header {CLIENT} ''; "
        f"proxy_pass http://127.0.0.1:{to}/; }}"
        for name, (to, lines) in places.items()
    )
    with tempfile.TemporaryDirectory(prefix="usher-nginx-") as folder:
        text = _SETTINGS.format(folder=folder, port=port, client=CLIENT, places=passed)
        settings = Path(folder) / "nginx.conf"
        settings.write_text(text, encoding="utf-8")
        running = subprocess.Popen([found, "-p", folder, "-c", str(settings)])
        try:
            _wait_for(port, running)
            yield port
        finally:
            running.terminate()
            running.wait(timeout=PATIENCE_S)


def _wait_for(port: int, running: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends and running.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise AssertionError("nginx did not start")
