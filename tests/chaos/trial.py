"""A trial: a crowd, servers, and a program that is killed or stopped again and again.

Counted from outside: what people see in their chats and what servers did. The database is read
only while the program is dead, to know what was finished then, and at the end.
"""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from random import Random

from bot.requests.enhancement import OWNER
from tests.chaos.chats import Chats, OnDiscord, OnTelegram
from tests.chaos.crash_points import DISCORD
from tests.chaos.crowd import Crowd
from tests.chaos.installations import FakeInstallation, Installation, Outages
from tests.chaos.programs import OnApi
from tests.chaos.runs import Launcher, Runs
from tests.chaos.servers import number_in
from tests.chaos.verdict import Row, Verdict
from tests.chaos.web import TOKEN, OnWeb
from tests.fakes.discord import FakeDiscord
from tests.fakes.telegram import FakeTelegram
from tests.fakes.telegram_state import Limits

ASK_EVERY_S = 0.5
ASKED_PER_RUN = 5
STUCK_AFTER_S = 400.0  # a chat that did not answer is left alone for up to 300

CHATS = """
chats:
  telegram: {{token: "${{CHAOS_TOKEN}}", api_url: "{telegram}"}}
  discord: {{token: "${{CHAOS_DISCORD}}"}}
  web: {{port: {web}, token: "${{CHAOS_WEB}}"}}
api: {{port: {api}, open: true}}
admins: [web:local]
database: {database}
limits: {{open_per_person: 500, in_line_per_person: 500}}
"""


class Trial:
    """One run of so many kills and orderly stops in a folder of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        kills: int,
        stops: int,
        seed: int,
        installation: Installation | None = None,
    ) -> None:
        self._folder = folder
        self._kills = kills
        self._stops = stops
        self._installation: Installation = installation or FakeInstallation()
        self._seed = seed
        self._random = Random(seed)
        self._crowds_random = Random(seed + 1)
        self._outages = Outages(
            self._installation.servers, Random(seed + 2), self._installation.slow
        )
        self._database = folder / "usher.sqlite"
        self._completed: set[int] = set()
        self._installation.completed(self._completed)

    async def run(self) -> Verdict:
        """Run it and return what it showed."""
        verdict = Verdict(kills=self._kills, stops=self._stops)
        async with AsyncExitStack() as stack:
            # A restart forgets what was sent in the last minute, so groups are not limited here.
            telegram = await stack.enter_async_context(FakeTelegram(limits=Limits(group=None)))
            discord = await stack.enter_async_context(FakeDiscord(check_specs=False))
            await stack.enter_async_context(self._installation)
            web = await stack.enter_async_context(OnWeb(Random(self._seed + 3)))
            programs = await stack.enter_async_context(OnApi(Random(self._seed + 4), web.key))
            config = self._config(telegram, discord, web, programs)
            chats: list[Chats] = [OnTelegram(telegram), web, OnDiscord(discord)]
            if self._installation.takes_programs:
                chats.insert(0, programs)
            crowd = Crowd(chats, self._crowds_random, self._installation.words)
            launcher = await stack.enter_async_context(Launcher(config, self._folder / "log.txt"))
            runs = Runs(
                launcher=launcher,
                random=self._random,
                polls=lambda: telegram.api.polls,
                is_up=discord.gateway.connected.is_set,
                slow=self._installation.slow,
            )
            await self._live(runs, crowd, chats, web)
            rows = self._rows()
            verdict.judge_chats(crowd, chats, rows, self._installation.number_of)
            await self._installation.judge(verdict, rows)
            verdict.judge_programs(programs)
        self._judge_database(verdict)
        verdict.faults += runs.faults
        verdict.recovery_s, verdict.died_at = runs.recovery_s, dict(runs.died_at)
        verdict.server_kills = self._outages.kills
        if verdict.broken_streams and not verdict.server_kills:
            verdict.faults.append("streams were broken off though no server died")
        return verdict

    async def _live(self, runs: Runs, crowd: Crowd, chats: Sequence[Chats], web: OnWeb) -> None:
        most = ASKED_PER_RUN * (self._kills + self._stops + 2)
        asking = asyncio.create_task(crowd.go_on(ASK_EVERY_S * self._installation.slow, most))

        def left() -> int:
            asking.cancel()
            return self._left(crowd, chats)

        async def calm() -> None:
            runs.faults += await web.last_look()

        within_s = STUCK_AFTER_S * self._installation.slow
        died = partial(self._look, crowd)
        await runs.go_through(
            self._kills, self._stops, died=died, left=left, calm=calm, within_s=within_s
        )
        await asyncio.wait([asking])
        if not asking.cancelled():
            asking.result()  # people who break down must not make a trial look good
        await self._outages.over()

    def _config(
        self, telegram: FakeTelegram, discord: FakeDiscord, web: OnWeb, programs: OnApi
    ) -> Path:
        os.environ |= {
            "CHAOS_TOKEN": telegram.token,
            "CHAOS_DISCORD": discord.token,
            "CHAOS_WEB": TOKEN,
            DISCORD: discord.url,
        }
        chats = CHATS.format(
            telegram=telegram.url, web=web.port, api=programs.port, database=self._database
        )
        text = self._installation.config() + chats
        path = self._folder / "config.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    # ------------------------------------------------------------ looking while it is dead

    def _all_rows(self) -> list[Row]:
        if not self._database.exists():
            return []
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)) as connection:
            known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'jobs'").fetchone()
            if known is None:
                return []
            connection.row_factory = sqlite3.Row
            found = connection.execute("SELECT * FROM jobs ORDER BY id").fetchall()
        return [
            Row(
                id=job["id"],
                number=number_in(job["request"]) or 0,
                model=job["model"],
                owner=job["owner"],
                state=job["state"],
                acknowledged=bool(job["acknowledged"]),
                attempt=job["attempt"],
                queued_at=job["queued_at"],
                started_at=job["started_at"],
                finished_at=job["finished_at"],
            )
            for job in found
        ]

    def _rows(self) -> list[Row]:
        """Return what people asked for: not the questions for a better prompt."""
        return [row for row in self._all_rows() if row.owner != OWNER]

    def _look(self, crowd: Crowd) -> None:
        """Note what is finished: no server may begin with it again. And now may a server die."""
        rows = self._rows()
        crowd.know({row.number: row.id for row in rows})
        self._completed |= {row.number for row in rows if row.state == "completed"}
        crowd.ended = len(crowd.asked) - sum(row.is_open for row in rows)
        self._outages.perhaps()

    def _left(self, crowd: Crowd, chats: Sequence[Chats]) -> int:
        """Return how many requests have not come to an end, good or bad, or are not confirmed."""
        rows = self._all_rows()
        accepted = {row.number for row in rows}
        on_the_way = sum(
            request.number not in accepted and (request.chats.keeps_calls or request.is_fresh)
            for request in crowd.asked
        )
        unread = sum(each.unread() for each in chats)
        return sum(not row.acknowledged for row in rows) + max(on_the_way, unread)

    def _judge_database(self, verdict: Verdict) -> None:
        with closing(sqlite3.connect(self._database)) as connection:
            (found,) = connection.execute("PRAGMA integrity_check").fetchone()
        if found != "ok":
            verdict.faults.append(f"the database is damaged: {found}")
        open_rows = [row for row in self._all_rows() if row.owner == OWNER and not row.acknowledged]
        verdict.stuck += [f"the question for a better prompt {row}" for row in open_rows]
