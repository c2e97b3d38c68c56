"""The demo: what a newcomer and a script see of it."""

import asyncio
import os
import socket
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backends.common.file_types import mime_of
from backends.media import videos
from bot.cli import main as cli
from bot.cli.demo import demo
from bot.cli.demo.crowd import Crowd
from bot.cli.demo.demo import database_of, kept_path
from bot.cli.demo.options import DemoOptions
from bot.cli.demo.transcript import Transcript, display
from bot.core.content import Content
from bot.core.platform import MessageRef
from queueing.core.errors import StoreError
from queueing.core.requests import File
from queueing.store.sqlite.file_lock import own
from tests.bot.platforms.web.web_client import opened
from tests.fakes.terminal import FakeTty

ROOT = Path(__file__).parents[4]
WAIT_S = 60.0
STEERING = "/image --steps 9999 a\x1b[2J cat\u202e\u0007"
DEMO = """
import sys
from bot.cli.main import main
from tests.fakes.media_helper import lighten
lighten()
sys.exit(main(["demo", *sys.argv[1:]]))
"""


@asynccontextmanager
async def demo_page(state: Path, *words: str) -> AsyncIterator[tuple[str, Process]]:
    """Run the demo with its page in another process; yields its address."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot", "demo", "--speed", "20", "--port", "0", *words),
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WAIT_S):
            printed = (await process.stdout.readline()).decode()
            while "Usher's demo is at " not in printed:
                assert process.returncode is None, printed
                printed = (await process.stdout.readline()).decode()
        yield printed.split()[-1], process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await process.stdout.read()


def said(out: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    """Run the demo with these lines, much faster than real servers."""
    words = [word for line in lines for word in ("--say", line)]
    return subprocess.run(
        [sys.executable, "-c", DEMO, "--speed", "100", "--out", str(out), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def test_a_transcript_shows_each_line_its_answers_and_saves_the_images(tmp_path: Path) -> None:
    """A newcomer without a browser would see nothing, or a script not learn how it ended.

    Control characters and direction marks in a prompt would change the text on the screen.
    """
    lines = ("/image=sdxl=cat", "/ask why", "/nonsense", "/image flux --steps 9999 x", STEERING)
    done = said(tmp_path, *lines)
    assert done.returncode == 2, done.stderr  # two lines were refused
    assert not done.stderr
    assert "> /image=sdxl=cat\n" in done.stdout
    assert "\n[1] cat\n    sdxl · " in done.stdout
    assert done.stdout.count("no language model was used") == 1, "an answer is printed once"
    assert "▌" not in done.stdout
    assert done.stdout.count("\n[1] ") == 2, "its first and its last state"
    assert "There's no command /nonsense." in done.stdout
    assert "--steps must be between 1 and 150." in done.stdout
    (image,) = tmp_path.glob("1-*.png")
    assert image.read_bytes().startswith(b"\x89PNG")
    assert str(image) in done.stdout
    assert not any(mark in done.stdout for mark in ("\x1b", "\u202e", "\u0007")), "it is steered"


@pytest.mark.parametrize(
    ("line", "status"), [("/nosuch", 2), ("/image", 2), ("/show 4711", 2), ("/ask why", 0)]
)
def test_a_line_that_is_refused_shows_in_the_exit_status(
    tmp_path: Path, line: str, status: int
) -> None:
    """A script would regard a misspelt command as a success."""
    words = ["demo", "--speed", "100", "--out", str(tmp_path), "--say", line]
    assert cli.main(words) == status


def test_a_place_where_nothing_can_be_saved_is_told_before_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The image would be drawn and lost, with a traceback."""
    (tmp_path / "file").touch()
    for place, told in (("file", "is a file; name a folder"), ("file/below", "cannot be written")):
        words = ["demo", "--out", str(tmp_path / place), "--say", "/image flux cat"]
        assert cli.main(words) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err == f"--out: {tmp_path / place} {told}" + (
            ": Not a directory\n" if place != "file" else "\n"
        )


