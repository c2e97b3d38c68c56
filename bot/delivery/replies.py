"""Sends answers other than new jobs: replies, results shown again, forms, long-running tasks."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from bot.core.answers import AcceptedJob, Answer, Deletion, FormReply, Reply, ResultReply, TaskReply
from bot.core.content import Content, Form
from bot.core.errors import ChatError, ChatGone, ContentRefused, TooLarge
from bot.core.platform import ChatPlatform, Invocation, MessageRef, ShowForm
from bot.delivery.follow_ups import Again, FollowUps
from bot.delivery.records import MessageRecords, ReplyPrompt
from bot.delivery.result_renderer import ResultRenderer, in_words
from bot.delivery.retries import ChatRetry, Terms
from bot.delivery.tasks import TaskRunner
from bot.texts.catalogue import language_of, say
from bot.texts.paging import first_page
from queueing.core.concurrency import came

log = logging.getLogger(__name__)

_NOTING_S = 2.0
_FORM_PATIENCE_S = 2.0


@dataclass(kw_only=True, eq=False, repr=False)
class Replies:
    """Sends the answers to calls, on every platform."""

    platforms: Mapping[str, ChatPlatform]
    records: MessageRecords
    patience: ChatRetry
    renderer: ResultRenderer
    extra_messages: FollowUps
    owed: TaskRunner
    _asking: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict, init=False)

    async def asked(self, platform: str, chat: str) -> None:
        """Wait up to two seconds until a prompt being sent to that chat is recorded.

        A person's reply may arrive before the record is stored.
        """
        noted = self._asking.get((platform, chat))
        if noted is None:
            return
        if not await came(noted, _NOTING_S):
            log.info("the prompt sent to %s:%s is not recorded yet", platform, chat)

    async def give(self, call: Invocation, answer: Answer) -> None:
        """Send a call's answer. Failures are logged, never raised."""
        try:
            match answer:
                case Reply(content=content, private=private):
                    await self._respond(call, content, private=private)
                case ResultReply(direct=True):
                    await self._copy(call, answer)
                case ResultReply():
                    await self._show_again(call, answer)
                case TaskReply():
                    respond = partial(self._respond, call, private=False)
                    await self.owed.carry_out(call, answer, respond)
                case FormReply():
                    await self._ask(call, answer)
                case Deletion():
                    await self._remove(call, answer)
                case AcceptedJob() | None:
                    pass  # the job's status message is the answer
        except ChatError as error:
            log.warning("call %s from %s could not be answered: %s", call.key, call.user, error)
        except Exception:
            log.exception("call %s from %s could not be answered", call.key, call.user)

    async def _respond(
        self, call: Invocation, content: Content, *, private: bool
    ) -> MessageRef | None:
        """Answer a call, retrying on failure. A duplicate answer is better than none."""
        if private and call.alert is not None and await call.alert(content):
            return None
        limits = self.platforms[call.platform].limits
        content = first_page(content, limits)
        free = limits.free_answers and call.request is None and call.in_time()
        terms = Terms(burst=True, free=free)
        for words in dict.fromkeys((content, in_words(content), _neutral(call))):
            try:
                return await self.patience.ask(
                    call.platform, call.chat, partial(call.respond, words, private), terms
                )
            except (ContentRefused, TooLarge) as refusal:
                log.warning("the chat refused the answer to call %s: %s", call.key, refusal)
        return None

    async def _show_again(self, call: Invocation, shown: ResultReply) -> None:
        limits = self.platforms[call.platform].limits.in_chat(call.chat)
        rendered = await self.renderer.render(shown.job, shown.origin, limits)
        respond = partial(self._respond, call, private=False)
        again = Again(respond=respond, send=partial(self._send, call), edit=self._edit)
        await self.extra_messages.send_again(again, rendered, shown.job)

    async def _copy(self, call: Invocation, shown: ResultReply) -> None:
        """Send a result to the caller's direct messages, and tell them whether it worked."""
        try:
            await self._send_directly(call, shown)
            said = "result.copied"
        except ChatError as error:
            log.info("job %s: could not be copied to %s: %s", shown.job.id, call.user, error)
            said = "result.not_copied"
        content = Content(body=say(language_of(call.language), said))
        await self._respond(call, content, private=True)

    async def _send_directly(self, call: Invocation, shown: ResultReply) -> None:
        platform = self.platforms[call.platform]
        if platform.limits.direct is None:
            raise ChatGone("this platform has no direct messages")
        direct = partial(platform.limits.direct, call.user)
        chat = await self.patience.ask(call.platform, call.chat, direct, Terms())
        limits = replace(platform.limits.in_chat(chat), direct=None)
        rendered = await self.renderer.render(shown.job, shown.origin, limits)
        for number, content in enumerate((rendered.content, *rendered.rest)):
            nonce = f"{call.key} copy-{number}"  # another call copies it again
            send = partial(platform.send, chat, content, nonce=nonce)
            terms = Terms(upload=bool(content.files))
            sent = await self.patience.ask(call.platform, chat, send, terms)
            await self.extra_messages.shown_again(shown.job, sent, content)

    async def _send(
        self, call: Invocation, content: Content, reply_to: MessageRef | None
    ) -> MessageRef:
        """Post a further message. It is not retried if it may already have been sent."""
        platform = self.platforms[call.platform]
        chat = call.chat if reply_to is None else reply_to.chat
        return await self.patience.ask(
            call.platform,
            chat,
            lambda: platform.send(chat, content, reply_to=reply_to or call.request),
            Terms(upload=bool(content.files), repeat=False),
        )

    async def _edit(self, ref: MessageRef, content: Content) -> None:
        platform = self.platforms[ref.platform]
        terms = Terms(upload=bool(content.files))
        await self.patience.ask(ref.platform, ref.chat, lambda: platform.edit(ref, content), terms)

    async def _ask(self, call: Invocation, asked: FormReply) -> None:
        """Show a form. Without form support, ask for a reply and record what it is for."""
        form = asked.form
        if call.show_form is not None and await self._show_form(call, call.show_form, form):
            return
        if form.job_id is None:
            await self._respond(call, asked.content, private=False)
            return
        place = (call.platform, call.chat)
        noted = self._asking[place] = asyncio.Event()
        try:
            ref = await self._respond(call, asked.content, private=False)
            if ref is not None:
                image = "" if form.number is None else f" --number {form.number}"
                prompt = ReplyPrompt(command=form.command + image, job_id=form.job_id)
                await self.records.note_prompt(ref, prompt)
        finally:
            noted.set()
            if self._asking.get(place) is noted:
                del self._asking[place]

    async def _show_form(self, call: Invocation, show: ShowForm, form: Form) -> bool:
        """Open a form.

        Returns whether it opened. Platforms accept a form only for a few seconds.
        """
        terms = Terms(free=True, patience_s=_FORM_PATIENCE_S)
        try:
            await self.patience.ask(call.platform, call.chat, lambda: show(form), terms)
        except ChatError as error:
            log.info("call %s: could not open its form: %s", call.key, error)
            return False
        return True

    async def _remove(self, call: Invocation, removed: Deletion) -> None:
        failed = False
        for ref in removed.refs:
            try:
                await self._delete(ref, removed.instead)
            except ChatError as error:
                log.warning("could not delete message %s: %s", ref.message, error)
                failed = True
        if failed or not call.button:
            said = removed.failed if failed else removed.said
            await self._respond(call, said, private=True)

    async def _delete(self, ref: MessageRef, instead: Content) -> None:
        """Delete a message, or blank it if it cannot be deleted (old messages on Telegram)."""
        platform = self.platforms[ref.platform]
        try:
            await self.patience.ask(ref.platform, ref.chat, lambda: platform.delete(ref), Terms())
        except (ContentRefused, ChatGone):
            await self._edit(ref, instead)


def _neutral(call: Invocation) -> Content:
    """Return the text for a chat that refuses everything else."""
    return Content(body=say(language_of(call.language), "refused.internal"))
