"""A trial: a crowd, servers, and a program that is killed or stopped repeatedly.

It counts from outside: what people see in their chats and what servers did. The database is only
read while the program is dead, to know what was finished then, and at the end.
"""

import asyncio
import os
import sqlite3
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from random import Random

from tests.chaos.crash_points import DISCORD
from tests.chaos.installations import FakeInstallation, Installation, Outages
from tests.chaos.runs import Launcher, Runs
from tests.chaos.verdict import Row, Verdict
from tests.chaos.world import COLUMNS, World, as_rows

STUCK_AFTER_S = 400.0  # a chat that did not answer is left alone for up to 300

CHATS = """
chats:
  telegram: {{token: "${{CHAOS_TOKEN}}", api_url: "{telegram}"}}
  discord: {{token: "${{CHAOS_DISCORD}}"}}
  web: {{port: {web}, token: "${{CHAOS_WEB}}"}}
api: {{port: {api}, open: true}}
admins: [web:local]
database: {database}
limits: {{open_per_person: {most}, queued_per_person: {most}}}
"""


class Trial:
    """One run of this many kills and orderly stops, in a folder of its own."""

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
        self._outages = Outages(
            self._installation.servers, Random(seed + 2), self._installation.slow
        )
        self._database = folder / "usher.sqlite"

    async def run(self) -> Verdict:
        """Run it and return what it showed."""
        verdict = Verdict(kills=self._kills, stops=self._stops)
        async with AsyncExitStack() as stack:
            world = await World.begin(stack, self._installation, self._seed)
            config = self._config(world)
            launcher = await stack.enter_async_context(Launcher(config, self._folder / "log.txt"))
            runs = Runs(
                launcher=launcher,
                random=self._random,
                polls=lambda: world.telegram.api.polls,
                is_up=world.discord.gateway.connected.is_set,
                slow=self._installation.slow,
            )
            await self._live(runs, world)
            await world.judge(verdict, self._rows())
        self._judge_database(verdict)
        verdict.faults += runs.faults
        verdict.recovery_s, verdict.died_at = runs.recovery_s, dict(runs.died_at)
        verdict.count_outages(self._outages.kills)
        return verdict

    async def _live(self, runs: Runs, world: World) -> None:
        asking = world.asking(self._kills + self._stops)

        def left() -> int:
            asking.cancel()
            return world.left(self._rows())

        async def calm() -> None:
            runs.faults += await world.web.last_look()

        within_s = STUCK_AFTER_S * self._installation.slow
        died = partial(self._look, world)
        await runs.go_through(
            self._kills, self._stops, died=died, left=left, calm=calm, within_s=within_s
        )
        await asyncio.wait([asking])
        if not asking.cancelled():
            asking.result()  # a crowd that fails must not make a trial look good
        await self._outages.over()

    def _config(self, world: World) -> Path:
        os.environ |= world.secrets | {DISCORD: world.discord.url}
        chats = CHATS.format(
            telegram=world.telegram.url,
            web=world.web.port,
            api=world.programs.ports[0],
            database=self._database,
            most=500,
        )
        text = self._installation.config() + chats
        path = self._folder / "config.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    # ------------------------------------------------------------ looking while it is dead

    def _rows(self) -> Sequence[Row]:
        """Return all jobs: those of people and the questions for a better prompt."""
        if not self._database.exists():
            return []
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)) as connection:
            known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'jobs'").fetchone()
            if known is None:
                return []
            stored = connection.execute(f"SELECT {COLUMNS} FROM jobs ORDER BY id").fetchall()
        return as_rows(stored)

    def _look(self, world: World) -> None:
        """Record what is finished; now a server may die."""
        world.know(self._rows())
        self._outages.perhaps()

    def _judge_database(self, verdict: Verdict) -> None:
        with closing(sqlite3.connect(self._database)) as connection:
            (found,) = connection.execute("PRAGMA integrity_check").fetchone()
        if found != "ok":
            verdict.faults.append(f"the database is damaged: {found}")
