"""Sends the answers that are no jobs: replies, results brought back, forms, work that takes a while."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

from bot.commands.context import Answer, Asked, Placed, Removed, Reply, Shown, Working
from bot.delivery import Courier
from bot.desks import Desks
from bot.parcels import Packer, first_page
from bot.platforms.base import (
    ChatError,
    ChatGone,
    ChatPlatform,
    Content,
    ContentRefused,
    Invocation,
    MessageRef,
    SlowDown,
)
from bot.records import Prompt, Records

log = logging.getLogger(__name__)

_NOTING_S = 2.0
_PATIENCE_S = 60.0  # an answer that may only come later is of no use any more


class Answers:
    """One for all platforms."""

    def __init__(
        self,
        *,
        platforms: Mapping[str, ChatPlatform],
        records: Records,
        desks: Desks,
        packer: Packer,
        courier: Courier,
    ) -> None:
        self._platforms = platforms
        self._records = records
        self._desks = desks
        self._packer = packer
        self._courier = courier
        self._asking: dict[tuple[str, str], asyncio.Event] = {}

    async def asked(self, platform: str, chat: str) -> None:
        """Wait until a prompt on its way into that chat is noted; a reply may be faster than that."""
        noted = self._asking.get((platform, chat))
        if noted is None:
            return
        try:
            async with asyncio.timeout(_NOTING_S):
                await noted.wait()
        except TimeoutError:
            log.info("a prompt into %s:%s is not noted yet", platform, chat)

    async def give(self, call: Invocation, answer: Answer) -> None:
        """Send a call's answer; what cannot be sent is logged, nothing is raised."""
        try:
            match answer:
                case Reply(content=content, private=private):
                    await self._respond(call, content, private=private)
                case Shown():
                    await self._show_again(call, answer)
                case Working():
                    await self._work(call, answer)
                case Asked():
                    await self._ask(call, answer)
                case Removed():
                    await self._remove(call, answer)
                case Placed() | None:
                    pass  # the job's status message is the answer
        except ChatError as error:
            log.warning("call %s of %s not answered: %s", call.key, call.user, error)
        except Exception:
            log.exception("call %s of %s not answered", call.key, call.user)

    async def _respond(
        self, call: Invocation, content: Content, *, private: bool
    ) -> MessageRef | None:
        """Answer within the chat's budget; a penalty is waited out, as nothing was sent."""
        limits = self._platforms[call.platform].limits
        pace = self._desks.at(call.platform, call.chat).pace
        content = first_page(content, limits)
        if not limits.free_answers or call.request is not None:
            await self._desks.turn(call.platform, call.chat, burst=True)
        try:
            return await call.respond(content, private)
        except SlowDown as slow:
            if slow.retry_after_s > _PATIENCE_S:
                raise
            pace.slow_down(self._desks.now(), slow.retry_after_s)
            await asyncio.sleep(slow.retry_after_s)
            return await call.respond(content, private)

    async def _show_again(self, call: Invocation, shown: Shown) -> None:
        platform = self._platforms[call.platform]
        turn = partial(self._desks.turn, call.platform, call.chat)
        parcel = await self._packer.pack(shown.job, shown.origin, platform.limits)
        await self._courier.send_again(call, platform, parcel, shown.job, turn)

    async def _work(self, call: Invocation, work: Working) -> None:
        platform = self._platforms[call.platform]
        try:
            ref = await self._respond(call, work.content, private=False)
        except ChatError as error:
            log.warning("call %s of %s not answered: %s", call.key, call.user, error)
            ref = None
        content = await work.later()
        await self._desks.turn(call.platform, call.chat)
        if ref is not None:
            await platform.edit(ref, content)
        else:
            await platform.send(call.chat, content, reply_to=call.request)

    async def _ask(self, call: Invocation, asked: Asked) -> None:
        """Show a form; where there is none, ask for a reply and remember what it is meant for."""
        form = asked.form
        if call.show_form is not None:
            await call.show_form(form)
            return
        if form.job_id is None:
            await self._respond(call, asked.content, private=False)
            return
        place = (call.platform, call.chat)
        noted = self._asking[place] = asyncio.Event()
        try:
            ref = await self._respond(call, asked.content, private=False)
            if ref is not None:
                prompt = Prompt(command=form.command, job_id=form.job_id)
                await self._records.note_prompt(ref, prompt)
        finally:
            noted.set()
            if self._asking.get(place) is noted:
                del self._asking[place]

    async def _remove(self, call: Invocation, removed: Removed) -> None:
        for ref in removed.refs:
            try:
                await self._delete(ref, removed.instead)
            except ChatError as error:
                log.warning("message %s was not deleted: %s", ref.message, error)
        if not call.button:
            await self._respond(call, removed.said, private=True)

    async def _delete(self, ref: MessageRef, instead: Content) -> None:
        """Delete a message; one that may not be deleted any more (Telegram's old ones) is emptied."""
        platform = self._platforms[ref.platform]
        await self._desks.turn(ref.platform, ref.chat)
        try:
            await platform.delete(ref)
        except (ContentRefused, ChatGone):
            await self._desks.turn(ref.platform, ref.chat)
            await platform.edit(ref, instead)
