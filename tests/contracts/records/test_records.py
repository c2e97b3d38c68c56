"""What every store of the bot's records promises, part by part."""

from dataclasses import replace

import pytest

from bot.core.answers import Task
from bot.core.platform import MessageRef
from bot.delivery.records import (
    MessageRecords,
    PendingUpdates,
    ReplyPrompt,
    SentMessage,
    Unreachable,
)
from bot.people.links import LinkEnds
from queueing.store.jobs.job_store import JobStore
from queueing.store.sql.database import Database

DAY_S = 24 * 3600.0


def ref(message: str, *, chat: str = "42", platform: str = "telegram") -> MessageRef:
    return MessageRef(platform=platform, chat=chat, message=message)


@pytest.fixture
def records(database: Database) -> MessageRecords:
    return MessageRecords(database)


@pytest.fixture
def updates(records: MessageRecords) -> PendingUpdates:
    return records.updates


@pytest.fixture
def ends(database: Database) -> LinkEnds:
    return LinkEnds(database)


# ---------------------------------------------------------------- which message shows which job


async def test_a_status_message_is_found_by_job_and_by_message(
    records: MessageRecords, job_ids: tuple[int, ...]
) -> None:
    """An edit would not find its message, or a button not its job."""
    first, other, bare = job_ids
    await records.note_message(first, ref("1"), 5.0)
    await records.note_message(other, ref("2"), 6.0)
    assert await records.message(first) == SentMessage(ref=ref("1"), sent_at=5.0)
    assert await records.message(bare) is None
    assert await records.job_of(ref("2")) == other
    assert await records.job_of(ref("1", chat="43")) is None
    assert await records.job_of(ref("1", platform="discord")) is None


async def test_a_later_status_message_takes_the_place_of_the_earlier(
    records: MessageRecords, job_ids: tuple[int, ...]
) -> None:
    """Edits would go to a message that is gone."""
    await records.note_message(job_ids[0], ref("1"), 5.0)
    await records.note_message(job_ids[0], ref("9"), 7.0)
    assert await records.message(job_ids[0]) == SentMessage(ref=ref("9"), sent_at=7.0)
    assert await records.job_of(ref("1")) is None


async def test_a_chat_moves_with_all_that_is_noted_of_it(
    records: MessageRecords, job_ids: tuple[int, ...]
) -> None:
    """After a group has become a supergroup nothing in it would be found again."""
    await records.note_message(job_ids[0], ref("1"), 5.0)
    await records.note_prompt(ref("2"), ReplyPrompt(command="vary", job_id=job_ids[0]))
    await records.note_message(job_ids[1], ref("1", platform="discord"), 5.0)
    for _ in range(2):
        await records.move_chat("telegram", "42", "-100")
    assert await records.job_of(ref("1", chat="-100")) == job_ids[0]
    assert await records.prompt(ref("2", chat="-100")) is not None
    assert await records.job_of(ref("1", platform="discord")) == job_ids[1]


async def test_a_deleted_job_takes_its_records_with_it(
    records: MessageRecords, database: Database, job_ids: tuple[int, ...]
) -> None:
    """A forgotten job would be found by its messages."""
    await records.note_message(job_ids[0], ref("1"), 5.0)
    await records.begin_part(job_ids[0], "page 2", 5.0)
    await records.note_unreachable(job_ids[0], 5.0, given_up=False)
    await JobStore(database).erase([job_ids[0]])
    assert await records.message(job_ids[0]) is None
    assert await records.job_of(ref("1")) is None
    assert await records.unreachable() == {}


# ---------------------------------------------------------------- further parts


async def test_a_part_is_begun_once(records: MessageRecords, job_ids: tuple[int, ...]) -> None:
    """After a crash a page would be sent twice."""
    first, other, _ = job_ids
    assert await records.begin_part(first, "page 2", 5.0)
    assert not await records.begin_part(first, "page 2", 6.0)
    assert await records.begin_part(first, "page 3", 6.0)
    assert await records.begin_part(other, "page 2", 6.0)


async def test_a_part_that_was_not_sent_can_be_tried_again(
    records: MessageRecords, job_ids: tuple[int, ...]
) -> None:
    """A page would be missing forever."""
    await records.begin_part(job_ids[0], "page 2", 5.0)
    await records.drop_part(job_ids[0], "page 2")
    assert await records.begin_part(job_ids[0], "page 2", 6.0)


