"""A trial: a crowd, servers, and a program that is killed again and again; and what came of it.

Counted at the fakes: what people see in their chats and what servers did. The database is read
only while the program is dead, to know what was finished then, and at the end.
"""

import asyncio
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from tests.chaos.crowd import Asked, Crowd, has_ended, results, strangers, was_cancelled
from tests.chaos.lives import Lives
from tests.chaos.neighbours import Book, CountingComfyUI, CountingLlm, number_in
from tests.fakes.telegram import FakeTelegram
from tests.fakes.telegram_state import Limits

PICTURES = ("schnell", "sdxl", "pony")
TEXTS = ("llama", "mistral")
AT_ONCE = {"mistral": 4}
BACK_ROWS = frozenset({"telegram:1", "telegram:2", "telegram:3"})
ASK_EVERY_S = 0.6
ASKED_PER_KILL = 5  # a slow machine must not be asked ever more
STUCK_AFTER_S = 60.0

CONFIG = """
hosts:
  gpu-1:
    vram: 24GB
    margin: 1
    backends:
      comfy-1: {{kind: comfyui, url: "{comfy_1}"}}
  gpu-2:
    vram: 24GB
    margin: 1
    backends:
      comfy-2: {{kind: comfyui, url: "{comfy_2}"}}
  gpu-3:
    vram: 24GB
    margin: 1
    backends:
      studio: {{kind: lmstudio, url: "{studio}"}}
models:
  schnell:
    {{backends: [comfy-1], workflow: flux-schnell.json, vram: 17GB, load_s: 1, service_s: 1}}
  sdxl:
    {{backends: [comfy-2], workflow: sdxl.json, values: {{steps: 6}}, vram: 9GB, load_s: 1, service_s: 1}}
  pony:
    backends: [comfy-2]
    workflow: sdxl.json
    values: {{checkpoint: "sub/dreams v2.ckpt", steps: 6}}
    vram: 9GB
    load_s: 1
    service_s: 1
  llama:
    {{backends: [studio], capabilities: [text-to-text], vram: 8GB, parallel: 1, load_s: 1, service_s: 1}}
  mistral:
    {{backends: [studio], capabilities: [text-to-text], vram: 8GB, parallel: 4, load_s: 1, service_s: 1}}
chats:
  telegram: {{token: "${{CHAOS_TOKEN}}", api_url: "{telegram}"}}
database: {database}
limits: {{open_per_person: 500, in_line_per_person: 500}}
roles:
  many: {{members: ["telegram:1", "telegram:2", "telegram:3"], in_line_per_person: 2}}
"""


