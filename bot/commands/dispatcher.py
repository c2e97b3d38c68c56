"""The entry point for calls: finds a call's command, checks it, runs its handler and answers.

A person's mistakes are answered with one sentence. Faults of the bot are logged with their cause
and answered with a neutral sentence. No call can crash its platform.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain

from bot.commands.call.context import (
    Call,
    Context,
    offered,
    reply,
    tells_of_jobs,
    unknown_command,
)
from bot.commands.call.files import used_files
from bot.commands.call.jobs import answer_behind, has_words
from bot.commands.call.parser import Args, check, filled, options, parse, usage, words_in
from bot.commands.call.pasted import with_pasted
from bot.commands.jobs import edit
from bot.commands.make import ask
from bot.commands.me import help as help_command
from bot.commands.registry import HANDLERS, PANELS
from bot.core.answers import Answer, Reply
from bot.core.arrivals import Arrival, Arrivals
from bot.core.asker import Asker
from bot.core.attachments import SPOKEN, AttachmentKind
from bot.core.command import Command, Param, ParamKind, Topic
from bot.core.content import Content, Part
from bot.core.panels import Panel
from bot.core.platform import ALONE, ChatLease, Invocation
from bot.core.refusals import Declined, Refusal, RefusalKind, refusal_of
from bot.delivery.presenter import Presenter
from bot.people.people import LanguageTold, Person
from bot.requests.limits import ban_of
from bot.requests.rules import EVERYTHING, Rule, allows_kind, kind_refused
from bot.texts.catalogue import language_of, names_of, plain, say, word
from bot.texts.refusals import sentence
from queueing.core.constructors import altering
from queueing.core.errors import Fenced, Refused, StoreError

_SLIP = re.compile(r"/[/\s]+([^\W\d_][\w-]*)|/([A-Za-z][\w-]*)@\w+(?=[\s=]|$)")


def meant(
    invocation: Invocation,
    commands: Collection[str],
    is_model: Callable[[str], bool] = lambda _: False,
) -> Invocation:
    """Return the call that was probably meant. `commands` are the names people may type.

    Images without text become `/describe`. A forwarded text without a comment, another person's
    text replied to with the bare name, or a recording, alone or with a model's name, is a question
    in itself. "//image cat" and "/ image cat" are typing slips, and "/image@usher cat" is
    Telegram's notation. None of them is a question for a model, so they are answered with the help
    about that command. The word "help" alone, in any language, asks for the commands.
    """
    if invocation.command != "ask" or invocation.options:
        return invocation
    text = invocation.text.strip()
    kinds = {file.kind for file in invocation.files}
    theirs = invocation.quoted and invocation.quoted_by and not kinds
    if not text and (invocation.forwarded or theirs):
        return replace(invocation, command="listen")
    if not text and kinds == {AttachmentKind.IMAGE}:
        return replace(invocation, command="describe")
    if kinds & SPOKEN and (not text or is_model(text)):
        return replace(invocation, command="listen")
    slip = _SLIP.match(text)
    named = (slip[1] or slip[2]) if slip is not None else ""
    alone = text.casefold() in _HELP and not (kinds or invocation.replied_to)
    if alone or named.lower() in commands:
        return replace(invocation, command="help", text=named, files=())
    return invocation


_TYPED_OPTION = re.compile(r"(?<![\w-])--(?=[a-z])")
_HELP = frozenset(names_of(help_command.COMMAND))
log = logging.getLogger(__name__)
_altered = altering(Invocation)

_SUGGESTED = 25


class Dispatcher:
    """Carries out calls from every platform. Implements `CommandHandler`."""

    def __init__(self, context: Context, presenter: Presenter, *, lease: ChatLease = ALONE) -> None:
        """Create it. Calls are carried out only while the `lease` is held."""
        self.commands: Sequence[Command] = context.commands
        self._by_name: Mapping[str, Command] = {
            name: each for each in context.commands for name in names_of(each)
        }
        self._typed = frozenset(n for n, each in self._by_name.items() if not each.hidden)
        self._context = context
        self._presenter = presenter
        self._arrivals = Arrivals()
        self._lease = lease
        self._closed = False

    def close(self) -> None:
        """Stop carrying out calls, at the end of an orderly shutdown."""
        self._closed = True

    def arrived(self, user: str, chat: str) -> Arrival:
        """Reserve a call's place behind what the same person sent to this chat earlier."""
        return self._arrivals.take(user, chat)

    async def call(self, invocation: Invocation) -> None:
        """Carry out a call. What it accepts is durable when this returns."""
        with invocation.arrival or self.arrived(invocation.user, invocation.chat) as arrival:
            if not invocation.button:  # a button is about an existing job
                await arrival.turn_soon()
            if self._lease.held:
                await self._carry_out(_altered(invocation, arrival=arrival))
            else:
                await self._leave_to_next_holder(invocation)

    async def _is_remark(self, invocation: Invocation) -> bool:
        """Return whether a call is only a comment on a result, meant for people."""
        if not invocation.to_words:
            return False
        if self._closed:
            await _leave_to_next_process(invocation)
            return True
        try:
            return not await has_words(self._context, invocation)
        except StoreError as error:
            log.error("call %s: cannot look up what it replies to: %s", invocation.key, error)  # noqa: TRY400  # not a bug
            return True

    async def _carry_out(self, invocation: Invocation) -> None:
        language = language_of(invocation.language)
        if await self._is_remark(invocation):
            self._presenter.answer(invocation, None)
            return
        if self._closed:
            await _leave_to_next_process(invocation)
            answer: Answer = _words(language, "refused.not_accepting")
            self._presenter.answer(invocation, answer)
            return
        self._presenter.remember_call(invocation)
        context = self._context_of(invocation)
        try:
            invocation = meant(await self._completed(invocation), self._typed, self._is_model)
            invocation = self._without_alias(invocation)
            person = await self._caller(invocation.user)
            language = person.language or language
            await self._remember_rights(invocation)
            invocation = await self._aside(context.admission.rule, invocation, language)
            answer = await self._answer(context, invocation, person, language)
        except Refused as refused:
            refusal = refusal_of(refused, tuple(context.catalog.models))
            if refusal.kind is RefusalKind.NOT_ACCEPTING:
                log.info("refused: %s", refused)
            answer = self._refusal(refusal, language, invocation)
        except Declined as declined:
            answer = self._refusal(declined.refusal, language, invocation)
        except Fenced:
            await self._leave_to_next_holder(invocation)
            return
        except StoreError as error:
            if self._closed:
                await _leave_to_next_process(invocation)
            log.error("call %s of %s: %s", invocation.key, invocation.user, error)  # noqa: TRY400  # not a bug
            answer = _words(language, "refused.not_accepting")
        except Exception:
            log.exception("call %s of %s failed", invocation.key, invocation.user)
            answer = _words(language, "refused.internal")
        self._presenter.answer(_altered(invocation, language=language), answer)

    def _context_of(self, invocation: Invocation) -> Context:
        """Return the context of a call. Admin commands concern all models."""
        command = self._by_name.get(invocation.command)
        if command is not None and command.admin:
            return self._context.under(EVERYTHING)
        return self._context.under(self._context.admission.rules.of(invocation.asker))

    async def _remember_rights(self, invocation: Invocation) -> None:
        """Store the caller's rights in this place, which their API keys carry."""
        carried, access = self._context.carried, self._context.access
        if carried is None or not invocation.group:
            return
        place = f"{invocation.platform}:{invocation.places[-1]}"
        rights = access.counting(invocation.rights)
        await carried.note(invocation.user, place, rights, self._context.clock.now())

    async def _aside(self, rule: Rule, invocation: Invocation, language: str) -> Invocation:
        """Return the call, moved to a place that only its caller reads if a rule requires that.

        Raises `Declined` if there is no such place. Commands that are not about jobs are answered
        in the group.
        """
        command, album = self._by_name.get(invocation.command), invocation.album
        if not (rule.private and invocation.group) or invocation.aside is None:
            return invocation
        if command is None or not tells_of_jobs(command) or (album is not None and not album.asks):
            return invocation
        moved = await invocation.aside(_altered(invocation, language=language))
        self._presenter.remember_call(moved)
        return moved

    def _without_alias(self, invocation: Invocation) -> Invocation:
        command = self._by_name.get(invocation.command)
        if command is None or command.name == invocation.command:
            return invocation
        return replace(invocation, command=command.name)

    async def _caller(self, user: str) -> Person:
        """Return the caller's record. Raises `Fenced` if the lease was lost while reading it."""
        person = await self._context.people.get(user)
        if not self._lease.held:
            raise Fenced("this process no longer holds the lease")
        return person

    async def _leave_to_next_holder(self, invocation: Invocation) -> None:
        """Ignore a call. Never returns if the platform delivers the call again.

        Telegram's update stays unconfirmed, so the next lease holder receives it. A web page
        repeats what was not confirmed. Discord delivers a call once and tells the caller that
        nothing responded.
        """
        log.warning(
            "call %s: ignored, this process no longer holds the chat's lease", invocation.key
        )
        await _leave_to_next_process(invocation)
        self._presenter.answer(invocation, None)

    async def language_of(self, user: str) -> str | None:
        """Return the language a person chose; None if they chose none or it cannot be read."""
        try:
            return (await self._context.people.get(user)).language
        except StoreError as error:
            log.warning("%s: cannot read their language: %s", user, error)
            return None

    def answered(self, platform: str) -> None:
        """Record that a platform answers, which ends the pauses of an outage."""
        self._presenter.answered(platform)

    def telling_languages(self, listener: LanguageTold) -> AbstractContextManager[None]:
        """Call `listener(user, language)` for each choice of a language, until the block ends."""
        return self._context.people.telling(listener)

    async def _completed(self, invocation: Invocation) -> Invocation:
        """Return the call that a reply to one of the bot's prompts completes, or the same call."""
        asked = invocation.replied_to
        if invocation.command != "ask" or asked is None or invocation.options:
            return invocation
        await self._presenter.asked(asked.platform, asked.chat)
        prompt = await self._context.records.prompt(asked)
        if prompt is None:
            return invocation
        command, _, options = prompt.command.partition(" ")
        text = f"{prompt.job_id} {options} {invocation.text}"
        return replace(invocation, command=command, text=text, quoted="")

    async def _answer(
        self, context: Context, invocation: Invocation, person: Person, language: str
    ) -> Answer:
        album, earlier = invocation.album, None
        if album is not None:
            earlier = await self._context.queue.jobs.find(invocation.key)
            if earlier is None and not album.asks:
                return None
        command = self._allowed(context, invocation, person)
        if context.fetch is not None:
            invocation = with_pasted(command, invocation, context.fetch)
        files = used_files(command, invocation, language, joins=earlier is not None)
        if files is not invocation.files:
            invocation = replace(invocation, files=files)
        if earlier is not None:
            call = Call(invocation=invocation, args={}, person=person, language=language)
            return await ask.join_late(context, call, earlier)
        if album is not None:
            ask.refuse_incomplete(album)
        theirs = await self._words_replied_to(context, command, invocation)
        args = self._args(await edit.shaped(context, command, invocation), invocation, theirs)
        call = Call(invocation=invocation, args=args, person=person, language=language)
        return await HANDLERS[command.name](context, call)

    def _refusal(self, refusal: Refusal, language: str, invocation: Invocation) -> Reply:
        """Return the answer to a refused call, with a hint about what would have worked."""
        body = sentence(refusal, language, invocation.command)
        command = self._by_name.get(invocation.command)
        if invocation.options:  # from a form, whose fields have no hyphens
            body = tuple(map(_without_hyphens, body))
        elif command is not None and refusal.kind.value.usage:
            body = (_with_usage(plain(body), command, language),)
        return Reply(content=Content(body=body, refused=True))

    def _allowed(self, context: Context, invocation: Invocation, person: Person) -> Command:
        """Return the called command. Raises `Declined`."""
        if not self._context.access.lets_in(invocation.platform, invocation.places):
            raise Declined(Refusal(RefusalKind.CHAT_NOT_ALLOWED, chat=invocation.places[-1]))
        user, rights = invocation.user, invocation.rights
        if not self._context.access.may_use(invocation.platform, user, rights):
            raise Declined(Refusal(RefusalKind.ROLE_NEEDED))
        if (ban := ban_of(person, self._context.clock.now())) is not None:
            raise Declined(ban)
        admin = self._context.access.is_admin(user, rights)
        command = self._by_name.get(invocation.command)
        if command is None:
            raise unknown_command(invocation.command, offered(self.commands, admin=admin))
        if command.admin and not admin:
            raise Declined(Refusal(RefusalKind.ADMINS_ONLY, command=command.name))
        if command.makes and not (invocation.files or invocation.replied_to):
            _require_able(context, command, invocation, person)
        return command

    async def _words_replied_to(
        self, context: Context, command: Command, invocation: Invocation
    ) -> str:
        """Return the text that is made into something if the call has none of its own."""
        if invocation.quoted_by and not invocation.files:
            return invocation.quoted
        makes = command.topic is Topic.MAKE and not command.prose
        if not makes or invocation.text or invocation.files:
            return ""
        return await answer_behind(context, invocation)

    def _args(self, command: Command, invocation: Invocation, theirs: str) -> Args:
        if invocation.options:
            held = invocation.form and command.opens_form
            fields = filled(command, invocation.options, invocation.text, held=held)
            return check(command, fields)
        return parse(command, invocation.text, self._is_model, theirs)

    def _is_model(self, name: str) -> bool:
        return self._context.queue.models.offer.catalog.is_meant(name)

    async def panel(self, invocation: Invocation) -> Panel:
        """Return the data of a command for a panel. Raises `Declined` or `QueueError`."""
        context = self._context_of(invocation)
        person = await self._caller(invocation.user)
        language = person.language or language_of(invocation.language)
        command = self._allowed(context, invocation, person)
        args = check(command, invocation.options)
        call = Call(invocation=invocation, args=args, person=person, language=language)
        return await PANELS[command.name](context, call)

    def words_of(self, command: str, text: str) -> str:
        """Return the words of a typed call without its model and options, "" if there are none."""
        known = self._by_name.get(command)
        return text if known is None else words_in(known, text, self._is_model)

    def suggest(self, param: Param, typed: str, asker: Asker) -> Sequence[str]:
        """Return up to 25 values for a parameter from memory, those with the typed prefix first."""
        values = self._values(param, asker)
        start = typed.casefold()
        fitting = [value for value in values if start in value.casefold()]
        fitting.sort(key=lambda value: not value.casefold().startswith(start))
        return fitting[:_SUGGESTED]

    def _values(self, param: Param, asker: Asker) -> Sequence[str]:
        catalog = self._context.queue.models.offer.catalog
        match param.kind:
            case ParamKind.MODEL:
                mine = self._context.admission.of(asker).catalog
                able = chain.from_iterable(map(mine.able, param.able))
                # Only admin commands need no ability.
                return tuple(dict.fromkeys(able)) if param.able else tuple(catalog.models)
            case ParamKind.HOST:
                return catalog.host_names
            case ParamKind.JOB:
                return (*self._presenter.open_jobs_of(asker.user), *param.choices)
            case ParamKind.SIZE:
                return (*self._context.admission.of(asker).offered_sizes, *param.choices)
            case ParamKind.STYLE:
                return tuple(self._context.admission.of(asker).offered_styles)
            case _:
                return param.choices


