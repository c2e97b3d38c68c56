"""Keeps every job's status message true, delivers results, and sends every other answer.

Events only mark cards; one task per chat with something to say renders the newest state when the
chat's budget allows, so a stale text is never sent and nobody waits for a chat but the chat itself.
All that is needed after a restart comes from the database.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pydantic import ValidationError

from bot.cards import Card, Desk
from bot.commands.context import Answer, Asked, Placed, Removed, Reply, Shown, Working
from bot.delivery import Courier, Parcel, Place
from bot.lookout import Lookout
from bot.pacer import Overall, Pace
from bot.people import People
from bot.platforms.base import (
    ChatError,
    ChatGone,
    ChatMoved,
    ChatPlatform,
    ChatUnavailable,
    Content,
    ContentRefused,
    Invocation,
    MessageGone,
    MessageRef,
    SlowDown,
)
from bot.records import Origin, Prompt, Records
from bot.rooms import Rooms
from bot.texts import status
from queueing.jobqueue import JobQueue
from queueing.jobs import Job, JobState
from queueing.ports import Clock, Event, Forgotten, JobChanged, LinesMoved, Progressed
from queueing.reports import Standing
from queueing.requests import TextToImage

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 3600.0
_GIVE_UP_S = 24 * 3600.0


class Presenter:
    """One for all platforms."""

    def __init__(
        self,
        *,
        queue: JobQueue,
        records: Records,
        people: People,
        platforms: Mapping[str, ChatPlatform],
        clock: Clock,
        rooms: Rooms | None = None,
    ) -> None:
        self._rooms = rooms or Rooms()
        self._queue = queue
        self._records = records
        self._people = people
        self._platforms = platforms
        self._clock = clock
        self._courier = Courier(queue, records, clock)
        self._overall = {
            name: Overall(platform.limits.overall_per_s) for name, platform in platforms.items()
        }
        self._cards: dict[int, Card] = {}
        self._lookout = Lookout(
            queue=queue, cards=self._cards.values(), draw=self._draw, stale=self._serve
        )
        self._desks: dict[tuple[str, str], Desk] = {}
        self._expected: dict[str, Invocation] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._early: list[tuple[Invocation, Answer]] = []
        self._all_told = asyncio.Event()

    # ------------------------------------------------------------ what comes in

    def notice(self, event: Event) -> None:
        """Mark what an event made out of date. Called by the queue; never blocks or raises."""
        match event:
            case JobChanged(job=job):
                self._job_changed(job)
            case Progressed(job_id=job_id, progress=progress):
                if (card := self._cards.get(job_id)) is not None:
                    card.advance(progress)
                    self._serve(card)
            case Forgotten(job_ids=job_ids):
                self._forget(job_ids)
            case LinesMoved(models=models):
                self._lookout.moved(models)

    def expect(self, invocation: Invocation) -> None:
        """Remember how a call is answered, should it become a job."""
        self._expected[invocation.key] = invocation

    def answer(self, invocation: Invocation, answer: Answer) -> None:
        """Send a call's answer; a placed job's status message is already on its way."""
        self._expected.pop(invocation.key, None)
        if self._tasks is None:
            self._early.append((invocation, answer))
            return
        match answer:
            case Reply(content=content, private=private):
                self._tasks.create_task(self._reply(invocation, content, private))
            case Shown():
                self._tasks.create_task(self._show_again(invocation, answer))
            case Working():
                self._tasks.create_task(self._work(invocation, answer))
            case Asked():
                self._tasks.create_task(self._ask(invocation, answer))
            case Removed():
                self._tasks.create_task(self._remove(invocation, answer))
            case Placed() | None:
                pass

    def open_jobs_of(self, user: str) -> Sequence[str]:
        """Return the numbers of a person's open jobs, newest first, for completion."""
        own = [card.job for card in self._cards.values() if card.job.owner == user]
        return [str(job.id) for job in reversed(own) if not job.state.final]

    # ------------------------------------------------------------ running

    async def run(self) -> None:
        """Serve all chats until cancelled; begins with what an earlier run left unsaid."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            while self._early:
                self.answer(*self._early.pop(0))
            try:
                for job in await self._queue.unacknowledged():
                    self._job_changed(job)
                for card in list(self._cards.values()):
                    self._serve(card)
                tasks.create_task(self._lookout.run())
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    async def settle(self, timeout_s: float, *, owner: str = "") -> None:
        """Wait until every ended job's end is in its chat, at most that long.

        `owner` narrows it to people whose id begins so.
        """

        def untold() -> bool:
            ended = (card.job for card in self._cards.values() if card.job.state.final)
            return any(job.owner.startswith(owner) for job in ended)

        try:
            async with asyncio.timeout(timeout_s):
                while untold():
                    self._all_told.clear()
                    await self._all_told.wait()
        except TimeoutError:
            log.info("stopping with results not yet delivered; they are kept")

    def _job_changed(self, job: Job) -> None:
        card = self._cards.get(job.id)
        if card is None:
            card = self._new_card(job)
            if card is None:
                return
        elif job.version < card.job.version:
            return
        if job.state is not card.job.state:
            card.progress = card.moment = None
            if job.state is JobState.PENDING:
                card.written = ""  # it begins anew
        card.job, card.changed = job, True
        self._serve(card)

    def _new_card(self, job: Job) -> Card | None:
        if job.acknowledged:
            return None
        try:
            origin = Origin.model_validate_json(job.reply_to)
        except ValidationError:
            return None  # a job nobody waits for in a chat, such as an enhancement
        if origin.platform not in self._platforms:
            return None  # its platform is switched off: it stays unacknowledged
        card = Card(job=job, origin=origin)
        call = self._expected.pop(origin.key, None)
        if call is not None and not call.button:
            card.respond = call.respond
        self._cards[job.id] = card
        self._desk(card).cards[job.id] = card
        return card

    def _desk(self, card: Card) -> Desk:
        return self._desk_at(card.origin.platform, card.origin.chat)

    def _desk_at(self, platform_name: str, chat: str) -> Desk:
        place = (platform_name, chat)
        if place not in self._desks:
            platform = self._platforms[place[0]]
            pace = Pace(platform.limits, group=platform.is_group(place[1]))
            self._desks[place] = Desk(pace=pace)
        return self._desks[place]

    def _serve(self, card: Card) -> None:
        desk = self._desk(card)
        desk.wake.set()
        if not desk.served and self._tasks is not None:
            desk.served = True
            self._tasks.create_task(self._serve_desk(desk, card.origin.platform))

    async def _serve_desk(self, desk: Desk, platform: str) -> None:
        try:
            while (following := desk.next_card(self._clock.now(), len(self._cards))) is not None:
                card, due = following
                desk.wake.clear()
                wait_s = due - self._clock.now()
                if wait_s > 0:
                    await _wait(desk.wake, wait_s)
                    continue
                if not self._is_free(desk, card):
                    await asyncio.sleep(self._overall[platform].reserve(self._clock.now()))
                await self._refresh(desk, card)
        finally:
            desk.served = False

    def _is_free(self, desk: Desk, card: Card) -> bool:
        """Tell whether the card's next request is on nobody's account."""
        return card.ref is None and card.respond is not None and desk.pace.free_answers

    # ------------------------------------------------------------ one card

    async def _refresh(self, desk: Desk, card: Card) -> None:
        card.changed = card.advanced = card.moved = False
        platform = self._platforms[card.origin.platform]
        try:
            if not card.looked_up:
                await self._look_up(card)
            if card.job.state.final:
                await self._finish(desk, platform, card)
            else:
                await self._update(desk, platform, card)
            card.failures = 0
        except SlowDown as slow:
            self._slow_down(desk, platform, card, slow.retry_after_s)
        except MessageGone:
            card.ref, card.muted, card.changed = None, True, card.job.state.final
        except ChatMoved as moved:
            await self._follow(card, moved.new_chat)
        except (ChatGone, ChatUnavailable) as error:
            await self._try_later(card, error)
        except Exception as error:
            if card.job.id not in self._cards:
                return  # it was forgotten just now: nothing can be noted of it any more
            log.exception("job %s: its message could not be shown", card.job.id)
            await self._try_later(card, error)

    def _slow_down(
        self, desk: Desk, platform: ChatPlatform, card: Card, retry_after_s: float
    ) -> None:
        now = self._clock.now()
        card.changed = True
        free_edit_s = platform.limits.free_edit_s
        if free_edit_s is None or card.sent_at is None or now - card.sent_at < free_edit_s:
            desk.pace.slow_down(now, retry_after_s)
        elif card.job.state.final and card.ref is not None:
            card.ref = None  # too old to be edited freely: its end comes as a fresh message
        else:
            card.hold_until = now + retry_after_s

    async def _look_up(self, card: Card) -> None:
        sent = await self._records.message(card.job.id)
        if sent is not None:
            card.ref, card.sent_at = sent.ref, sent.sent_at
        card.looked_up = True

    async def _update(self, desk: Desk, platform: ChatPlatform, card: Card) -> None:
        if card.muted:
            return  # its message was deleted; only its end makes a new one
        content = await self._open_content(card)
        if content is not None:
            await self._show(desk, platform, card, content)

    def _hidden(self, card: Card, content: Content) -> Content:
        """Hide pictures where the chat's operator wants that."""
        if not content.files or not isinstance(card.job.request, TextToImage):
            return content
        room = self._rooms.of(card.origin.platform, card.origin.chat)
        return replace(content, spoiler=room.spoiler)

    async def _open_content(self, card: Card) -> Content | None:
        standing = (await self._queue.standings([card.job])).get(card.job.id)
        if standing is None or standing.job.state.final:
            return None  # it ended just now: that event serves this card again
        card.stand(standing)
        return self._draw(card, standing)

    def _draw(self, card: Card, standing: Standing) -> Content:
        """Return what the message of an open job should show."""
        standing = replace(standing, done_at=card.steady(standing.done_at, self._clock.now()))
        limits = self._platforms[card.origin.platform].limits
        content = status.open_message(
            standing, card.progress, card.origin.language, previews=limits.previews
        )
        return self._hidden(card, self._courier.last_page(content, limits))

    async def _show(self, desk: Desk, platform: ChatPlatform, card: Card, content: Content) -> None:
        """Make the card's message show this; the first time, send it."""
        if card.job.id not in self._cards:
            return  # forgotten while its content was made
        if content == card.shown and card.ref is not None:
            return
        if not self._is_free(desk, card):
            desk.pace.spend(self._clock.now())
        if card.ref is not None:
            await platform.edit(card.ref, content)
        else:
            ref = await self._first(platform, card, replace(content, files=()))
            now = self._clock.now()
            await self._records.note_message(card.job.id, ref, now)
            card.ref, card.sent_at = ref, now
            if content.files:
                await self._turn(desk)
                await platform.edit(ref, content)
        card.shown, card.edited_at, card.why_shown = content, self._clock.now(), card.why

    async def _first(self, platform: ChatPlatform, card: Card, content: Content) -> MessageRef:
        respond, card.respond = card.respond, None
        if respond is not None:
            try:
                ref = await respond(content, False)
            except (ChatUnavailable, MessageGone) as error:
                log.info("job %s: the call could not be answered (%s)", card.job.id, error)
            else:
                if ref is not None:
                    return ref
        return await platform.send(
            card.origin.chat,
            content,
            reply_to=card.origin.request_ref(),
            nonce=f"job-{card.job.id}" + ("" if card.sent_at is None else "-fresh"),
        )

    async def _finish(self, desk: Desk, platform: ChatPlatform, card: Card) -> None:
        """Turn the message into the job's end, send what does not fit in it, acknowledge."""
        if card.job.state is JobState.FAILED:
            await self._people.give_back(card.job.id)
        parcel = await self._courier.pack(card.job, card.origin, platform.limits, card.written)
        await self._show(desk, platform, card, self._hidden(card, parcel.content))
        parcel = replace(parcel, rest=tuple(self._hidden(card, each) for each in parcel.rest))
        if card.ref is None:
            return
        place = Place(platform=platform, ref=card.ref, turn=partial(self._turn, desk))
        await self._courier.send_rest(place, card.job, parcel)
        await self._queue.acknowledge(card.job)
        self._drop(card)
        if platform.limits.pings:
            await self._courier.ping(place, card.job, card.origin)

    async def _turn(self, desk: Desk) -> None:
        """Wait for a further message's place in the chat's budget, and take it."""
        now = self._clock.now()
        while (at := desk.pace.earliest(now, final=True)) > now:
            await asyncio.sleep(at - now)
            now = self._clock.now()
        desk.pace.spend(self._clock.now())

    def _drop(self, card: Card) -> None:
        self._cards.pop(card.job.id, None)
        desk = self._desk(card)
        desk.cards.pop(card.job.id, None)
        self._all_told.set()

    async def _follow(self, card: Card, new_chat: str) -> None:
        platform, old = card.origin.platform, card.origin.chat
        await self._records.move_chat(platform, old, new_chat)
        cards = list(self._desk(card).cards.values())
        self._desks.pop((platform, old), None)
        for each in cards:
            each.origin = each.origin.model_copy(update={"chat": new_chat})
            if each.ref is not None:
                each.ref = replace(each.ref, chat=new_chat)
            each.changed = True
            self._desk(each).cards[each.job.id] = each
            self._serve(each)

    async def _try_later(self, card: Card, error: Exception) -> None:
        """Pause this card, longer each time; after a day of vain deliveries, give up."""
        if card.job.id not in self._cards:
            return
        now = self._clock.now()
        card.failures += 1
        pause = min(_FIRST_PAUSE_S * 2.0 ** (card.failures - 1), _LONGEST_PAUSE_S)
        card.hold_until, card.changed = now + pause, True
        log.warning("job %s: chat not reached, again in %.0f s: %s", card.job.id, pause, error)
        if not card.job.state.final:
            return
        vain = await self._records.note_unreachable(card.job.id, now, given_up=False)
        if now - vain.since > _GIVE_UP_S:
            await self._records.note_unreachable(card.job.id, now, given_up=True)
            await self._queue.acknowledge(card.job)
            self._drop(card)
            log.error("job %s: undeliverable after a day; its result is kept", card.job.id)

    def _forget(self, job_ids: Collection[int]) -> None:
        """Let go of jobs that are being deleted, and empty their messages."""
        for card in [card for card in self._cards.values() if card.job.id in job_ids]:
            self._drop(card)
            if self._tasks is not None and card.ref is not None:
                self._tasks.create_task(self._show_forgotten(card, card.ref))

    async def _show_forgotten(self, card: Card, ref: MessageRef) -> None:
        try:
            await self._turn(self._desk(card))
            content = status.forgotten(card.origin.language)
            await self._platforms[ref.platform].edit(ref, content)
        except ChatError as error:
            log.info("job %s: deleted, but its message was not reached: %s", card.job.id, error)
        except Exception:
            log.exception("job %s: deleted, but its message was not reached", card.job.id)

    # ------------------------------------------------------------ answers that are no jobs

    async def _reply(self, call: Invocation, content: Content, private: bool) -> None:
        try:
            limits = self._platforms[call.platform].limits
            await call.respond(self._courier.first_page(content, limits), private)
        except ChatError as error:
            log.warning("call %s of %s not answered: %s", call.key, call.user, error)
        except Exception:
            log.exception("call %s of %s not answered", call.key, call.user)

    async def _show_again(self, call: Invocation, shown: Shown) -> None:
        platform = self._platforms[call.platform]
        turn = partial(self._turn, self._desk_at(call.platform, call.chat))
        card = Card(job=shown.job, origin=shown.origin)
        try:
            parcel = await self._courier.pack(shown.job, shown.origin, platform.limits)
            hidden = Parcel(
                content=self._hidden(card, parcel.content),
                rest=tuple(self._hidden(card, each) for each in parcel.rest),
            )
            await self._courier.send_again(call, platform, hidden, shown.job, turn)
        except ChatError as error:
            log.warning("call %s of %s not answered: %s", call.key, call.user, error)
        except Exception:
            log.exception("call %s of %s not answered", call.key, call.user)

    async def _work(self, call: Invocation, work: Working) -> None:
        platform = self._platforms[call.platform]
        try:
            ref = await call.respond(work.content, False)
        except ChatError as error:
            log.warning("call %s of %s not answered: %s", call.key, call.user, error)
            ref = None
        try:
            content = await work.later()
            if ref is not None:
                await platform.edit(ref, content)
            else:
                await platform.send(call.chat, content, reply_to=call.request)
        except ChatError as error:
            log.warning("the outcome of %s was not shown: %s", call.key, error)
        except Exception:
            log.exception("call %s of %s failed", call.key, call.user)

    async def _ask(self, call: Invocation, asked: Asked) -> None:
        """Show a form; where there is none, ask for a reply and remember what it is meant for."""
        form = asked.form
        try:
            if call.show_form is not None:
                await call.show_form(form)
                return
            ref = await call.respond(asked.content, False)
            if ref is not None and form.job_id is not None:
                prompt = Prompt(command=form.command, job_id=form.job_id)
                await self._records.note_prompt(ref, prompt)
        except ChatError as error:
            log.warning("call %s of %s: no form: %s", call.key, call.user, error)
        except Exception:
            log.exception("call %s of %s: no form", call.key, call.user)

    async def _remove(self, call: Invocation, removed: Removed) -> None:
        platform = self._platforms[call.platform]
        for ref in removed.refs:
            try:
                await _delete(platform, ref, removed.instead)
            except ChatError as error:
                log.warning("message %s was not deleted: %s", ref.message, error)
            except Exception:
                log.exception("message %s was not deleted", ref.message)
        if not call.button:
            await self._reply(call, removed.said, private=True)


async def _delete(platform: ChatPlatform, ref: MessageRef, instead: Content) -> None:
    """Delete a message; one that may not be deleted any more (Telegram's old ones) is emptied."""
    try:
        await platform.delete(ref)
    except (ContentRefused, ChatGone):
        await platform.edit(ref, instead)


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass
