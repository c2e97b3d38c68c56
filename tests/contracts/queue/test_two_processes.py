"""What each of the bot's records promises when two processes use it at the same time."""

import asyncio
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from bot.api.calls.uploads import MOST_FILES, NoRoom, Uploads
from bot.core.answers import Task
from bot.core.live_settings import LiveSettings
from bot.core.platform import MessageRef
from bot.delivery.records import MessageRecords, ReplyPrompt
from bot.people.api_keys import MOST_KEYS, ApiKeys, TooManyKeys
from bot.people.audit_log import Act, AuditLog
from bot.people.invites import Invites
from bot.people.links import LinkEnds, key_of
from bot.people.people import HOUR_S, People, Person
from bot.people.upload_quota import HourFull, ReceivedBytes
from bot.platforms.web.chat.chat_log import ChatLog, ShownFile, ShownMessage, TextPart
from queueing.core.requests import File
from queueing.store.jobs.job_store import JobStore
from tests.contracts.queue.two_processes import Two, two
from tests.contracts.store.store_harness import NO_LIMITS, NOW, new
from tests.fakes.clock import SetClock

__all__ = ("two",)

MB = 1024 * 1024
PAGE = "http://page/"
FILE = File(name="cat.png", mime="image/png", data=b"\x89PNG")
SETTINGS: dict[str, tuple[Any, ...]] = {
    "language": ("de", "en", None),
    "image_model": ("flux", "sdxl"),
    "ask_model": ("qwen", None),
    "size": ("512x512", "768x768"),
    "style": ("noir", None),
    "lane": ("vip", "relaxed"),
    "max_open": (3, 7),
    "per_hour": (-1, 40),
    "banned_at": (5.0, None),
}


def words(text: str) -> ShownMessage:
    return ShownMessage(author="usher", body=(TextPart(text=text),))


# ---------------------------------------------------------------- people


async def test_different_settings_survive_each_other(two: Two) -> None:
    """A language chosen while an admin sets a limit would remove the limit."""
    await People(two.one).change("ada", style="noir")
    await two.overlapping(
        lambda database: People(database).change("ada", max_open=3),
        lambda database: People(database).change("ada", language="de"),
    )
    for database in (two.one, two.other):
        assert await People(database).get("ada") == Person(
            user="ada", style="noir", max_open=3, language="de"
        )


async def test_a_ban_survives_that_its_person_is_forgotten(two: Two) -> None:
    """`/forget me`, sent at the right moment, would end a ban."""
    await People(two.one).change("ada", language="de")

    async def forget(database: Any) -> None:
        await People(database).forget("ada")

    async def ban(database: Any) -> None:
        await People(database).change("ada", banned_at=5.0)

    for first, second in ((ban, forget), (forget, ban)):
        await People(two.one).change("ada", language="de", banned_at=None)
        await two.overlapping(first, second)
        assert await People(two.other).get("ada") == Person(user="ada", banned_at=5.0)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
async def test_a_crowd_of_changes_leaves_the_last_of_each_setting(two: Two, seed: int) -> None:
    """Changes from two processes would sometimes undo each other."""
    random = Random(seed)
    people = (People(two.one), People(two.other))
    wanted = Person(user="ada")

    async def change(name: str, values: list[Any]) -> None:
        for value in values:  # of one setting one after the other, from either process
            told = await random.choice(people).change("ada", **{name: value})
            assert getattr(told, name) == value

    orders = {name: random.choices(values, k=6) for name, values in SETTINGS.items()}
    await asyncio.gather(*(change(name, values) for name, values in orders.items()))
    wanted = replace(wanted, **{name: values[-1] for name, values in orders.items()})
    for each in people:
        assert await each.get("ada") == wanted


