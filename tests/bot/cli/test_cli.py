"""The command line: what it answers, with which exit status, and how it stops."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bot.app import heartbeat
from bot.app import runner as bot_running
from bot.cli import main as cli
from bot.config.loader import load
from bot.version import version
from queueing.core.errors import StoreError
from tests.fakes.ports import free_port

ROOT = Path(__file__).parents[3]
CONFIG = """\
hosts: {home: {vram: 24GB, backends: {stand-in: {kind: demo}}}}
models: {flux: {backends: [stand-in]}}
chats: {web: {port: 0}}
"""
WAIT_S = 60.0


def configured(tmp_path: Path, text: str = CONFIG) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    "how",
    [
        "postgresql://u:{secret}@127.0.0.1:{port}/d",
        "postgres://127.0.0.1:{port}/d?password={secret}",
        "mysql://u:{secret}@127.0.0.1:{port}/d",
    ],
)
@pytest.mark.parametrize("command", ["db check {}", "db copy {} new.sqlite", "db copy {0} {0}"])
def test_no_command_shows_the_password_of_an_address(
    how: str, command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """It would be in the terminal's history, and in what people paste when they ask for help."""
    secret = "s3cret-of-a-test"
    address = how.format(secret=secret, port=free_port())
    assert cli.main(command.format(address).split()) == cli.BROKEN
    out, err = capfd.readouterr()
    assert secret not in out + err
    assert "Traceback" not in err
    assert err