def test_a_file_that_cannot_be_saved_is_told(tmp_path: Path) -> None:
    """A full disk would look like success."""
    shown: list[str] = []
    transcript = Transcript(
        (), out=tmp_path / "gone", show=lambda _, state, *, passing=False: shown.append(state)
    )
    ref = MessageRef(platform="demo", chat="you", message="1")
    content = Content(files=(File(name="cat.png", mime="image/png", data=b"x"),))
    asyncio.run(transcript.edit(ref, content))
    assert transcript.failed
    assert "1-cat.png cannot be written: No such file" in shown[0]


@pytest.mark.thorough
def test_a_reader_that_stops_ends_the_demo(tmp_path: Path) -> None:
    """With `| head`, the demo would run forever and write tracebacks."""
    with subprocess.Popen(
        [sys.executable, "-c", DEMO, "--say", "/image flux cat", "--say", "/help"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "> /image flux cat\n"
        running.stdout.close()
        assert running.stderr.read() == ""
        assert running.wait(timeout=60) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
@pytest.mark.skipif(not videos.available(), reason="needs usher-bot[media]")
def test_a_newcomer_sees_a_video_and_hears_a_sound(tmp_path: Path) -> None:
    """The first things anyone tries would produce nothing that plays."""
    done = said(tmp_path, "/video wan a cat", "/video a cat", "/speak hello", "/music calm")
    assert done.returncode == 0, done.stderr
    kinds = sorted(mime_of(path.read_bytes()) for path in tmp_path.iterdir())
    assert kinds == ["audio/mpeg", "audio/mpeg", "video/mp4", "video/mp4"]
    assert "hello.mp3" in done.stdout


def test_a_terminal_shows_each_message_once_in_its_latest_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A growing answer would appear on the screen fifty times."""
    terminal = FakeTty(monkeypatch, lines=4)
    with display() as show:
        show("> 1", "> /ask why")
        for count in range(1, 8):
            show("1", "[1] [bold]" + "word\n" * count)
        assert terminal.lines()[0] == "… 6 more lines"
        show("> 2", "> /queue")
    assert terminal.words() == "> /ask why [1] [bold]word" + " word" * 6 + " > /queue"


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


def test_a_port_one_asked_for_and_that_is_taken_ends_the_demo(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a crowd it would simulate people forever beside a page that no one can open."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        assert cli.main(["demo", "--port", port, "--crowd", "8"]) == cli.BROKEN
    assert capsys.readouterr().err == f"port {port} is taken; use --port 0 for any free one\n"


@pytest.mark.parametrize("people", [1, 8, 30, 10_000])
def test_a_crowd_of_any_size_makes_no_more_requests_than_are_served(people: int) -> None:
    """With `--crowd 30` the queue would grow forever, and a newcomer's request never be served."""
    pause_s = Crowd(people, speed=1.0).pause_s
    assert people / pause_s == pytest.approx(min(people, 8) / 45)


@pytest.mark.thorough
async def test_a_killed_demo_goes_on_where_it_was(tmp_path: Path) -> None:
    """After `kill -9`, the first thing a newcomer tries, the chat would be empty."""
    async with demo_page(tmp_path) as (url, process), opened(url) as tab:
        await tab.hello()
        await tab.say("/image flux a lighthouse")
        await tab.next("taken")
        process.kill()
        await process.wait()
    async with demo_page(tmp_path) as (url, _), opened(url) as tab:
        await tab.hello()
        finished = await tab.entry("· seed ")
        assert finished["shown"]["files"]


def test_each_demo_knows_where_its_jobs_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script would get the jobs of earlier runs, or a second demo end those of the first."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    kept = kept_path()
    assert kept.is_relative_to(tmp_path)
    with database_of(DemoOptions(say=("/queue",))) as scripted:
        assert scripted != kept
    assert not scripted.parent.exists()
    with database_of(DemoOptions(database=tmp_path / "own.sqlite")) as named:
        assert named == tmp_path / "own.sqlite"
    with database_of(DemoOptions()) as usual:
        assert usual == kept
    kept.write_bytes(b"jobs")
    lock = own(kept)
    try:
        with database_of(DemoOptions()) as beside:
            assert beside != kept
        assert "another Usher runs on this database" in capsys.readouterr().err
        with pytest.raises(StoreError), database_of(DemoOptions(fresh=True)):
            pass
    finally:
        lock.close()
    with database_of(DemoOptions(fresh=True)) as emptied:
        assert emptied == kept
        assert not kept.exists()