def _require_able(
    context: Context, command: Command, invocation: Invocation, person: Person
) -> None:
    """Refuse a call without images that asks for what nothing may do here. Raises `Declined`."""
    if not any(allows_kind(context.admission.rule, each) for each in command.makes):
        raise Declined(kind_refused(command.makes[0]))
    is_bare = not (invocation.text.strip() or invocation.options)
    if is_bare and not any(map(context.catalog.able, command.makes)):
        context.admission.usual_model(person, command.makes[0])


async def _leave_to_next_process(invocation: Invocation) -> None:
    """Never return for a call that the platform delivers again."""
    if invocation.comes_again:
        await asyncio.get_running_loop().create_future()


def _without_hyphens(part: Part) -> Part:
    return _TYPED_OPTION.sub("", part) if isinstance(part, str) else part


def _with_usage(problem: str, command: Command, language: str) -> str:
    form = usage(command)
    if not any(param.positional for param in command.params):
        form = " ".join([form, *(f"[--{param.name} …]" for param in options(command))])
    parts = [word(language, "refused.usage", problem=problem, usage=form)]
    if command.example is not None:
        parts.append(word(language, "help.example", example=word(language, command.example)))
    if options(command):
        parts.append(word(language, "help.options", command=command.name))
    return "\n".join(parts)


def _words(language: str, key: str) -> Reply:
    return reply(say(language, key))