def test_a_database_on_a_server_is_checked_by_its_address(
    postgres_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name in the report would be the address with its password."""
    address = postgres_url.replace("usher@", "usher:s3cret-of-a-test@")
    assert cli.main(["db", "check", address]) == 0
    read = capsys.readouterr()
    assert read.out == f"127.0.0.1/{postgres_url.rpartition('/')[2]}: all is well\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
@pytest.mark.parametrize("command", ["example", pytest.param("check", marks=pytest.mark.thorough)])
def test_a_reader_who_has_read_enough_is_no_failure(command: str, tmp_path: Path) -> None:
    """`usher check | head -1` would end in a traceback."""
    told = [sys.executable, "-m", "usher_bot", command]
    if command == "check":
        told += ["-c", configured(tmp_path)]
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        told, stdout=writing, stderr=subprocess.PIPE, cwd=ROOT, timeout=WAIT_S, check=False
    )
    os.close(writing)
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr


def test_a_wrong_configuration_ends_with_1_and_all_its_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script could not distinguish a typing error from a server that is away."""
    for command in ("run", "check", "health"):
        file = configured(tmp_path, "models: {}\nnonsense: 1\n")
        assert cli.main([command, "-c", file]) == 1, command
        told = capsys.readouterr().err.splitlines()
        assert told == [
            "config.yaml: hosts: is missing",
            told[1],
        ], command
        assert told[1].startswith("config.yaml:2: nonsense: is not a setting"), command


def test_run_without_any_chat_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bot no one can reach would run and look healthy."""
    file = configured(tmp_path, CONFIG.replace("chats: {web: {port: 0}}\n", ""))
    assert cli.main(["run", "-c", file]) == 1
    assert "chats: none is configured" in capsys.readouterr().err


def test_a_missing_file_is_told_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first thing a newcomer sees would be a traceback."""
    assert cli.main(["check", "-c", str(tmp_path / "none.yaml")]) == 1
    told = capsys.readouterr().err
    assert "none.yaml: no such file: `usher init` writes one" in told


def test_version_is_that_of_the_project(capsys: pytest.CaptureFixture[str]) -> None:
    """A bug report would name no version, or another one."""
    assert cli.main(["version"]) == 0
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out == 2 * f"usher {version()}\n"
    assert f'version = "{version()}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_a_wrong_number_is_told_without_the_names_of_functions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A newcomer would read "invalid _port value"."""
    cases: list[tuple[tuple[str, str], str]] = [
        (("--port", "x"), "argument --port: must be a whole number from 0 to 65535"),
        (("--port", "1.5"), "argument --port: must be a whole number from 0 to 65535"),
        (("--crowd", "some"), "argument --crowd: must be a whole number from 0 to 10000"),
        (
            ("--speed", "fast"),
            "argument --speed: must be a number, more than 0 and up to 1,000,000",
        ),
        (("--speed", "nan"), "argument --speed: must be a number, more than 0 and up to 1,000,000"),
    ]
    for option, wanted in cases:
        with pytest.raises(SystemExit):
            cli.main(["demo", *option])
        assert wanted in capsys.readouterr().err, option


def test_a_wrong_command_line_is_told_in_a_usage_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt option would be read as something else, or end in a traceback."""
    cases: list[list[str]] = [
        [],
        ["dance"],
        ["demo", "--port", "x"],
        ["demo", "--port", "70000"],
        ["demo", "--speed", "0"],
    ]
    for arguments in cases:
        with pytest.raises(SystemExit) as stopped:
            cli.main(arguments)
        assert stopped.value.code == 2, arguments
        assert capsys.readouterr().err.startswith("usage: usher"), arguments


def test_a_console_that_lacks_a_sign_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a console with another alphabet the first image would end the demo with a traceback."""
    written = io.BytesIO()
    console = io.TextIOWrapper(written, encoding="ascii", errors="strict", write_through=True)
    monkeypatch.setattr(sys, "stderr", console)
    assert cli.main(["run", "-c", "no⏳file.yaml"]) == 1
    assert b"no?file.yaml: no such file" in written.getvalue()


# ---------------------------------------------------------------- signs of life


async def test_the_bot_shows_that_it_lives_and_that_it_stopped(tmp_path: Path) -> None:
    """A container with a bot that has ended would count as healthy."""
    database = tmp_path / "usher.sqlite"
    file = configured(tmp_path)
    assert cli.main(["health", "-c", file]) == 2
    beating = asyncio.create_task(heartbeat.beat(database))
    while not heartbeat.is_alive(database):  # noqa: ASYNC110  a file signals nothing
        await asyncio.sleep(0)
    assert cli.main(["health", "-c", file]) == 0
    sign = heartbeat.file_of(database)
    fresh = json.loads(sign.read_text())
    for stale in (
        {"at": fresh["at"] - heartbeat.LATE_S - 1},  # the loop hangs: the file alone proves nothing
        {"at": fresh["at"] + heartbeat.LATE_S},  # of another machine
        {"boot": "another"},
    ):
        sign.write_text(json.dumps(fresh | stale))
        assert cli.main(["health", "-c", file]) == 2
    sign.write_text("")  # of another version
    assert cli.main(["health", "-c", file]) == 2
    beating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beating
    assert not sign.exists()


@pytest.mark.thorough
def test_health_draws_nothing(tmp_path: Path) -> None:
    """A container checks every half minute, and would import a library of images each time."""
    code = (
        "import sys; from bot.cli.main import main\n"
        f"main(['health', '-c', {configured(tmp_path)!r}]); sys.exit('rich' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


async def test_a_clock_that_is_set_makes_nobody_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the clock was set back by an hour, a bot that hangs would seem alive for that hour."""
    database = tmp_path / "usher.sqlite"
    beating = asyncio.create_task(heartbeat.beat(database))
    while not heartbeat.is_alive(database):  # noqa: ASYNC110  as above
        await asyncio.sleep(0)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert heartbeat.is_alive(database)
    assert heartbeat.file_of(database).stat().st_mode & 0o077 == 0
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)


async def test_a_deleted_database_is_told_by_health_and_by_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bot would go on as if all were well, and everything would be lost at its end."""
    monkeypatch.setattr(heartbeat, "EVERY_S", 0.01)
    file, database = configured(tmp_path), tmp_path / "usher.sqlite"
    running = asyncio.create_task(bot_running.run(load(Path(file)), "1"))
    async with asyncio.timeout(WAIT_S):
        while heartbeat.health(database) is not None:  # noqa: ASYNC110  as above
            await asyncio.sleep(0.01)
        database.unlink()
        while "deleted" not in (heartbeat.health(database) or ""):  # noqa: ASYNC110  as above
            await asyncio.sleep(0.01)
    assert cli.main(["health", "-c", file]) == 2
    assert "deleted or replaced" in capsys.readouterr().out
    running.cancel()
    with pytest.raises(StoreError, match="deleted or replaced"):
        await running


# ---------------------------------------------------------------- as a process


@pytest.fixture
def bot(tmp_path: Path) -> subprocess.Popen[str]:
    """Return a running bot, started as an operator starts it."""
    return _started("run", "-c", configured(tmp_path))


def _started(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bot", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _wait_until_alive(bot: subprocess.Popen[str], database: Path) -> None:
    until = time.monotonic() + WAIT_S
    while not heartbeat.is_alive(database):
        assert bot.poll() is None, bot.communicate()[0]
        assert time.monotonic() < until, "no sign of life"
        time.sleep(0.02)  # another process: nothing to wait for but its file


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to answer")
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)]
)
def test_a_signal_stops_the_bot_in_order(
    bot: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    """A restart would cut running work short, or be reported as a crash."""
    with bot:
        _wait_until_alive(bot, tmp_path / "usher.sqlite")
        bot.send_signal(number)
        told, _ = bot.communicate(timeout=WAIT_S)
    assert bot.returncode == 0, told
    assert f"usher {version()} serves flux to web" in told
    assert "Traceback" not in told
    assert not heartbeat.is_alive(tmp_path / "usher.sqlite")


@pytest.mark.thorough
def test_a_chat_that_is_away_stops_no_other_and_shows_no_secret(tmp_path: Path) -> None:
    """One wrong or unreachable chat would stop the others, or put its token in the log."""
    chats = "{telegram: {token: '${TOKEN}', api_url: 'http://127.0.0.1:9'}, web: {port: 0}}"
    text = CONFIG.replace("{web: {port: 0}}", chats) + "logging: {level: debug}\n"
    canary = "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
    with _started("run", "-c", configured(tmp_path, text), TOKEN=canary) as bot:
        _wait_until_alive(bot, tmp_path / "usher.sqlite")
        assert bot.stdout is not None
        told = ""
        for line in bot.stdout:
            told += line
            if "bot.platforms.telegram.platform" in line:  # the chat that is away is told
                break
        bot.terminate()
        told += bot.communicate(timeout=WAIT_S)[0]
    assert bot.returncode == 0, told
    assert canary[-20:] not in told


def test_a_second_bot_is_refused_and_a_killed_one_is_not_alive(
    bot: subprocess.Popen[str], tmp_path: Path
) -> None:
    """Two bots would hand out the same jobs twice.

    A killed bot leaves its heartbeat file behind, and would count as alive forever.
    """
    database = tmp_path / "usher.sqlite"
    with bot:
        _wait_until_alive(bot, database)
        with _started("run", "-c", str(tmp_path / "config.yaml")) as second:
            told, _ = second.communicate(timeout=WAIT_S)
        assert heartbeat.is_alive(database)
        bot.kill()
        bot.communicate(timeout=WAIT_S)
    assert second.returncode == 2
    assert "another Usher runs on this database" in told
    assert "Traceback" not in told
    assert heartbeat.file_of(database).exists()
    assert not heartbeat.is_alive(database)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to answer")
def test_a_signal_in_the_middle_of_a_write_to_the_log_is_not_lost() -> None:
    """A stop during a write to the log would never be completed."""
    script = """\
import asyncio, io, os, signal, sys
from bot.app.process import run_until_signal

class Log(io.RawIOBase):  # its writer runs signal handlers while it still holds its lock
    def writable(self):
        return True
    def write(self, data):
        if b"in the middle" in bytes(data):
            os.kill(os.getpid(), signal.SIGTERM)
        return os.write(1, data)

async def work():
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(Log()), line_buffering=True)
    try:
        print("a line, in the middle of which it is stopped", file=sys.stderr)
        await asyncio.Event().wait()
    finally:
        print("stopped in order", flush=True)

sys.exit(run_until_signal(work()))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "stopped in order" in done.stdout


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to answer")
def test_a_second_signal_stops_at_once() -> None:
    """A stop that hangs could only be ended by force."""
    script = """\
import asyncio
from bot.app.process import run_until_signal

async def stubborn():
    print("runs", flush=True)
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("hangs", flush=True)

run_until_signal(stubborn())
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.terminate()
        assert process.stdout.readline() == "hangs\n"
        process.terminate()
        assert process.wait(WAIT_S) == -signal.SIGTERM