async def test_acts_of_admins_are_all_kept(two: Two) -> None:
    """What an admin did would not be recorded anywhere."""
    acts = [Act(at=1.0, actor="ada", action="ban", subject=f"bob {n}") for n in range(20)]
    logs = (AuditLog(two.one), AuditLog(two.other))
    await asyncio.gather(*(logs[n % 2].write(act) for n, act in enumerate(acts)))
    for log in logs:
        assert {act.subject for act in await log.newest(50)} == {act.subject for act in acts}


# ---------------------------------------------------------------- API keys and files


async def test_a_key_ends_everywhere_at_once(two: Two) -> None:
    """A stolen key would go on working on another machine."""
    one, other = ApiKeys(two.one), ApiKeys(two.other)
    key, secret = await one.new("ada", "Ada", name="", now=5.0)
    assert await other.by_secret(secret) == key
    assert await other.revoke("ada", key.id)
    assert await one.by_secret(secret) is None
    assert not await one.revoke("ada", key.id)


async def test_two_processes_do_not_give_more_keys_than_one(two: Two) -> None:
    """A person could have the maximum number of keys once for each process."""
    keys = ApiKeys(two.one)
    for _ in range(MOST_KEYS - 1):
        await keys.new("ada", "Ada", name="", now=5.0)
    results = await two.overlapping(
        lambda database: ApiKeys(database).new("ada", "Ada", name="", now=6.0),
        lambda database: ApiKeys(database).new("ada", "Ada", name="", now=6.0),
    )
    assert sum(isinstance(each, TooManyKeys) for each in results) == 1
    assert len(await keys.listed("ada")) == MOST_KEYS


async def test_the_last_use_of_a_key_only_moves_forwards(two: Two) -> None:
    """A process whose clock is behind would make a key look unused for longer."""
    one, other = ApiKeys(two.one), ApiKeys(two.other)
    key, secret = await one.new("ada", "Ada", name="", now=5.0)
    await one.used(key, 500.0)
    await other.used(key, 400.0)
    used = await other.by_secret(secret)
    assert used is not None
    assert used.used_at == 500.0


async def test_two_processes_do_not_take_more_files_than_one(two: Two) -> None:
    """The disk would fill with the maximum number of files once for each process."""
    uploads = Uploads(two.one)
    for _ in range(MOST_FILES - 1):
        await uploads.new("ada", FILE, 5.0)
    results = await two.overlapping(
        lambda database: Uploads(database).new("ada", FILE, 6.0),
        lambda database: Uploads(database).new("ada", FILE, 6.0),
    )
    assert sum(isinstance(each, NoRoom) for each in results) == 1
    listed = await Uploads(two.other).listed("ada", 6.0)
    assert len(listed) == MOST_FILES
    assert await Uploads(two.other).file("ada", listed[0].id, 6.0) == FILE
    assert await Uploads(two.other).delete("ada", listed[0].id)
    assert await uploads.get("ada", listed[0].id, 6.0) is None


async def test_bytes_of_an_hour_are_counted_together(two: Two) -> None:
    """A person could send as much for each process that accepts requests."""
    clock = SetClock()
    results = await two.overlapping(
        lambda database: ReceivedBytes(database, LiveSettings(files_per_hour_mb=10), clock).take(
            "ada", 6 * MB
        ),
        lambda database: ReceivedBytes(database, LiveSettings(files_per_hour_mb=10), clock).take(
            "ada", 6 * MB
        ),
    )
    (full,) = [each for each in results if isinstance(each, HourFull)]
    assert full.free_at == clock.at + HOUR_S
    one, other = [
        ReceivedBytes(each, LiveSettings(files_per_hour_mb=10), clock)
        for each in (two.one, two.other)
    ]
    assert await other.take("bob", 10 * MB) is not None
    more = await other.take("ada", 4 * MB)
    await one.give_back(more)
    clock.at += 1.0
    await one.take("ada", 3 * MB)
    with pytest.raises(HourFull) as caught:
        await other.take("ada", 2 * MB)
    assert caught.value.free_at == clock.at - 1.0 + HOUR_S
    clock.at += HOUR_S - 1.0
    await other.take("ada", 7 * MB)


