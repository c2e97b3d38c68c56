"""Updates messages with a task's outcome, or because their job was deleted.

Each such update is recorded as a debt before it starts, so a restart resumes it. It is retried for
a day.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from bot.core.answers import TaskHandler, TaskReply
from bot.core.content import Content
from bot.core.errors import ChatError, ChatMoved, MessageGone, SlowDown
from bot.core.origin import Origin
from bot.core.platform import ChatPlatform, Invocation, MessageRef
from bot.delivery.records import Debt, Debts
from bot.delivery.retries import ChatRetry, Terms
from bot.texts import status
from bot.texts.catalogue import say
from queueing.core.concurrency import TaskGroup
from queueing.core.errors import StoreError
from queueing.core.ports import Clock

log = logging.getLogger(__name__)

_GIVE_UP_S = 24 * 3600.0
_RUNS_MOST = 2  # starts of a task; a task that crashes the process must not crash every restart


@dataclass(kw_only=True, eq=False, repr=False)
class TaskRunner:
    """Runs tasks and settles debts, on every platform.

    `work` runs a task and renders its failures.
    """

    platforms: Mapping[str, ChatPlatform]
    debts: Debts
    patience: ChatRetry
    work: TaskHandler
    clock: Clock
    _in_hand: set[int] = field(default_factory=set, init=False)

    # ------------------------------------------------------------ a command's outcome

    async def carry_out(
        self,
        call: Invocation,
        working: TaskReply,
        respond: Callable[[Content], Awaitable[MessageRef | None]],
    ) -> None:
        """Show that a task is running, run it, and show its outcome."""
        now = self.clock.now()
        debt = await self.debts.begin(call.platform, call.chat, call.request, working.task, now)
        self._in_hand.add(debt.id)
        try:
            ref = await respond(working.content)
        except ChatError as error:
            log.warning("call %s from %s could not be answered: %s", call.key, call.user, error)
        else:
            debt = debt if ref is None else await self.debts.shown(debt, ref)
        await self._settle(debt)

    async def _finish(self, debt: Debt) -> Debt:
        """Run an unfinished task and record its outcome."""
        if debt.task is None or debt.outcome is not None:
            return debt
        if debt.runs >= _RUNS_MOST:
            return await self.debts.done(debt, say(debt.language, "work.interrupted"))
        task, debt = debt.task, await self.debts.begun(debt)
        content = await self.work(task)
        return await self.debts.done(debt, content.body)

    # ------------------------------------------------------------ what an earlier run left

    async def resume(self, tasks: TaskGroup) -> None:
        """Resume every debt not already being settled.

        Debts of one chat run one after the other.
        """
        by_chat: dict[tuple[str, str], list[Debt]] = {}
        for debt in await self.debts.all():
            if debt.id in self._in_hand or debt.platform not in self.platforms:
                continue
            self._in_hand.add(debt.id)
            if debt.task is not None:
                tasks.create_task(self._settle(debt))
            else:
                by_chat.setdefault((debt.platform, debt.chat), []).append(debt)
        for debts in by_chat.values():
            tasks.create_task(self._settle_all(debts))

    async def deleted(self, ref: MessageRef, origin: Origin) -> None:
        """Make a message show that its job was deleted."""
        now = self.clock.now()
        debt = await self.debts.deleted(ref, origin.language, now)
        self._in_hand.add(debt.id)
        await self._settle(debt)

    async def _settle_all(self, debts: list[Debt]) -> None:
        for debt in debts:
            await self._settle(debt)

    # ------------------------------------------------------------ delivering

    async def _settle(self, debt: Debt) -> None:
        """Update a debt's message and delete the debt. Failures are logged, never raised."""
        try:
            debt = await self._finish(debt)
            await self.platforms[debt.platform].connected.wait()
            await self._deliver(debt)
            await self.debts.settle(debt)
        except StoreError as error:
            log.warning(
                "%s:%s: could not store a message update: %s", debt.platform, debt.chat, error
            )
        except Exception:
            log.exception("%s:%s: could not show a message update", debt.platform, debt.chat)
        finally:
            self._in_hand.discard(debt.id)

    async def _deliver(self, debt: Debt) -> None:
        """Show the outcome. A permanent failure is logged and given up."""
        try:
            await self._show(debt)
        except ChatMoved as moved:
            await self._deliver(await self.debts.moved(debt, moved.new_chat))
        except ChatError as error:
            log.warning("%s:%s: gave up on a message update: %s", debt.platform, debt.chat, error)

    async def _show(self, debt: Debt) -> None:
        """Edit the message, or send the outcome below it if that is impossible.

        Raises `ChatError`.
        """
        chats, ref = self.platforms[debt.platform], debt.ref
        outcome = debt.outcome
        content = status.forgotten(debt.language) if outcome is None else Content(body=outcome)
        terms = Terms(patience_s=max(0.0, debt.since + _GIVE_UP_S - self.clock.now()))
        ask = partial(self.patience.ask, debt.platform, debt.chat, terms=terms)
        try:
            if ref is not None:
                await ask(lambda: chats.edit(ref, content))
                return
        except (MessageGone, SlowDown) as error:
            if isinstance(error, SlowDown) and not error.old_message:
                raise
        if outcome is not None:
            reply_to, nonce = ref or debt.request, f"owed-{debt.id}-{int(debt.since)}"
            await ask(lambda: chats.send(debt.chat, content, reply_to=reply_to, nonce=nonce))