async def test_only_a_part_that_was_sent_is_clear(
    records: MessageRecords, job_ids: tuple[int, ...]
) -> None:
    """The person would not be told that a part may be missing."""
    job = job_ids[0]
    for part in ("sent", "unclear", "interrupted"):
        await records.begin_part(job, part, 5.0)
    await records.end_part(job, "sent", 6.0, message="7")
    await records.end_part(job, "unclear", 6.0, message=None, unclear=True)
    assert await records.unclear_parts(job) == {"unclear", "interrupted"}


async def test_a_part_leads_to_its_job(records: MessageRecords, job_ids: tuple[int, ...]) -> None:
    """A reply to the second page of an answer would not be understood."""
    job = job_ids[0]
    await records.note_message(job, ref("1"), 5.0)
    await records.begin_part(job, "page 2", 5.0)
    assert await records.parts(job, "telegram", "42") == (ref("1"),)
    await records.end_part(job, "page 2", 6.0, message="2", number=2)
    await records.note_others(job, replace(ref("2"), others=("3", "4")), 6.0, 2)
    shown = [await records.image_of(ref(message)) for message in ("1", "2", "3", "4", "9")]
    assert shown == [1, 2, 3, 4, 1]
    assert await records.job_of(ref("2")) == job
    parts = {ref("1"), ref("2"), ref("3"), ref("4")}
    assert set(await records.parts(job, "telegram", "42")) == parts


async def test_a_message_that_shows_a_job_again_leads_to_it(
    records: MessageRecords, job_ids: tuple[int, ...]
) -> None:
    """A reply to what `/show` brought would not be understood."""
    job = job_ids[0]
    await records.note_again(job, ref("1"), 5.0)
    assert await records.message(job) == SentMessage(ref=ref("1"), sent_at=5.0)
    for _ in range(2):
        await records.note_again(job, ref("5"), 6.0)
    assert await records.job_of(ref("5")) == job
    assert await records.message(job) == SentMessage(ref=ref("1"), sent_at=5.0)
    elsewhere = ref("5", chat="elsewhere"), ref("5", platform="discord")
    for place in elsewhere:
        await records.note_again(job, replace(place, others=("6",)), 6.0)
        assert await records.job_of(replace(place, message="6")) == job
    assert await records.job_of(ref("6")) is None
    here = {ref("1"), ref("5")}
    assert set(await records.parts(job, "telegram", "42")) == here
    there = await records.parts(job, "telegram", "elsewhere")
    assert set(there) == here | {elsewhere[0], replace(elsewhere[0], message="6")}


# ---------------------------------------------------------------- chats that cannot be reached


async def test_failed_tries_are_counted_from_the_first(
    records: MessageRecords, job_ids: tuple[int, ...]
) -> None:
    """A chat that was deleted would be tried forever, or given up at once."""
    job = job_ids[0]
    assert await records.note_unreachable(job, 5.0, given_up=False) == Unreachable(
        since=5.0, tries=1, given_up=False
    )
    await records.note_unreachable(job, 6.0, given_up=False)
    assert await records.unreachable() == {job: Unreachable(since=5.0, tries=2, given_up=False)}


async def test_a_count_from_before_the_job_ended_goes_on(
    records: MessageRecords, job_ids: tuple[int, ...]
) -> None:
    """A chat that failed nine times while its job ran would be tried ten times more."""
    job = job_ids[0]
    await records.note_unreachable(job, 5.0, given_up=False, tries=3)
    assert (await records.note_unreachable(job, 6.0, given_up=False, tries=9)).tries == 9
    assert (await records.note_unreachable(job, 7.0, given_up=False, tries=9)).tries == 10


async def test_what_was_given_up_is_tried_no_more(
    records: MessageRecords, job_ids: tuple[int, ...]
) -> None:
    """Every start of the bot would call chats that are gone."""
    await records.note_unreachable(job_ids[0], 5.0, given_up=True)
    await records.note_unreachable(job_ids[1], 5.0, given_up=False)
    assert set(await records.unreachable()) == {job_ids[1]}


# ---------------------------------------------------------------- replies, conversations, notes


async def test_a_reply_is_meant_for_what_was_noted_last(
    records: MessageRecords, job_ids: tuple[int, ...]
) -> None:
    """An answer to a form would complete another command."""
    await records.note_prompt(ref("1"), ReplyPrompt(command="vary", job_id=job_ids[0]))
    await records.note_prompt(ref("1"), ReplyPrompt(command="edit", job_id=job_ids[1]))
    assert await records.prompt(ref("1")) == ReplyPrompt(command="edit", job_id=job_ids[1])
    assert await records.prompt(ref("2")) is None


