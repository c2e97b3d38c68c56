"""What admins set takes effect, survives a restart, and is written to the audit log."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bot.people.access import Access, PersonLimits, Role
from bot.people.people import Person
from queueing.core.errors import StoreError, Unavailable
from queueing.core.leases import Leader
from queueing.core.ports import ServerInfo
from queueing.engine.fleet.host_memory import MemoryBudget
from tests.fakes.servers.backend import FakeBackend
from tests.simulation.bot_installation import ADMIN, Bot, played, settled
from tests.simulation.installation import Installation, host, image_model
from tests.simulation.loop import Inside, in_virtual_time


def one_model(url: str = "sqlite://") -> Installation:
    return Installation.of([image_model("flux", vram_mb=16000)], [host("gpu-1", "comfy")], url=url)


def in_bot() -> Inside[Bot]:
    return Inside(lambda: played(one_model()))


async def say(running: Bot, text: str, user: str = ADMIN, **fields: Any) -> None:
    await running.dispatcher.call(running.chat.call(text, user=user, **fields))
    await asyncio.sleep(2)


@in_virtual_time
async def test_a_banned_person_is_refused_after_a_restart_too(tmp_path: Path) -> None:
    """A ban would end with the next update, or leave the flood in the queue."""
    url = f"sqlite:///{tmp_path}/usher.sqlite"
    async with played(one_model(url)) as running:
        await say(running, "/image flux cat", "fake:1")
        await say(running, "/ban fake:1 --hours 2 too many cats")
        assert await running.queue.jobs.open_jobs("fake:1") == []
    told = "is banned, and their open jobs are cancelled. The ban ends at "
    assert told in running.chat.answers[-1]
    async with played(one_model(url)) as running:
        await say(running, "/image flux cat", "fake:1")
        await say(running, "/unban 1")
        await say(running, "/image flux cat", "fake:1")
        assert len(await running.queue.jobs.open_jobs("fake:1")) == 1
    refused, unbanned = running.chat.answers
    assert "too many cats" in refused
    assert unbanned == "fake:1 can use Usher again."


@in_bot()
async def test_a_reply_names_the_person(running: Bot) -> None:
    """An admin would have to look up the id of a person whose message they can see."""
    await say(running, "/image flux cat", "fake:7")
    (job,) = await running.queue.jobs.open_jobs()
    sent = await running.records.message(job.id)
    assert sent is not None
    await say(running, "/ban rude prompts", replied_to=sent.ref)
    assert (await running.people.get("fake:7")).ban_reason == "rude prompts"


@in_bot()
async def test_what_cannot_be_done_is_said(running: Bot) -> None:
    """The command would report success without having done anything."""
    for text in ("/ban nobody-at-all", "/ban", f"/ban {ADMIN}", "/unban 5", "/audit"):
        await say(running, text)
    *refusals, audit = (await settled(running)).answers
    assert len(refusals) == 4
    assert not [each for each in refusals if each.endswith("cancelled.")]
    assert audit == "No admin actions yet."


@in_bot()
async def test_an_hourly_quota_counts_and_tells_when_it_frees_up(running: Bot) -> None:
    """One person could use up the whole evening, or be refused without being told until when."""
    await say(running, "/limit fake:1 --per-hour 2")
    for _ in range(3):
        await say(running, "/image flux cat", "fake:1")
    await asyncio.sleep(3600)
    await say(running, "/image flux cat", "fake:1")
    answers = (await settled(running)).answers
    assert answers[0] == "fake:1 · open jobs: 10 · per hour: 2 · lane: normal · GPU today: 0 min"
    assert "your jobs for this hour (2)" in answers[1]
    assert len(answers) == 2


@in_bot()
async def test_a_limit_can_be_lifted_and_never_locks_an_admin_out_of_their_own_bot(
    running: Bot,
) -> None:
    """The word that config.yaml accepts would be refused, or admins could lock themselves out."""
    await say(running, "/limit fake:1 --per-hour 1")
    await say(running, "/limit fake:1 --per-hour none")
    for _ in range(3):
        await say(running, "/image flux cat --seed -1", "fake:1")
    assert len(await running.queue.jobs.open_jobs("fake:1")) == 3
    for option in ("--open 0", "--per-hour 0"):
        await say(running, f"/limit {ADMIN} {option}")
    await say(running, f"/limit {ADMIN}")
    answers = (await settled(running)).answers
    assert (
        answers[1]
        == "fake:1 · open jobs: 10 · per hour: no limit · lane: normal · GPU today: 0 min"
    )
    assert answers[2] == answers[3]
    assert "lock you out" in answers[2]
    assert (
        answers[4]
        == f"{ADMIN} · open jobs: 10 · per hour: no limit · lane: normal · GPU today: 0 min"
    )


@in_bot()
async def test_an_answer_says_what_happened_where_nothing_did(running: Bot) -> None:
    """People would read that something was cancelled, or that they never asked for anything."""
    await say(running, "/history")
    await say(running, "/clear flux")
    await say(running, "/image flux cat")
    await say(running, "/history 0")
    assert (await settled(running)).answers == [
        "You have no jobs yet.",
        "Nothing was waiting for flux.",
        "You have no jobs before number 0.",
    ]


@in_bot()
async def test_many_calls_at_once_get_no_more_than_the_quota(running: Bot) -> None:
    """Ten calls at the same moment, from several chats, would all get the same free place."""
    await say(running, "/limit fake:1 --per-hour 2")
    calls = [running.chat.call("/image flux cat", user="fake:1", chat=str(n)) for n in range(10)]
    await asyncio.gather(*(running.dispatcher.call(call) for call in calls))
    await asyncio.sleep(2)
    assert len(await running.queue.jobs.open_jobs("fake:1")) == 2
    assert (
        sum("your jobs for this hour (2)" in answer for answer in (await settled(running)).answers)
        == 8
    )


@in_bot()
async def test_a_cleared_job_is_given_back(running: Bot) -> None:
    """People would pay for what an admin threw away."""
    await say(running, "/pause")
    await say(running, "/limit fake:1 --per-hour 1")
    await say(running, "/image flux cat", "fake:1")
    await say(running, "/clear flux")
    await say(running, "/image flux cat", "fake:1")
    await say(running, "/image flux cat", "fake:1")
    assert len(await running.queue.jobs.open_jobs("fake:1")) == 1
    assert "your jobs for this hour (1)" in (await settled(running)).answers[-1]


@in_bot()
async def test_a_lane_is_where_the_jobs_go(running: Bot) -> None:
    """`/limit --lane vip` would change nothing."""
    await say(running, "/limit fake:1 --lane vip")
    await say(running, "/image flux cat", "fake:1")
    (job,) = await running.queue.jobs.open_jobs()
    assert job.lane == "vip"


@in_bot()
async def test_acts_are_written_down_with_who_and_whom(running: Bot) -> None:
    """No one could find out who banned a person."""
    await say(running, "/limit fake:1 --open 3")
    await say(running, "/ban fake:2 spam")
    await say(running, "/audit")
    await say(running, "/audit", "fake:1")
    *_, audit, refused = (await settled(running)).answers
    first, second = audit.split("\n")
    assert "fake:99 · ban fake:2 (spam)" in first
    assert "fake:99 · limit fake:1 (--open 3)" in second
    assert refused == "/audit is for admins."


@in_bot()
async def test_settings_hold_and_can_be_taken_back(running: Bot) -> None:
    """A person's usual model or language would be forgotten, or stay forever."""
    await say(running, "/settings --image flux --size 3:2 --language de", "fake:1")
    await say(running, "/image a cat", "fake:1")
    (job,) = await running.queue.jobs.open_jobs()
    assert (job.request.width, job.request.height) == (1216, 832)  # type: ignore[union-attr]
    await say(running, "/cancel", "fake:1")
    await say(running, "/settings --image reset --language reset", "fake:1")
    await say(running, "/settings --ask flux", "fake:1")
    german, cancelled, english, refused = (await settled(running)).answers
    assert "Bildmodell: flux" in german
    assert "abgebrochen" in cancelled
    assert "image model: flux (default)" in english
    assert "language: en (from your app or browser)" in english
    assert refused == "flux can't write text."