# ---------------------------------------------------------------- invitations


async def test_a_page_learns_whom_another_process_invites(two: Two) -> None:
    """A person invited from Telegram could not open the page; an uninvited one could stay."""
    page = await Invites.read(two.one, PAGE)
    chat = await Invites.read(two.other, PAGE) if two.apart else page
    made = await chat.invite("Ada", 1.0)
    await page.look()
    assert page.by_token(made.link.partition("=")[2]) == made.person
    assert await page.named("ADA") == made.person
    again = await chat.invite("Ada", 2.0)
    await page.look()
    assert page.by_token(again.link.partition("=")[2]) == made.person
    assert page.by_token(made.link.partition("=")[2]) is None
    await chat.uninvite(made.person)
    await page.look()
    assert page.by_id("ada") is None
    assert await page.everybody() == []


async def test_a_command_sees_whom_another_part_invited(two: Two) -> None:
    """`/uninvite` would not find a person, or `/invite` list a person whose link has ended."""
    one, other = [await Invites.read(each, PAGE) for each in (two.one, two.other)]
    person = (await one.invite("Ada", 1.0)).person
    assert await other.everybody() == [person]
    assert await other.named("web:ada") == person
    await other.uninvite(person)
    assert await one.named("Ada") is None


async def test_a_look_that_was_slow_does_not_bring_a_person_back(two: Two) -> None:
    """An uninvited person's link would work again until the next reading."""
    invites = await Invites.read(two.one, PAGE)
    person = (await invites.invite("Ada", 1.0)).person
    looks = [asyncio.ensure_future(invites.everybody()) for _ in range(5)]
    await asyncio.sleep(0)
    await invites.uninvite(person)
    await asyncio.gather(*looks)
    assert invites.by_id("ada") is None


async def test_two_people_invited_at_once_get_ids_of_their_own(two: Two) -> None:
    """The second would get the chat of the first, and the first would have no page."""
    one = await Invites.read(two.one, PAGE)

    async def zoe(database: Any) -> str:
        return (await (await Invites.read(database, PAGE)).invite("Zoë", 1.0)).person.id

    async def other_zoe(database: Any) -> str:
        return (await (await Invites.read(database, PAGE)).invite("Zoe", 1.0)).person.id

    assert set(await two.overlapping(zoe, other_zoe)) == {"zoe", "zoe-2"}
    assert len(await one.everybody()) == 2


async def test_one_person_invited_at_once_by_two_admins_is_one(two: Two) -> None:
    """A person would have two chats, and `/uninvite` would end only one of their links."""

    async def invite(database: Any) -> str:
        return (await (await Invites.read(database, PAGE)).invite("Ada", 1.0)).person.id

    assert await two.overlapping(invite, invite) == ["ada", "ada"]
    assert len(await (await Invites.read(two.other, PAGE)).everybody()) == 1


# ---------------------------------------------------------------- messages and small facts


async def test_the_key_of_links_is_made_once(two: Two) -> None:
    """The links and webhooks of one process would be invalid in the other."""
    made = await two.overlapping(
        lambda database: key_of(MessageRecords(database)),
        lambda database: key_of(MessageRecords(database)),
    )
    assert made[0] == made[1] == await key_of(MessageRecords(two.one))


async def test_what_one_process_notes_the_other_reads(two: Two) -> None:
    """After a chat has moved to another machine, replies and buttons would not work there."""
    job = await JobStore(two.one).add(new(), NOW, limits=NO_LIMITS)
    one, other = MessageRecords(two.one), MessageRecords(two.other)
    ref = MessageRef(platform="telegram", chat="7", message="70")
    await one.note_message(job.id, ref, 5.0)
    assert await other.job_of(ref) == job.id
    await other.note_prompt(ref, ReplyPrompt(command="edit", job_id=job.id))
    assert await one.prompt(ref) == ReplyPrompt(command="edit", job_id=job.id)
    await one.begin_afresh("telegram", "7", "telegram:42", 6.0, idle_s=100.0)
    assert await other.afresh_since("telegram", "7", "telegram:42") == 6.0
    await other.note("commands", "hash")
    assert await one.noted("commands") == "hash"
    task = Task(command="loras", language="en")
    update = await one.updates.begin("telegram", "7", None, task, 5.0)
    assert await other.updates.all() == [update]
    await other.updates.settle(update)
    assert await one.updates.all() == []