@dataclass(kw_only=True)
class Verdict:
    """What a trial showed; every list holds one sentence for each breach of a promise."""

    kills: int
    accepted: int = 0
    lost: list[str] = field(default_factory=list)
    delivered_twice: list[str] = field(default_factory=list)
    regenerated: list[str] = field(default_factory=list)
    wrong_chat: list[str] = field(default_factory=list)
    order_violations: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    recovery_s: list[float] = field(default_factory=list)
    died_at: dict[str, int] = field(default_factory=dict)
    second_messages: int = 0  # told twice that they wait: a send nobody could note
    repeated_texts: int = 0  # written again: a text server forgets what nobody fetched

    @property
    def breaches(self) -> list[str]:
        """Return every breach of a promise."""
        return [
            *self.lost,
            *self.delivered_twice,
            *self.regenerated,
            *self.wrong_chat,
            *self.order_violations,
            *self.stuck,
            *self.faults,
        ]

    def as_json(self) -> str:
        """Return the figures."""
        return json.dumps(
            {
                "kills": self.kills,
                "accepted": self.accepted,
                "lost": len(self.lost),
                "delivered_twice": len(self.delivered_twice),
                "regenerated": len(self.regenerated),
                "wrong_chat": len(self.wrong_chat),
                "order_violations": len(self.order_violations),
                "stuck": len(self.stuck),
                "recovery_s_p50": round(median(self.recovery_s), 2) if self.recovery_s else None,
                "other_faults": len(self.faults),
                "second_messages": self.second_messages,
                "repeated_texts": self.repeated_texts,
                "died_at": dict(sorted(self.died_at.items())),
            }
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A job as the database has it."""

    id: int
    number: int
    model: str
    owner: str
    state: str
    acknowledged: bool


class Trial:
    """One run of so many kills in a folder of its own."""

    def __init__(self, folder: Path, *, kills: int, seed: int) -> None:
        self._folder = folder
        self._kills = kills
        self._random = Random(seed)
        self._database = folder / "usher.sqlite"
        self._book = Book()
        self._completed: set[int] = set()
        self._book.finished_before = self._completed.__contains__

    async def run(self) -> Verdict:
        """Run it and return what it showed."""
        verdict = Verdict(kills=self._kills)
        async with AsyncExitStack() as stack:
            # A restart forgets what was sent in the last minute, so groups are not limited here.
            limits = Limits(group=None)
            telegram = await stack.enter_async_context(FakeTelegram(limits=limits))
            config = await self._config(stack, telegram)
            os.environ["CHAOS_TOKEN"] = telegram.token
            crowd = Crowd(telegram, self._random, PICTURES, TEXTS)
            lives = Lives(
                config=config,
                random=self._random,
                polls=lambda: telegram.api.polls,
                log=self._folder / "log.txt",
            )
            most = ASKED_PER_KILL * (self._kills + 2)
            asking = asyncio.create_task(crowd.go_on(ASK_EVERY_S, most))

            def left() -> int:
                asking.cancel()
                return self._left(telegram, crowd)

            await lives.go_through(self._kills, died=self._look, left=left, within_s=STUCK_AFTER_S)
            await asyncio.wait([asking])
            self._judge(verdict, telegram, crowd)
        verdict.faults += lives.faults
        verdict.recovery_s, verdict.died_at = lives.recovery_s, dict(lives.died_at)
        return verdict

    async def _config(self, stack: AsyncExitStack, telegram: FakeTelegram) -> Path:
        urls = {}
        for name, step_s in (("comfy_1", 0.1), ("comfy_2", 0.07)):
            comfy = CountingComfyUI(self._book, step_s=step_s, load_s=0.1)
            urls[name] = (await stack.enter_async_context(comfy)).url
        studio = CountingLlm(self._book, TEXTS, pace_s=0.04)
        await studio.start()
        stack.push_async_callback(studio.stop)
        path = self._folder / "config.yaml"
        text = CONFIG.format(
            studio=studio.url, telegram=telegram.url, database=self._database, **urls
        )
        path.write_text(text, encoding="utf-8")
        return path

    # ------------------------------------------------------------ looking while it is dead

    def _rows(self) -> list[Row]:
        if not self._database.exists():
            return []
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True)) as connection:
            known = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'jobs'").fetchone()
            if known is None:
                return []
            found = connection.execute(
                "SELECT id, request, model, owner, state, acknowledged FROM jobs ORDER BY id"
            ).fetchall()
        return [
            Row(
                id=job_id,
                number=number_in(request) or 0,
                model=model,
                owner=owner,
                state=state,
                acknowledged=bool(acknowledged),
            )
            for job_id, request, model, owner, state, acknowledged in found
        ]

    def _look(self) -> None:
        """Note what is finished: no server may begin with it again."""
        self._completed |= {row.number for row in self._rows() if row.state == "completed"}

    def _left(self, telegram: FakeTelegram, crowd: Crowd) -> int:
        """Return how many requests have not come to an end, good or bad, or are not confirmed."""
        ended = sum(row.acknowledged for row in self._rows())
        return max(len(crowd.asked) - ended, len(telegram.api.updates))

    # ------------------------------------------------------------ the verdict

    def _judge(self, verdict: Verdict, telegram: FakeTelegram, crowd: Crowd) -> None:
        rows = self._rows()
        by_number = {row.number: row for row in rows}
        verdict.accepted = len(crowd.asked)
        for request in crowd.asked:
            self._judge_one(verdict, request, by_number.get(request.number))
        if len(by_number) < len(rows):
            verdict.faults.append("a request was accepted twice")
        verdict.wrong_chat += strangers(list(telegram.api.chats.values()), crowd.asked)
        verdict.order_violations += self._overtaken(rows)
        verdict.order_violations += _out_of_turn(crowd, by_number)
        verdict.regenerated += [f"{number} was made again" for number in self._book.again]
        for number, times in self._book.finished.items():
            if times > 1 and by_number[number].model in PICTURES:
                verdict.regenerated.append(f"{number} was drawn {times} times")
            verdict.repeated_texts += times > 1 and by_number[number].model in TEXTS
        with closing(sqlite3.connect(self._database)) as connection:
            (found,) = connection.execute("PRAGMA integrity_check").fetchone()
        if found != "ok":
            verdict.faults.append(f"the database is damaged: {found}")

    def _judge_one(self, verdict: Verdict, request: Asked, row: Row | None) -> None:
        shown = results(request)
        told = [message for message in request.chat.from_bot if _answers(message, request)]
        verdict.second_messages += len(told) > 1
        if len(shown) > 1:
            verdict.delivered_twice.append(f"{request.number} was shown {len(shown)} times")
        if not has_ended(request):
            is_open = row is not None and row.state in {"pending", "processing"}
            undelivered = row is not None and not row.acknowledged
            kind = verdict.stuck if is_open or undelivered else verdict.lost
            kind.append(f"{request.number} ({request.model}): {row}, {told[-1:]}")
        elif shown and was_cancelled(request) and row and row.state == "cancelled":
            verdict.delivered_twice.append(f"{request.number} was shown and cancelled")

    def _overtaken(self, rows: list[Row]) -> Iterator[str]:
        """Yield a line for each job a server began before one that was accepted earlier.

        Those in a back row enter their line later than they are accepted; they may be passed, and
        pass nobody but each other.
        """
        begun: set[int] = set()
        order = {number: at for at, number in reversed(list(enumerate(self._book.began)))}
        for model in (*PICTURES, *TEXTS):
            line = [row for row in rows if row.model == model and row.number in order]
            at_once = AT_ONCE.get(model, 1)
            for row in sorted(line, key=lambda row: order[row.number]):
                begun.add(row.number)
                ahead = [
                    other.number
                    for other in line
                    if other.id < row.id
                    and other.number not in begun
                    and (other.owner not in BACK_ROWS or other.owner == row.owner)
                ]
                if len(ahead) >= at_once:
                    yield f"{row.number} began before {ahead} in the line of {model}"


def _answers(message: object, request: Asked) -> bool:
    return getattr(message, "reply_to", None) == request.message.id


def _out_of_turn(crowd: Crowd, rows: dict[int, Row]) -> Iterator[str]:
    """Yield a line where somebody's later request was accepted before their earlier one."""
    latest: dict[int, Row] = {}
    for request in crowd.asked:
        row, earlier = rows.get(request.number), latest.get(request.chat.id)
        if row is None:
            continue
        if earlier is not None and row.id < earlier.id:
            yield f"{request.number} was accepted before {earlier.number}"
        latest[request.chat.id] = row
