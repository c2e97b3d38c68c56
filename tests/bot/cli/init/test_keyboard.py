"""`usher init` at a real terminal: what is typed as a token is not shown."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.fakes.ports import port_of
from tests.fakes.process import ROOT

pty = pytest.importorskip("pty", reason="other systems have other terminals")

AS_A_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " os.execv(sys.executable, [sys.executable, '-P', '-m', 'bot', *sys.argv[1:]])"
)
TOKEN = "1234567:canary-that-must-not-be-shown"
ANSWERS = (
    ("Address of another server", ""),
    ("Memory of the card", "8GB"),
    ("Which one do its servers use", ""),
    ("Discord bot token", ""),
    ("Telegram bot token", TOKEN),
    ("Keep this token", "yes"),
    ("Your id on Telegram", "42"),
    ("A systemd unit", "none"),
)
PATIENCE_S = 120.0


class Screen:
    """The other side of a terminal: what is shown, and what is typed."""

    def __init__(self, master: int) -> None:
        self.shown = ""
        self.ended = asyncio.Event()
        self._master = master
        self._unread = 0
        self._changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            self.shown += os.read(self._master, 65536).decode(errors="replace")
        except OSError:  # the last program has closed it
            asyncio.get_running_loop().remove_reader(self._master)
            self.ended.set()
        self._changed.set()

    async def answer(self) -> None:
        """Answer each question as it comes, until the program ends."""
        while not self.ended.is_set():
            new = self.shown[self._unread :]
            for question, given in ANSWERS:
                if question in new and new.rstrip(" ").endswith(":"):
                    self._unread = len(self.shown)
                    os.write(self._master, f"{given}\n".encode())
                    break
            self._changed.clear()
            await self._changed.wait()


async def test_a_token_is_not_shown_while_it_is_typed(tmp_path: Path) -> None:
    """A look over a shoulder, or at a recording of the screen, would be enough to have the bot."""
    nowhere = f"http://127.0.0.1:{port_of(test_a_token_is_not_shown_while_it_is_typed)}"
    master, terminal = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", AS_A_TERMINAL, "init", "-c", str(tmp_path / "config.yaml")),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TELEGRAM_API": nowhere},
    )
    os.close(terminal)
    screen = Screen(master)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await screen.answer()
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(master)
    assert "Telegram could not be asked" in screen.shown
    assert "canary" not in screen.shown
    assert TOKEN in (tmp_path / "usher.env").read_text()
    assert "telegram:42" in (tmp_path / "config.yaml").read_text()
