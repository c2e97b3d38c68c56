"""Calls that no client would send: other people's jobs, admins' commands, borrowed names."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from bot.chat.api.table import Command, ParamKind
from bot.chat.commands.registry import COMMANDS
from queueing.core.jobs import Job, JobState
from tests.fakes.chat import FakeChat
from tests.simulation.bot_installation import ADMIN, Bot, bot
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import run

SECRET = "what-only-the-owner-may-read"
ABOUT_A_JOB = [
    command
    for command in COMMANDS
    if not command.admin and any(param.kind is ParamKind.JOB for param in command.params)
]
ADMINS = [command for command in COMMANDS if command.admin]
ALMOST_ADMINS = ("fake:1", "fake:099", "fake:99 ", "FAKE:99", "web:99", "fake:")
VALUES: Mapping[ParamKind, str | int | float | bool] = {
    ParamKind.MODEL: "flux",
    ParamKind.HOST: "gpu-1",
    ParamKind.PERSON: "fake:1",
    ParamKind.JOB: 1,
    ParamKind.WHOLE: 1,
    ParamKind.DECIMAL: 1.0,
    ParamKind.FLAG: True,
    ParamKind.SIZE: "512x512",
}


OTHERS_JOBS = [each for each in ABOUT_A_JOB if each.name != "history"]  # that shows one's own alone
RIGHT = "discord-role:7"
OTHER_RIGHTS = frozenset({"discord-role:77", "discord-member:7", "discord:manage-guild@7"})


def played(scenario: Any, **given: Any) -> FakeChat:
    """Play a scenario in a bot with one running and one waiting job of fake:1."""

    async def play() -> FakeChat:
        installation = Installation.of([image_model("flux")], [host("gpu-1", "comfy")])
        installation.servers["comfy"].service_s = 60.0
        async with bot(installation, **given) as running:
            for _ in range(2):
                await running.gate.call(running.chat.call(f"/image flux {SECRET}"))
            await asyncio.sleep(20)
            await scenario(running)
            await asyncio.sleep(5)
            return running.chat

    return run(play())


async def jobs(running: Bot) -> list[Job]:
    """Return every job there is, without what only the passing of time changes."""
    found = [await running.queue.jobs.get(number) for number in range(1, 6)]
    return [replace(job, state=JobState.PENDING) for job in found if job is not None]


def filled(command: Command) -> dict[str, str | int | float | bool]:
    """Return a value for each of a command's parameters."""
    return {
        param.name: VALUES.get(param.kind, param.choices[0] if param.choices else "x")
        for param in command.params
        if param.kind not in {ParamKind.PICTURE, ParamKind.SOUND, ParamKind.MASK}
    }


@pytest.mark.parametrize("button", [True, False], ids=["pressed", "typed"])
def test_another_persons_job_cannot_be_touched_or_read(
    button: bool, subtests: pytest.Subtests
) -> None:
    """Anyone could cancel, repeat, change or read what others asked for, by counting numbers."""
    for command in ABOUT_A_JOB:
        with subtests.test(command.name):
            try_on_others_jobs(command, button=button)


def try_on_others_jobs(command: Command, *, button: bool) -> None:
    """Check that a stranger's call neither changes nor shows the jobs of another person."""

    async def scenario(running: Bot) -> None:
        for job_id in (1, 2):
            before = await jobs(running)
            call = running.chat.call(
                f"/{command.name}",
                user="fake:666",
                chat="666",
                options=filled(command) | {"id": job_id},
                button=button,
            )
            await running.gate.call(call)
            await asyncio.sleep(3)
            assert await jobs(running) == before
            assert [job.id for job in await running.queue.jobs.open_jobs("fake:1")] == [1, 2]

    chat = played(scenario)
    told = [text for where, text in chat.private if where == "666"]
    told += [m.text for m in chat.messages.values() if m.chat == "666"]
    assert not any(SECRET in text for text in told)


@pytest.mark.parametrize("command", ADMINS, ids=lambda command: command.name)
def test_admins_commands_go_by_the_exact_user_id(command: Command) -> None:
    """A person with a name, a number or a platform like an admin's could run the installation."""

    async def scenario(running: Bot) -> None:
        before, paused = await jobs(running), running.queue.status.snapshot().paused
        for user in ALMOST_ADMINS:
            call = running.chat.call(
                f"/{command.name}", user=user, options=filled(command), user_name="fake:99"
            )
            await running.gate.call(call)
            await asyncio.sleep(2)
        assert await jobs(running) == before
        assert running.queue.status.snapshot().paused == paused

    refused = [text for _, text in played(scenario).private if "is for admins" in text]
    assert len(refused) == len(ALMOST_ADMINS)


def test_an_admin_is_let_through() -> None:
    """The tests above would pass if everyone were refused."""

    async def scenario(running: Bot) -> None:
        await running.gate.call(running.chat.call("/cancel 2", user=ADMIN, chat="99"))
        await asyncio.sleep(3)
        job = await running.queue.jobs.get(2)
        assert job is not None
        assert job.state is JobState.CANCELLED

    played(scenario)


def test_a_right_counts_in_the_call_it_comes_with(subtests: pytest.Subtests) -> None:
    """An admin by role would be none for some commands, or be one without the role as well."""
    for command in (*ADMINS, *OTHERS_JOBS):
        with subtests.test(command.name):
            assert refused_by_rights(command) == {frozenset({RIGHT}): False, OTHER_RIGHTS: True}


def refused_by_rights(command: Command) -> dict[frozenset[str], bool]:
    """Return whether a command is refused to a person with each of the rights."""
    told: dict[frozenset[str], list[str]] = {}

    async def scenario(running: Bot) -> None:
        for rights in (frozenset({RIGHT}), OTHER_RIGHTS):
            before = len(running.chat.private)
            call = running.chat.call(
                f"/{command.name}",
                user="fake:666",
                chat="666",
                options=filled(command) | ({"id": 1} if command in ABOUT_A_JOB else {}),
                rights=rights,
            )
            await running.gate.call(call)
            await asyncio.sleep(3)
            told[rights] = [text for _, text in running.chat.private[before:]]

    played(scenario, admins=(ADMIN, RIGHT))
    strangers = ("is for admins", "You have no job 1.")
    return {
        rights: any(word in text for text in texts for word in strangers)
        for rights, texts in told.items()
    }
