"""Reloading in one process: all or nothing, what it reports, and what it records."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.app import control_socket
from bot.app.control_socket import NotRunning
from bot.app.reloader import LiveConfig, Reloader, log_as_before
from bot.config.config import Config
from bot.config.loader import ConfigError, parse
from bot.people.audit_log import Act, AuditLog
from bot.people.people import Person
from queueing.core.errors import BadModel, StoreError
from queueing.core.ports import SystemClock

CONFIG = """\
hosts: {home: {vram: 24GB, backends: {stand-in: {kind: demo}}}}
models: {flux: {backends: [stand-in]}}
chats: {web: {port: 8080}}
"""
MORE = "admins: ['web:local']\nlimits: {per_hour: 3}\nrooms: {'*': {words: [snow]}}\n"
ADA = Person(user="web:ada")


class Audit(AuditLog):
    def __init__(self, error: StoreError | None = None) -> None:
        self.acts: list[Act] = []
        self.error = error

    async def write(self, act: Act) -> None:
        if self.error:
            raise self.error
        self.acts.append(act)

    async def newest(self, limit: int) -> list[Act]:
        return self.acts[-limit:]


class Bench:
    """A reloader whose next file is set by a test."""

    def __init__(self) -> None:
        self.in_force = LiveConfig(parse(CONFIG, {}))
        self.next: Callable[[], Config] = lambda: parse(CONFIG, {})
        clock = SystemClock()
        self.reloader = Reloader(self.in_force, self._reread, clock, log_as=log_as_before)

    def _reread(self) -> Config:
        return self.next()

    def write(self, text: str) -> None:
        self.next = lambda: parse(text, {})


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_what_parts_hold_is_new_after_a_reload(bench: Bench) -> None:
    """A part that was made before would use the old settings until a restart."""
    access, rooms = bench.in_force.access, bench.in_force.chat_settings
    bench.write(CONFIG + MORE)
    outcome = await bench.reloader.reload()
    assert outcome.applied == ("admins", "limits.per_hour", "rooms.* (added)")
    assert access.is_admin("web:local")
    assert access.limits_of(ADA, ()).per_hour == 3
    assert rooms.of("web", ()).words == ("snow",)
    bench.write(CONFIG)
    await bench.reloader.reload()
    assert not access.is_admin("web:local")
    assert rooms.of("web", ()).words == ()


async def test_a_bad_file_changes_nothing_and_is_told_with_its_lines(bench: Bench) -> None:
    """Half a configuration would be in force."""
    bench.write(CONFIG + MORE + "nonsense: 1\n")
    before = bench.in_force.config
    outcome = await bench.reloader.reload()
    assert outcome.problems[0].startswith("config.yaml:7: nonsense: is not a setting")
    assert bench.in_force.config is before
    assert not bench.in_force.access.is_admin("web:local")


async def test_a_part_that_refuses_keeps_all_others_as_they_were(bench: Bench) -> None:
    """Limits would be new while the models they belong to are not."""
    committed: list[str] = []

    async def prepares(_: Config) -> Callable[[], None]:
        return lambda: committed.append("first")

    async def refuses(_: Config) -> Callable[[], None]:
        raise BadModel("flux: no such workflow")

    bench.write(CONFIG + MORE)
    with bench.reloader.applying(Audit(), prepares, refuses):
        outcome = await bench.reloader.reload()
    assert outcome.problems == ("flux: no such workflow",)
    assert committed == []
    assert not bench.in_force.access.is_admin("web:local")


async def test_what_needs_a_restart_is_told_at_every_reload_until_then(bench: Bench) -> None:
    """The second reload would say that nothing is left to do."""
    bench.write(CONFIG.replace("8080", "8081") + MORE)
    first, second = await bench.reloader.reload(), await bench.reloader.reload()
    assert first.restart == second.restart == ("chats.web.port",)
    assert second.applied == ()
    assert second.lines() == ("needs a restart: chats.web.port",)


async def test_reloads_are_recorded_and_logged(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """No one could find out when a limit changed."""
    audit = Audit()
    with bench.reloader.applying(audit), caplog.at_level(logging.INFO):
        bench.write(CONFIG + MORE)
        await bench.reloader.reload()
        await bench.reloader.reload()  # nothing is new
        bench.write("models: {}")
        await bench.reloader.reload()
    (act,) = audit.acts
    assert (act.actor, act.action, act.subject) == ("operator", "reload", "configuration")
    assert act.detail == "admins, limits.per_hour, rooms.* (added)"
    assert "the configuration was reloaded: applied: admins" in caplog.text
    assert "config.yaml: hosts: is missing" in caplog.text


async def test_a_database_that_is_away_does_not_stop_a_reload(bench: Bench) -> None:
    """The operator could change nothing while the disk is full."""
    bench.write(CONFIG + MORE)
    with bench.reloader.applying(Audit(StoreError("the disk is full"))):
        assert (await bench.reloader.reload()).applied
    assert bench.in_force.access.is_admin("web:local")


async def test_a_bug_in_reading_ends_nothing(bench: Bench) -> None:
    """A reload would crash the bot."""

    def fails() -> Config:
        raise RuntimeError("boom")

    bench.next = fails
    assert "boom" in (await bench.reloader.reload()).problems[0]


# ---------------------------------------------------------------- `usher reload`


async def test_a_call_from_another_process_is_answered(bench: Bench, tmp_path: Path) -> None:
    """`usher reload` could not report the result."""
    deep = tmp_path.joinpath(*["a-folder-with-a-long-name"] * 5)
    deep.mkdir(parents=True)
    sign = deep / "usher.sqlite"
    bench.write(CONFIG.replace("8080", "8081") + MORE)
    async with control_socket.listening(sign, bench.reloader.reload):
        (file,) = deep.glob("*-control-*")
        assert file.stat().st_mode & 0o777 == 0o600
        ((_, outcome),) = await asyncio.to_thread(lambda: list(control_socket.call_all(sign)))
        assert outcome.restart == ("chats.web.port",)
        assert len(outcome.applied) == 3
        bench.next = _refused
        ((_, outcome),) = await asyncio.to_thread(lambda: list(control_socket.call_all(sign)))
        assert outcome.problems == ("config.yaml:1: no",)
    with pytest.raises(NotRunning):
        list(control_socket.call_all(sign))


def _refused() -> Config:
    raise ConfigError(("config.yaml:1: no",))


def test_a_socket_that_a_killed_process_left_is_no_process(tmp_path: Path) -> None:
    """`usher reload` would hang, or report success."""
    sign = tmp_path / "usher.sqlite"

    async def killed() -> None:
        listening = control_socket.listening(sign, Bench().reloader.reload)
        await listening.__aenter__()

    asyncio.run(killed())
    left = tmp_path / "usher.sqlite-control-1"
    left.touch()
    with pytest.raises(NotRunning):
        list(control_socket.call_all(sign))


def test_what_killed_processes_left_is_removed_at_the_next_start(tmp_path: Path) -> None:
    """One socket would remain for each time that the machine lost its power."""
    sign = tmp_path / "usher.sqlite"
    left = tmp_path / "usher.sqlite-control-1"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(left))

    def there() -> list[str]:
        return [file.name for file in tmp_path.glob("*-control-*")]

    async def start_twice() -> list[str]:
        async with control_socket.listening(sign, Bench().reloader.reload):
            control_socket._forget_killed(sign)
            return there()

    assert asyncio.run(start_twice()) == [f"usher.sqlite-control-{os.getpid()}"]


async def test_what_others_should_know_is_a_warning_and_its_failure_no_refusal(
    bench: Bench,
) -> None:
    """A process with outdated settings would only be noticed at the next takeover."""
    answers: list[Callable[[], tuple[str, ...]]] = [lambda: ("one lags",)]

    async def tell() -> tuple[str, ...]:
        return answers[0]()

    def away() -> tuple[str, ...]:
        raise StoreError("the server is away")

    with bench.reloader.telling(tell):
        bench.write(CONFIG + MORE)
        assert (await bench.reloader.reload()).lines()[-1] == "warning: one lags"
        answers[0] = away
        outcome = await bench.reloader.reload()
    assert outcome.lines()[-1].endswith("could not be told: the server is away")
