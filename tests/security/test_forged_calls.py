"""Calls that no client would send: other people's jobs, admins' commands, borrowed names."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from bot.commands.registry import COMMANDS
from bot.core.command import Command, ParamKind
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


# `history` shows one's own jobs alone, and the id of `forget-me` is that of a person.
OTHERS_JOBS = [each for each in ABOUT_A_JOB if each.name not in {"history", "forget-me"}]
RIGHT = "discord-role:7"
OTHER_RIGHTS = frozenset({"discord-role:77", "discord-member:7", "discord:manage-guild@7"})


def played(scenario: Any, **given: Any) -> FakeChat:
    """Play a scenario in a bot with one running and one waiting job of fake:1."""

    async def play() -> FakeChat:
        installation = Installation.of([image_model("flux")], [host("gpu-1", "comfy")])
        server = installation.servers["comfy"]
        server.service_s, server.progress_every_s = 36_000.0, 10.0
        async with bot(installation, **given) as running:
            for _ in range(2):
                await running.dispatcher.call(running.chat.call(f"/image flux {SECRET}"))
            await asyncio.sleep(20)
            await scenario(running)
            await asyncio.sleep(5)
            return running.chat

    return run(play())


async def jobs(running: Bot) -> list[Job]:
    """Return every job, without what only the passing of time changes."""
    found = [await running.queue.jobs.get(number) for number in range(1, 6)]
    return [replace(job, state=JobState.PENDING) for job in found if job is not None]


def filled(command: Command) -> dict[str, str | int | float | bool]:
    """Return a value for each of a command's parameters."""
    return {
        param.name: VALUES.get(param.kind, param.choices[0] if param.choices else "x")
        for param in command.params
        if param.kind not in {ParamKind.IMAGE, ParamKind.SOUND, ParamKind.MASK}
    }


def test_another_persons_job_cannot_be_touched_or_read() -> None:
    """Anyone could cancel, repeat, change or read other people's jobs by trying numbers."""

    async def scenario(running: Bot) -> None:
        before = await jobs(running)
        for command, job_id, button in product(ABOUT_A_JOB, (1, 2), (True, False)):
            call = running.chat.call(
                f"/{command.name}",
                user="fake:666",
                chat="666",
                options=filled(command) | {"id": job_id},
                button=button,
            )
            await running.dispatcher.call(call)
            await asyncio.sleep(3)
            assert await jobs(running) == before, (command.name, job_id, button)
            mine = await running.queue.jobs.open_jobs("fake:1")
            assert [job.id for job in mine] == [1, 2], (command.name, job_id, button)

    chat = played(scenario)
    told = [text for where, text in chat.private if where == "666"]
    told += [m.text for m in chat.messages.values() if m.chat == "666"]
    assert not any(SECRET in text for text in told)


def test_admins_commands_go_by_the_exact_user_id() -> None:
    """A person with a name, a number or a platform like an admin's could run the installation."""

    async def scenario(running: Bot) -> None:
        before, paused = await jobs(running), running.queue.status.snapshot().paused
        for command, user in product(ADMINS, ALMOST_ADMINS):
            told = len(running.chat.private)
            call = running.chat.call(
                f"/{command.name}", user=user, options=filled(command), user_name="fake:99"
            )
            await running.dispatcher.call(call)
            await asyncio.sleep(2)
            [(_, refused)] = running.chat.private[told:]
            assert "is for admins" in refused, (command.name, user)
            assert await jobs(running) == before, (command.name, user)
        assert running.queue.status.snapshot().paused == paused

    played(scenario)


def test_an_admin_is_let_through() -> None:
    """The tests above would pass if everyone were refused."""

    async def scenario(running: Bot) -> None:
        await running.dispatcher.call(running.chat.call("/cancel 2", user=ADMIN, chat="99"))
        await asyncio.sleep(3)
        job = await running.queue.jobs.get(2)
        assert job is not None
        assert job.state is JobState.CANCELLED

    played(scenario)


def test_a_right_counts_in_the_call_it_comes_with() -> None:
    """An admin by role would be refused some commands, or be an admin without the role as well."""

    async def refused(running: Bot, command: Command, job_id: int, rights: frozenset[str]) -> bool:
        before = len(running.chat.private)
        call = running.chat.call(
            f"/{command.name}",
            user="fake:666",
            chat="666",
            options=filled(command) | ({"id": job_id} if command in ABOUT_A_JOB else {}),
            rights=rights,
        )
        await running.dispatcher.call(call)
        await asyncio.sleep(3)
        told = [text for _, text in running.chat.private[before:]]
        strangers = ("is for admins", f"You have no job {job_id}.")
        return any(word in text for text in told for word in strangers)

    async def scenario(running: Bot) -> None:
        asked = [*OTHERS_JOBS, *ADMINS]
        for number in range(len(asked)):  # a job for each: some commands end or delete theirs
            call = running.chat.call("/image flux cat", user=f"fake:{100 + number}")
            await running.dispatcher.call(call)
        for job_id, command in enumerate(asked, 3):  # after the two of each scenario
            assert await refused(running, command, job_id, OTHER_RIGHTS), command.name
            assert not await refused(running, command, job_id, frozenset({RIGHT})), command.name

    played(scenario, admins=(ADMIN, RIGHT))
