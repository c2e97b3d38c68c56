"""The demo without a page: what a newcomer and a script see of it."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bot import demo
from bot.demo_options import DemoOptions

ROOT = Path(__file__).parents[2]


def said(out: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """Run the demo with those lines, much faster than real servers."""
    words = [word for line in lines for word in ("--say", line)]
    return subprocess.run(
        [sys.executable, "-m", "bot", "demo", "--speed", "100", "--out", str(out), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_transcript_shows_each_line_its_answers_and_saves_the_pictures(tmp_path: Path) -> None:
    """A newcomer without a browser would see nothing, or a script not learn how it ended."""
    done = said(tmp_path, "/image=sdxl=cat", "/ask why", "/nonsense", "/image flux --steps 9999 x")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert "> /image=sdxl=cat\n" in done.stdout
    assert "\n[1] cat\n    sdxl · " in done.stdout
    assert "There is no command /nonsense." in done.stdout
    assert "--steps must be between 1 and 150." in done.stdout
    (picture,) = tmp_path.glob("1-*.png")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert str(picture) in done.stdout


def test_what_people_type_cannot_steer_a_terminal(tmp_path: Path) -> None:
    """Controls and direction marks in a prompt would rewrite what stands on the screen."""
    done = said(tmp_path, "/image sdxl a\x1b[2J cat\u202e\u0007")
    answers = [line for line in done.stdout.splitlines() if not line.startswith(">")]
    assert answers
    assert not any(mark in line for line in answers for mark in ("\x1b", "\u202e", "\u0007"))


def test_a_port_that_is_taken_does_not_keep_a_newcomer_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The very first command would end with "address already in use"."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setattr(demo, "USUAL_PORT", other.getsockname()[1])
        web = demo.demo_config(DemoOptions()).chats.web
        assert web is not None
        assert web.port == 0
    freed = demo.demo_config(DemoOptions()).chats.web
    assert freed is not None
    assert freed.port == demo.USUAL_PORT
