"""Processes on one PostgreSQL database: one schedules, the others follow, whatever happens."""

import asyncio
import signal
import socket
from pathlib import Path

import pytest

from tests.fakes.programs.postgres_server import PostgresServer
from tests.fakes.telegram.telegram import FakeTelegram
from tests.processes.cluster.cluster import PATIENCE_S, processes

pytest.importorskip("psycopg")

ON_TELEGRAM = """
chats:
  telegram: {{token: "{token}", api_url: "{url}"}}
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_another_process_goes_on_after_one_ends(
    tmp_path: Path, postgres: PostgresServer, how: signal.Signals
) -> None:
    """The bot would be away until a person starts it again."""
    async with processes(tmp_path, postgres, (), ()) as both:
        jobs = await both.ask(5)
        first = await both.holder()
        assert await first.end(how) == (0 if how is signal.SIGTERM else -signal.SIGKILL)
        jobs += await both.ask(5)
        second = await both.holder()
        assert second is not first
        assert second.process is not None
        assert f":{second.process.pid}:" in await second.check()
        await first.start()
        await second.end(how)
        jobs += await both.ask(5)
        await both.all_done(jobs)
        assert len(set(jobs)) == 15
        ((epoch, count),) = both.sql(
            "SELECT epoch, (SELECT count(*) FROM jobs) FROM roles WHERE name = 'queue'"
        )
        assert count == 15
        assert int(str(epoch)) >= 3  # on a busy machine a lease may lapse besides


async def test_a_process_that_was_frozen_writes_nothing_more(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """Two schedulers would start the same jobs, and overwrite each other's results."""
    async with processes(tmp_path, postgres, (), ()) as both:
        jobs = await both.ask(10)
        first = await both.holder()
        first.send(signal.SIGSTOP)
        both.end_leases()
        jobs += await both.ask(10)
        second = await both.holder()
        assert second is not first
        first.send(signal.SIGCONT)
        jobs += await both.ask(10)
        await both.all_done(jobs)
        await first.logged("no longer holds the role queue")
        assert await both.holder() is second
        assert (await second.end(signal.SIGTERM), len(set(jobs))) == (0, 30)
        assert await both.holder() is first  # it applied once more


async def test_chats_and_programs_go_on_while_the_queue_moves(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """People would also wait for their answers until the chat is connected again."""
    async with FakeTelegram() as fake:
        chats = ON_TELEGRAM.format(token=fake.token, url=fake.url)
        queue, front = ("--roles", "queue"), ("--roles", "telegram")
        async with processes(tmp_path, postgres, queue, queue, front, more=chats) as all_of_them:
            ada = fake.person(7)
            for number in range(3):
                ada.says(f"/ask llama question {number}")
                await fake.wait_for(lambda: _answers(fake) > number, timeout_s=PATIENCE_S)  # noqa: B023
                holder = await all_of_them.holder()
                await holder.end(signal.SIGKILL if number else signal.SIGTERM)
                ada.says(f"/ask llama while it moves {number}")
                await all_of_them.holder()
                await holder.start()
            await fake.wait_for(lambda: _answers(fake) == 6, timeout_s=PATIENCE_S)
            ((count,),) = all_of_them.sql("SELECT count(*) FROM jobs WHERE state = 'completed'")
            ((epoch,),) = all_of_them.sql("SELECT epoch FROM roles WHERE name = 'telegram'")
            assert (count, epoch) == (6, 1)


def _answers(fake: FakeTelegram) -> int:
    """Count the answers that a person sees; answers that grow are drafts."""
    chat = fake.person(7).chat
    whole = [message.shown for message in chat.from_bot]
    return sum("stand-in" in text for text in (*whole, *map(" ".join, chat.drafts.values())))


async def test_answers_are_shown_while_another_process_has_them_written(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """People and programs would read nothing until an answer has ended."""
    async with FakeTelegram() as fake:
        chats = ON_TELEGRAM.format(token=fake.token, url=fake.url)
        queue, front = ("--roles", "queue"), ("--roles", "telegram")
        async with processes(tmp_path, postgres, queue, front, more=chats, service_s=10.0) as made:
            fake.person(7).says("/ask llama a question")
            await fake.wait_for(lambda: _answers(fake) > 0, timeout_s=PATIENCE_S)
            assert made.sql("SELECT state FROM jobs WHERE id = 1") == [("processing",)]
            await made.first_words(made.ushers[1])
            assert made.sql("SELECT state FROM jobs WHERE id = 2") == [("processing",)]


async def test_a_page_whose_address_is_taken_ends_no_other_duty(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """A stand-by would end each time it takes over."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        chats = f"chats:\n  web: {{port: {taken.getsockname()[1]}}}\n"
        async with processes(tmp_path, postgres, (), more=chats) as made:
            (one,) = made.ushers
            await one.logged("giving up the role")
            await made.all_done(await made.ask(1))
            taken.close()
            await one.logged("the page is at")


async def test_a_chat_that_refuses_the_bot_ends_no_other_duty(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """A withdrawn token would stop the queue and the other chats."""
    async with FakeTelegram() as fake:
        withdrawn = ON_TELEGRAM.format(token="700:withdrawn", url=fake.url)
        chats = withdrawn + "  web: {port: 0}\n"
        both, one = ("--roles", "queue,telegram,web"), ("--roles", "telegram")
        async with processes(tmp_path, postgres, both, one, more=chats) as made:
            goes_on, ends = made.ushers
            assert ends.process is not None
            async with asyncio.timeout(PATIENCE_S):
                assert await ends.process.wait() == 2
            assert "no chat can be used" in ends.log
            await goes_on.logged("telegram is off")
            await made.all_done(await made.ask(1))
            assert goes_on.runs