@in_bot()
async def test_status_tells_what_is_up_and_what_runs(running: Bot) -> None:
    """People would ask an admin whether the machine is on."""
    await say(running, "/image flux cat", "fake:1")
    await asyncio.sleep(10)
    await say(running, "/status", "fake:1")
    (text,) = (await settled(running)).answers
    assert text.startswith("gpu-1 · 16 GB in use · budget 23 of 23 GB\n  🟢 comfy")
    assert "flux in memory, 1 running" in text


@in_virtual_time
async def test_status_tells_what_is_not_measured_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """People would mistake an old figure of other programs for a current one."""
    monkeypatch.setattr(MemoryBudget, "unmeasured_since", lambda *_: 60.0)
    async with played(one_model()) as running:
        await say(running, "/status", "fake:1")
    (text,) = running.chat.answers
    assert "of 23 GB · other programs' memory not measured since" in text


@in_virtual_time
async def test_a_server_that_was_not_asked_yet_is_not_called_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Right after a start, every server would be reported as down."""
    silent = asyncio.Event()

    async def probe(_server: FakeBackend) -> ServerInfo:
        await silent.wait()
        raise Unavailable("no answer")

    monkeypatch.setattr(FakeBackend, "probe", probe)
    async with played(one_model()) as running:
        await say(running, "/status", "fake:1")
        await say(running, "/settings --language de", "fake:1")
        await say(running, "/status", "fake:1")
        silent.set()
        await asyncio.sleep(1)
        await say(running, "/status", "fake:1")
    english, _settings, german, away = running.chat.answers
    assert "⚪ comfy · " in english
    assert "not checked yet" in english
    assert "noch nicht geprüft" in german
    assert "🔴 comfy" in away


@dataclass
class ShownRoles:
    """The roles of two processes; `away` means that their database is away."""

    away: bool = False

    async def roles(self) -> Sequence[Leader]:
        """Return what one process holds."""
        if self.away:
            raise StoreError("the database does not answer")
        held = Leader(
            name="queue", holder="gpu-1:4711", address="10.0.0.7:8124", epoch=3, left_s=9.5
        )
        return [held, Leader(name="discord", holder="", address="", epoch=0, left_s=0)]


@in_virtual_time
async def test_status_tells_admins_which_process_does_what() -> None:
    """They would have to search the database for the machine that may be switched off."""
    shown = ShownRoles()
    async with played(one_model(), roles=shown) as running:
        await say(running, "/status")
        await say(running, "/status", "fake:1")
        shown.away = True
        await say(running, "/settings --language de")
        await say(running, "/status")
    admins, others, _, german = running.chat.answers
    assert admins.endswith("📌 Process roles\n  queue · gpu-1:4711\n  discord · free")
    assert "8124" not in admins  # a chat must not show where it listens
    assert "4711" not in others
    assert german.endswith("📌 Prozessrollen · die Datenbank antwortet nicht")


def test_roles_give_limits_and_admins_override_them() -> None:
    """A member's role would have no effect, or have priority over an admin's decision."""
    friends = Role(
        name="friends",
        limits=PersonLimits(open_per_person=50, lane="vip"),
        members=frozenset({"telegram:1", "discord-role:777"}),
    )
    access = Access([], PersonLimits(), [friends])
    assert access.limits_of(Person(user="telegram:1"), ()).lane == "vip"
    assert access.limits_of(Person(user="discord:5"), {"discord-role:777"}).open_per_person == 50
    assert access.limits_of(Person(user="discord:5"), {"discord-role:778"}) == PersonLimits()
    limited = Person(user="telegram:1", max_open=2, lane="relaxed", per_hour=0)
    assert access.limits_of(limited, ()) == PersonLimits(
        open_per_person=2, lane="relaxed", per_hour=0
    )


@in_bot()
async def test_nobody_can_be_meant_by_a_name_nobody_can_have(running: Bot) -> None:
    """After a typing error, an admin would believe that a person is banned who is not."""
    cases = [
        ("foo:bar", "There's no chat called “foo”. There are: discord, telegram, web, fake."),
        (
            "telegram:abc",
            "“telegram:abc” isn't a valid id for a person. Ids look like telegram:42.",
        ),
        ("discord:xyz", "“discord:xyz” isn't a valid id for a person."),
        ("discord:0", "“discord:0” isn't a valid id for a person."),
        ("telegram:042", "“telegram:042” isn't a valid id for a person."),
        ("discord-role:5", "Who?"),
        ("discord:manage-guild@5", "“discord:manage-guild@5” isn't a valid id for a person."),
        ("web:A%20B", "“web:A%20B” isn't a valid id for a person."),
    ]
    commands = ("ban", "unban", "limit")
    for command, (person, _) in product(commands, cases):
        await say(running, f"/{command} {person}")
        assert not (await running.people.get(person)).is_banned(running.clock.now()), person
    answers = (await settled(running)).answers
    for (command, (person, told)), answer in zip(product(commands, cases), answers, strict=True):
        assert answer.startswith(told), (command, person)


@in_bot()
async def test_people_of_every_chat_can_be_banned(running: Bot) -> None:
    """A stranger on another platform, or one who writes as a group, could not be kept out."""
    people = ("discord:123", "telegram:42", "telegram:anonymous-1001", "2")
    for person in people:
        await say(running, f"/ban {person}")
    assert ["is banned" in answer for answer in (await settled(running)).answers] == [True] * len(
        people
    )
