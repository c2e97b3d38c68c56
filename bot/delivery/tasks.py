"""Updates messages with a task's outcome, or because their job was deleted.

Each such update is recorded before it starts, so a restart resumes it. It is retried for a day.
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
from bot.delivery.records import PendingUpdate, PendingUpdates
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
    """Runs tasks and carries out pending updates, on every platform.

    `work` runs a task and renders its failures.
    """

    platforms: Mapping[str, ChatPlatform]
    updates: PendingUpdates
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
        update = await self.updates.begin(call.platform, call.chat, call.request, working.task, now)
        self._in_hand.add(update.id)
        try:
            ref = await respond(working.content)
        except ChatError as error:
            log.warning("call %s from %s could not be answered: %s", call.key, call.user, error)
        else:
            update = update if ref is None else await self.updates.shown(update, ref)
        await self._settle(update)

    async def _finish(self, update: PendingUpdate) -> PendingUpdate:
        """Run an unfinished task and record its outcome."""
        if update.task is None or update.outcome is not None:
            return update
        if update.runs >= _RUNS_MOST:
            return await self.updates.done(update, say(update.language, "work.interrupted"))
        task, update = update.task, await self.updates.begun(update)
        content = await self.work(task)
        return await self.updates.done(update, content.body)

    # ------------------------------------------------------------ what an earlier run left

    async def resume(self, tasks: TaskGroup) -> None:
        """Resume every pending update that is not already in progress.

        Updates of one chat run one after the other.
        """
        by_chat: dict[tuple[str, str], list[PendingUpdate]] = {}
        for update in await self.updates.all():
            if update.id in self._in_hand or update.platform not in self.platforms:
                continue
            self._in_hand.add(update.id)
            if update.task is not None:
                tasks.create_task(self._settle(update))
            else:
                by_chat.setdefault((update.platform, update.chat), []).append(update)
        for updates in by_chat.values():
            tasks.create_task(self._settle_all(updates))

    async def deleted(self, ref: MessageRef, origin: Origin) -> None:
        """Make a message show that its job was deleted."""
        now = self.clock.now()
        update = await self.updates.deleted(ref, origin.language, now)
        self._in_hand.add(update.id)
        await self._settle(update)

    async def _settle_all(self, updates: list[PendingUpdate]) -> None:
        for update in updates:
            await self._settle(update)

    # ------------------------------------------------------------ delivering

    async def _settle(self, update: PendingUpdate) -> None:
        """Carry out a pending update and delete its record. Failures are logged, never raised."""
        try:
            update = await self._finish(update)
            await self.platforms[update.platform].connected.wait()
            await self._deliver(update)
            await self.updates.settle(update)
        except StoreError as error:
            log.warning(
                "%s:%s: could not store a message update: %s", update.platform, update.chat, error
            )
        except Exception:
            log.exception("%s:%s: could not show a message update", update.platform, update.chat)
        finally:
            self._in_hand.discard(update.id)

    async def _deliver(self, update: PendingUpdate) -> None:
        """Show the outcome. A permanent failure is logged and given up."""
        try:
            await self._show(update)
        except ChatMoved as moved:
            await self._deliver(await self.updates.moved(update, moved.new_chat))
        except ChatError as error:
            log.warning(
                "%s:%s: gave up on a message update: %s", update.platform, update.chat, error
            )

    async def _show(self, update: PendingUpdate) -> None:
        """Edit the message, or send the outcome below it if that is impossible.

        Raises `ChatError`.
        """
        chats, ref = self.platforms[update.platform], update.ref
        outcome = update.outcome
        content = status.forgotten(update.language) if outcome is None else Content(body=outcome)
        terms = Terms(patience_s=max(0.0, update.since + _GIVE_UP_S - self.clock.now()))
        ask = partial(self.patience.ask, update.platform, update.chat, terms=terms)
        try:
            if ref is not None:
                await ask(lambda: chats.edit(ref, content))
                return
        except (MessageGone, SlowDown) as error:
            if isinstance(error, SlowDown) and not error.old_message:
                raise
        if outcome is not None:
            reply_to, nonce = ref or update.request, f"owed-{update.id}-{int(update.since)}"
            await ask(lambda: chats.send(update.chat, content, reply_to=reply_to, nonce=nonce))