async def test_a_conversation_begins_again_where_it_was_asked_for(records: MessageRecords) -> None:
    """`/new` would forget another person's conversation, or not the caller's."""
    await records.begin_afresh("telegram", "42", "ada", DAY_S, idle_s=60.0)
    assert await records.afresh_since("telegram", "42", "ada") == DAY_S
    assert await records.afresh_since("telegram", "42", "bob") == 0.0
    assert await records.afresh_since("telegram", "43", "ada") == 0.0
    await records.begin_afresh("telegram", "42", "ada", DAY_S + 9, idle_s=60.0)
    assert await records.afresh_since("telegram", "42", "ada") == DAY_S + 9


async def test_beginnings_that_no_longer_matter_are_dropped(records: MessageRecords) -> None:
    """Every `/new` of every person would be kept forever."""
    await records.begin_afresh("telegram", "42", "ada", 100.0, idle_s=60.0)
    await records.begin_afresh("telegram", "42", "bob", 161.0, idle_s=60.0)
    assert await records.afresh_since("telegram", "42", "ada") == 0.0


async def test_a_forgotten_person_leaves_no_beginning(records: MessageRecords) -> None:
    """`/forget me` would leave where and when a person talked."""
    for user in ("ada", "bob"):
        await records.begin_afresh("telegram", "42", user, 100.0, idle_s=60.0)
    await records.forget("ada")
    assert await records.afresh_since("telegram", "42", "ada") == 0.0
    assert await records.afresh_since("telegram", "42", "bob") == 100.0


async def test_a_note_is_kept_by_name(records: MessageRecords) -> None:
    """Commands would be sent to Discord at every start."""
    assert await records.noted("tree") is None
    await records.note("tree", "a")
    await records.note("tree", "b")
    assert await records.noted("tree") == "b"


# ---------------------------------------------------------------- ended links


async def test_ends_of_links_are_counted_for_each_job(
    ends: LinkEnds, job_ids: tuple[int, ...]
) -> None:
    """A deleted image could still be fetched with its link."""
    assert await ends.of(job_ids[0]) == 0
    await ends.end(job_ids[0])
    await ends.end(job_ids[0])
    assert await ends.of(job_ids[0]) == 2
    assert await ends.of(job_ids[1]) == 0


async def test_ending_the_links_of_no_job_is_fine(ends: LinkEnds) -> None:
    """A deleted job would make a command fail."""
    await ends.end(10**6)
    assert await ends.of(10**6) == 0


# ---------------------------------------------------------------- messages that are not true yet


async def test_an_update_goes_its_way_until_it_is_settled(updates: PendingUpdates) -> None:
    """After a restart "Loading flux…" would be shown forever."""
    task = Task(command="preload", model="flux", language="de")
    update = await updates.begin("telegram", "42", ref("1"), task, 5.0)
    assert (update.ref, update.request, update.task, update.runs) == (None, ref("1"), task, 0)
    update = await updates.shown(update, ref("2", chat="43"))
    update = await updates.begun(update)
    update = await updates.done(update, ("It is ready.",))
    assert (update.ref, update.runs, update.outcome) == (ref("2", chat="43"), 1, ("It is ready.",))
    assert list(await updates.all()) == [update]
    await updates.settle(update)
    assert list(await updates.all()) == []


async def test_updates_come_oldest_first(updates: PendingUpdates) -> None:
    """A chat would be told of a later act before an earlier one."""
    made = [await updates.deleted(ref(f"{number}"), "en", 5.0) for number in range(3)]
    assert list(await updates.all()) == made
    assert {update.task for update in made} == {None}


async def test_an_update_follows_its_chat_without_its_messages(updates: PendingUpdates) -> None:
    """The bot would edit a message of another chat that has the same number."""
    update = await updates.moved(await updates.deleted(ref("1"), "en", 5.0), "-100")
    assert (update.chat, update.ref, update.request) == ("-100", None, None)


async def test_a_job_deleted_undelivered_leaves_an_update(
    records: MessageRecords, database: Database, job_ids: tuple[int, ...]
) -> None:
    """Its message would promise a result forever."""
    await records.note_message(job_ids[0], ref("1"), 5.0)
    await JobStore(database).erase(job_ids)
    (update,) = await records.updates.all()
    assert (update.ref, update.language, update.task) == (ref("1"), "de", None)
