"""One open operator's page: shows what the watcher sees, and carries out what its admin presses."""

from bot.platforms.web.page_connection import OpenPage, Seat
from bot.platforms.web.protocol import Language, NotTaken, Submit
from bot.platforms.web.watcher import Glance, Watcher
from bot.platforms.web.wire import ACTS, FROM_OPERATOR, Answered, Readable
from bot.texts.catalogue import language_of

ANSWERS_FOLLOWED = 20  # of one page's newest acts; the others' are in the chat


class Viewer(OpenPage[Submit]):
    """An open page of an admin.

    It is woken by news of the watcher, and when the admin's chat changed: the answers to acts are
    messages there.
    """

    def __init__(self, seat: Seat, watcher: Watcher) -> None:
        super().__init__(seat, FROM_OPERATOR)
        self._watcher = watcher
        self._glance = Glance(language=language_of(self._language), changed=self.wake)
        self._sent: dict[str, bytes] = {}
        self._readable = True
        self._answers: dict[str, Answered | None] = {}  # by the key of an act, oldest first

    def speak(self, chosen: str | None) -> None:
        """Switch the page to the language its admin chose, otherwise its browser's."""
        super().speak(chosen)
        self._glance.language = language_of(self._language)

    async def run(self) -> None:
        """Serve the page until it disconnects."""
        self._reply(Language(language=language_of(self._language)))
        with self._watcher.watching(self._glance):
            await super().run()

    async def _carry_out(self, message: Submit) -> None:
        if message.command not in ACTS:
            self._reply(NotTaken(key=message.key, reason="invalid"))
            return
        self._answers.setdefault(message.key, None)
        if len(self._answers) > ANSWERS_FOLLOWED:
            del self._answers[next(iter(self._answers))]
        self._reply(await self._calls.submit(self.person, message, self._language))

    async def _send_news(self) -> None:
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
