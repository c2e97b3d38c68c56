"""One open operator's page: shows what the watcher sees, and carries out what its admin presses."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from aiohttp import WSCloseCode, WSMsgType, web
from pydantic import ValidationError

from bot.chat.api.held import Held
from bot.chat.texts import language_of
from bot.people.web_people import WebPerson
from bot.platforms.web.calls import Calls
from bot.platforms.web.operator.watcher import Glance, Watcher
from bot.platforms.web.operator.wire import ACTS, FROM_OPERATOR, Answered, Readable
from bot.platforms.web.tab import FRAMES_BURST, FRAMES_PER_S, MAX_REPLIES, NOT_KNOWN
from bot.platforms.web.wire import Language, NotTaken, Submit
from bot.serving.bucket import Bucket
from queueing.core.errors import Fenced, StoreError
from queueing.core.requests import Record

_log = logging.getLogger(__name__)

ANSWERS_FOLLOWED = 20  # of one page's newest acts; the others' are in the chat


class Viewer:
    """An open page of an admin.

    `language` is the browser's, `chosen` the admin's own; `known` says whether the page's token is
    still an admin's. `wake` announces that the admin's chat changed: the answers to acts are
    messages there.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        person: WebPerson,
        calls: Calls,
        watcher: Watcher,
        *,
        chosen: str | None,
        language: str | None,
        known: Callable[[], bool],
        held: Held,
    ) -> None:
        self.person = person
        self._socket = socket
        self._calls = calls
        self._watcher = watcher
        self._own_language = language
        self._language = chosen or language
        self.known = known
        self._held = held
        self._woken = asyncio.Event()
        self._glance = Glance(language=language_of(self._language), changed=self.wake)
        self._sent: dict[str, bytes] = {}
        self._readable = True
        self._answers: dict[str, Answered | None] = {}  # by the key of an act, oldest first
        self._replies: deque[Record] = deque()
        self._bucket = Bucket(per_s=FRAMES_PER_S, burst=FRAMES_BURST)

    def wake(self) -> None:
        """Send news soon; many calls before that count as one."""
        self._woken.set()

    def speak(self, chosen: str | None) -> None:
        """Switch the page to the language its admin chose, otherwise its browser's."""
        self._language = chosen or self._own_language
        self._glance.language = language_of(self._language)
        self._reply(Language(language=language_of(self._language)))

    async def run(self) -> None:
        """Serve the page until it disconnects."""
        self._reply(Language(language=language_of(self._language)))
        with self._watcher.watching(self._glance):
            async with asyncio.TaskGroup() as group:
                writer = group.create_task(self._write())
                try:
                    await self._read()
                finally:
                    writer.cancel()

    async def close(self) -> None:
        """Tell the page that the server stops; it reconnects by itself."""
        await self._socket.close(code=WSCloseCode.GOING_AWAY)

    # ------------------------------------------------------------ from the page

    async def _read(self) -> None:
        async for frame in self._socket:
            too_many = not self._bucket.take(_now()) or len(self._replies) > MAX_REPLIES
            if frame.type is not WSMsgType.TEXT or too_many:
                await self._socket.close(code=WSCloseCode.POLICY_VIOLATION)
                return
            if not await self._may_go_on():
                return
            await self._take(frame.data)

    async def _take(self, text: str) -> None:
        try:
            act = FROM_OPERATOR.validate_json(text)
        except ValidationError as error:
            _log.info("operator's page: %s sent an invalid frame: %d errors",
                      self.person.id, error.error_count())  # fmt: skip
            self._reply(NotTaken(key=None, reason="invalid"))
            return
        if act.command not in ACTS:
            self._reply(NotTaken(key=act.key, reason="invalid"))
            return
        try:
            await self._carry_out(act)
        except Exception as error:  # noqa: BLE001  # no act, whatever it names, ends the page
            if isinstance(error, Fenced) or not self._held():
                await self.close()  # unanswered, the page repeats it where it is served now
                return
            _log.exception("operator's page: an act of %s failed", self.person.id)
            reason = "not-stored" if isinstance(error, StoreError) else "invalid"
            self._reply(NotTaken(key=act.key, reason=reason))

    async def _carry_out(self, act: Submit) -> None:
        self._answers.setdefault(act.key, None)
        if len(self._answers) > ANSWERS_FOLLOWED:
            del self._answers[next(iter(self._answers))]
        self._reply(await self._calls.submit(self.person, act, self._language))

    # ------------------------------------------------------------ to the page

    def _reply(self, record: Record) -> None:
        self._replies.append(record)
        self._woken.set()

    async def _write(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            if not await self._may_go_on():
                return
            while self._replies:
                await self._send(self._replies.popleft().model_dump_json())
            await self._send_frames()
            await self._send_answers()

    async def _send_frames(self) -> None:
        readable = not self._glance.unreadable
        if readable != self._readable:
            self._readable = readable
            await self._send(Readable(readable=readable).model_dump_json())
        for kind, frame in tuple(self._glance.frames.items()):
            if self._sent.get(kind) is not frame:
                self._sent[kind] = frame
                await self._send(frame.decode())

    async def _send_answers(self) -> None:
        for key, known in tuple(self._answers.items()):
            shown = await self._calls.answer_to(self.person, key)
            answer = None if shown is None else Answered(key=key, body=shown.body)
            if answer is not None and answer != known:
                self._answers[key] = answer
                await self._send(answer.model_dump_json())

    async def _may_go_on(self) -> bool:
        """Return whether the page may see and do anything more; if not, it is closed."""
        if not self.known():
            await self._socket.close(code=NOT_KNOWN)
        elif not self._held():
            await self.close()
        else:
            return True
        return False

    async def _send(self, text: str) -> None:
        # The reader notices that a page has gone.
        try:
            await self._socket.send_str(text)
        except ConnectionError:
            _log.debug("operator's page: one of %s went away", self.person.id)


def _now() -> float:
    return asyncio.get_running_loop().time()