async def test_of_two_that_begin_a_part_one_may_send_it(two: Two) -> None:
    """An image would be sent twice."""
    job = await JobStore(two.one).add(new(), NOW, limits=NO_LIMITS)
    begun = await two.overlapping(
        lambda database: MessageRecords(database).begin_part(job.id, "text 1", 5.0),
        lambda database: MessageRecords(database).begin_part(job.id, "text 1", 5.0),
    )
    assert sorted(map(bool, begun)) == [False, True]


async def test_what_is_counted_is_counted_by_both(two: Two) -> None:
    """A link would become valid again, or a chat be tried forever."""
    job = await JobStore(two.one).add(new(), NOW, limits=NO_LIMITS)
    await two.overlapping(
        lambda database: LinkEnds(database).end(job.id),
        lambda database: LinkEnds(database).end(job.id),
    )
    assert await LinkEnds(two.other).of(job.id) == 2
    await two.overlapping(
        lambda database: MessageRecords(database).note_unreachable(job.id, 5.0, given_up=False),
        lambda database: MessageRecords(database).note_unreachable(job.id, 6.0, given_up=False),
    )
    assert (await MessageRecords(two.other).unreachable())[job.id].tries == 2


# ---------------------------------------------------------------- the page's messages


async def test_two_messages_at_once_have_numbers_of_their_own(two: Two) -> None:
    """One of them would be refused, or an open page never learn of it."""
    entries = await two.overlapping(
        lambda database: ChatLog(database).put("ada", "a", 1.0, words("one"), ()),
        lambda database: ChatLog(database).put("bob", "b", 1.0, words("two"), ()),
    )
    numbers = [each.number for each in entries if not isinstance(each, BaseException)]
    assert numbers == [1, 2]


async def test_an_edit_survives_that_retention_takes_the_files(two: Two) -> None:
    """A message would again show its earlier contents."""
    file = ShownFile(id="f", name=FILE.name, mime=FILE.mime, size=len(FILE.data))
    await ChatLog(two.one).put(
        "ada", "a", 1.0, words("old").model_copy(update={"files": (file,)}), (FILE,)
    )

    async def edit(database: Any) -> None:
        await ChatLog(database).edit("ada", "a", words("new"), ())

    async def shrink(database: Any) -> None:
        await ChatLog(database).shrink(0)

    await two.overlapping(edit, shrink)
    entry = await ChatLog(two.other).get("ada", "a")
    assert entry is not None
    assert entry.shown == words("new")


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
async def test_a_page_that_reads_on_misses_nothing(two: Two, seed: int) -> None:
    """A number that is committed late would be lower than those the page has seen."""
    random = Random(seed)
    logs = (ChatLog(two.one), ChatLog(two.other))
    seen: dict[str, int] = {}
    writing = asyncio.gather(
        *(
            random.choice(logs).put("ada", f"m{n}", 1.0, words(f"{n}"), ())
            if random.random() < 0.7
            else random.choice(logs).put(f"bob {n}", f"m{n}", 1.0, words(f"{n}"), ())
            for n in range(60)
        )
    )
    last = 0
    while not writing.done():
        for entry in await logs[1].since("ada", last, 1000):
            seen[entry.message], last = entry.number, max(last, entry.number)
    await writing
    for entry in await logs[1].since("ada", last, 1000):
        seen[entry.message] = entry.number
    everything = await logs[0].since("ada", 0, 1000)
    assert set(seen) == {entry.message for entry in everything}
