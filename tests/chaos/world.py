"""The surroundings of the program in a trial: chats, page, programs, servers, and the crowd."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from random import Random
from typing import Any

from bot.requests.enhancement import OWNER
from tests.chaos.installations import Installation
from tests.chaos.people.chats import Chats, OnDiscord, OnTelegram
from tests.chaos.people.crowd import Crowd, was_refused
from tests.chaos.people.programs import OnApi
from tests.chaos.people.web import TOKEN, OnWeb
from tests.chaos.servers import number_in
from tests.chaos.verdict import Row, Verdict
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.telegram.telegram import FakeTelegram
from tests.fakes.telegram.telegram_state import Limits

ASK_EVERY_S = 0.5
ASKED_PER_RUN = 5
COLUMNS = (
    "id, request, model, owner, state, acknowledged, attempt, sendings,"
    " queued_at, started_at, finished_at"
)
"""Of the table of jobs, in the order of the fields of `Row`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """Everything but the program."""

    telegram: FakeTelegram
    discord: FakeDiscord
    web: OnWeb
    programs: OnApi
    installation: Installation
    chats: Sequence[Chats]
    crowd: Crowd
    completed: set[int]

    @classmethod
    async def begin(
        cls, stack: AsyncExitStack, installation: Installation, seed: int, *, processes: int = 1
    ) -> "World":
        """Begin all of it; it ends with the stack."""
        # A restart forgets what was sent in the last minute, so groups are not limited here.
        telegram = await stack.enter_async_context(FakeTelegram(limits=Limits(group=None)))
        discord = await stack.enter_async_context(FakeDiscord(check_specs=False))
        await stack.enter_async_context(installation)
        web = await stack.enter_async_context(OnWeb(Random(seed + 3), database_goes=processes > 1))
        programs = OnApi(Random(seed + 4), web.key, processes=processes)
        await stack.enter_async_context(programs)
        chats: list[Chats] = [OnTelegram(telegram), web, OnDiscord(discord)]
        if installation.takes_programs:
            chats.insert(0, programs)
        completed: set[int] = set()
        installation.completed(completed)
        return cls(
            telegram=telegram,
            discord=discord,
            web=web,
            programs=programs,
            installation=installation,
            chats=chats,
            crowd=Crowd(chats, Random(seed + 1), installation.words, database_goes=processes > 1),
            completed=completed,
        )

    @property
    def secrets(self) -> dict[str, str]:
        """What the configuration takes from the environment."""
        tokens = (self.telegram.token, self.discord.token, TOKEN)
        return dict(zip(("CHAOS_TOKEN", "CHAOS_DISCORD", "CHAOS_WEB"), tokens, strict=True))

    def asking(self, ends: int) -> "asyncio.Task[None]":
        """Let the crowd start to ask, for as long as this many ends of the program take."""
        most = ASKED_PER_RUN * (ends + 2)
        return asyncio.create_task(self.crowd.go_on(ASK_EVERY_S * self.installation.slow, most))

    def know(self, rows: Sequence[Row]) -> None:
        """Record what became of requests; no server may begin again with what is finished."""
        asked = [row for row in rows if row.owner != OWNER]
        self.crowd.know({row.number: row.id for row in asked})
        self.completed.update(row.number for row in asked if row.state == "completed")
        self.crowd.ended = len(self.crowd.asked) - sum(row.is_open for row in asked)

    def left(self, rows: Sequence[Row]) -> int:
        """Return how many requests have not ended, well or badly, or are not confirmed."""
        accepted = {row.number for row in rows}
        on_the_way = sum(
            request.number not in accepted
            and not was_refused(request)
            and (request.chats.keeps_calls or request.is_fresh)
            for request in self.crowd.asked
        )
        unread = sum(each.unread() for each in self.chats)
        return sum(not row.acknowledged for row in rows) + max(on_the_way, unread)

    async def judge(self, verdict: Verdict, rows: Sequence[Row]) -> None:
        """Count what people, programs and servers saw."""
        asked = [row for row in rows if row.owner != OWNER]  # not the questions for better prompts
        verdict.judge_chats(self.crowd, self.chats, asked, self.installation.number_of)
        await self.installation.judge(verdict, asked)
        verdict.judge_programs(self.programs)
        questions = [row for row in rows if row.owner == OWNER and not row.acknowledged]
        verdict.stuck += [f"the question for a better prompt {row}" for row in questions]


def as_rows(stored: Sequence[Sequence[Any]]) -> list[Row]:
    """Return jobs from the rows of `COLUMNS`."""
    names = [each.name for each in fields(Row)]
    jobs = (dict(zip(names, job, strict=True)) for job in stored)
    return [
        Row(
            **job
            | {"number": number_in(job["number"]) or 0, "acknowledged": bool(job["acknowledged"])}
        )
        for job in jobs
    ]
