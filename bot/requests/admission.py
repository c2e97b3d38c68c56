"""The one way for a request to become a job: for a person, within what they may ask for.

Knows neither chats nor HTTP: plain values come in, an accepted job or a refusal comes out.
"""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace

from bot.people.access import Access
from bot.people.received import Received
from bot.people.users import Person
from bot.queue.door import QueueDoor
from bot.requests import enhancement
from bot.requests.conversation import Talk, continued, remembered_by, room_chars
from bot.requests.drawing import (
    PROMPT_LIMIT,
    Drawing,
    drawn,
    require_taken,
    require_text,
    style_name,
)
from bot.requests.model_choice import Defaults, model_of_conversation, model_of_style, usual_model
from bot.requests.refusals import (
    Banned,
    Declined,
    FilesUsedUp,
    LineFull,
    NoPicture,
    QuotaUsedUp,
    Refusal,
    TooManyOpen,
    UnwantedWord,
)
from bot.requests.styles import Style
from bot.requests.unwanted import said_in, unwanted_word
from queueing.core.errors import LimitReached, QueueError, Refused
from queueing.core.jobs import Job, NewJob
from queueing.core.ports import Admission, Clock
from queueing.core.reasons import is_open_ended
from queueing.core.requests import Capability, Chat, ChatMessage, File, TextToImage

_SHARE_TO_CLEAR = 0.1  # of a full line; coming back for its first free place is a race


@dataclass(frozen=True, kw_only=True, slots=True)
class Asking:
    """One act of asking: by whom, with which rights, and where the answer belongs.

    `unwanted` are words that requests may not hold there. `key` makes it idempotent: asked again
    under the same key, it gets the job it made before. `reply_to` is stored with the job and means
    something only to those who gave it.
    """

    person: Person
    key: str
    rights: frozenset[str] = frozenset()
    unwanted: tuple[str, ...] = ()
    reply_to: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewQuestion:
    """A question for a text model, with all its pictures.

    It goes on with the conversation of the job `earlier`, `replies` says that this was chosen and
    not guessed. `system` is told to the model before everything else.
    """

    talk: Talk
    model: str | None = None
    earlier: Job | None = None
    replies: bool = False
    system: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmissionService:
    """Accepts requests for people. `styles` and `defaults` are the operator's."""

    queue: QueueDoor
    access: Access
    received: Received
    clock: Clock
    styles: Mapping[str, Style] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)

    async def draw(self, asking: Asking, drawing: Drawing) -> Job | Refusal:
        """Accept a wish for a picture."""
        return await self._answered(asking, self._draw(asking, drawing))

    async def ask(self, asking: Asking, question: NewQuestion) -> Job | Refusal:
        """Accept a question with what was said before it."""
        return await self._answered(asking, self._ask(asking, question))

    async def submit(
        self,
        asking: Asking,
        model: str,
        request: TextToImage | Chat,
        files: tuple[File, ...] = (),
        *,
        earlier: Job | None = None,
    ) -> Job | Refusal:
        """Accept a request as it stands. `earlier` is the job that it repeats or goes on with."""
        new = self._new(asking, model, request, files, earlier=earlier)
        return await self._answered(asking, self._submit(asking, new))

    def usual_model(self, person: Person, capability: Capability) -> str:
        """Return the model taken when a request names none. Raises `Declined` when none is able."""
        return usual_model(self.queue.models.offer.catalog, self.defaults, person, capability)

    async def _answered(self, asking: Asking, steps: Awaitable[Job]) -> Job | Refusal:
        """Return what the steps come to; what was accepted before is never refused afterwards."""
        try:
            return await steps
        except Declined as declined:
            refusal = declined.refusal
        except Refused as refused:
            refusal = refused
        return await self.queue.jobs.find(asking.key) or refusal

    # ------------------------------------------------------------ what is asked for

    async def _draw(self, asking: Asking, drawing: Drawing) -> Job:
        require_text(drawing.prompt, PROMPT_LIMIT)
        if drawing.options.strength is not None and not drawing.files:
            raise Declined(NoPicture())
        style = self._style(asking.person, drawing.style)
        catalog, person, files = self.queue.models.offer.catalog, asking.person, drawing.files
        able = Capability.IMAGE_TO_IMAGE if files else Capability.TEXT_TO_IMAGE
        named = drawing.model or model_of_style(catalog, style, able)
        named = named or self.usual_model(person, able)
        model = catalog.require(named, able).name
        takes = self.queue.models.offer.options_of(model)
        require_taken(drawing.options, model, takes)
        request = drawn(drawing, style, person.size, takes)
        delay_s = 0.0
        if not drawing.raw:
            has_picture = bool(files)
            delay_s = await enhancement.delay_s(
                self.queue.models, model, request, has_picture=has_picture
            )
        new = self._new(asking, model, request, files)
        return await self._submit(asking, replace(new, delay_s=delay_s))

    def _style(self, person: Person, named: str | None) -> Style:
        """Return the style that is named, or else the person's own. Raises `Declined`."""
        if named is None:
            return self.styles.get(person.style or "", Style())
        return self.styles[style_name(self.styles, named)]

    async def _ask(self, asking: Asking, question: NewQuestion) -> Job:
        catalog, asked = self.queue.models.offer.catalog, question.talk
        model = question.model or self._text_model(asking.person, question)
        spec = catalog.find(model)
        talk = continued(
            await self._said_before(question.earlier),
            asked,
            system=question.system,
            room=room_chars(spec),
            sees=spec is not None and Capability.VISION in spec.capabilities,
        )
        request = Chat(messages=talk.turns)
        new = self._new(asking, model, request, talk.files, earlier=question.earlier)
        return await self._submit(asking, new)

    def _text_model(self, person: Person, question: NewQuestion) -> str:
        """Return the model of the conversation or the person's usual one. Raises `Declined`."""
        catalog = self.queue.models.offer.catalog
        able = Capability.VISION if question.talk.files else Capability.TEXT_TO_TEXT
        earlier, replies = question.earlier, question.replies
        goes_on = model_of_conversation(catalog, person, earlier, able, replies=replies)
        return goes_on or self.usual_model(person, able)

    async def _said_before(self, job: Job | None) -> Talk:
        """Return what was said up to a job's answer; one that was stopped has said nothing."""
        if job is None or not isinstance(job.request, Chat):
            return Talk()
        output = await self.queue.jobs.output(job)
        said = job.request.messages
        if output is not None:
            said = (*said, ChatMessage(role="assistant", text=output.text))
        return Talk(turns=said, files=await self.queue.jobs.inputs(job))

    # ------------------------------------------------------------ within which limits

    def _new(
        self,
        asking: Asking,
        model: str,
        request: TextToImage | Chat,
        files: tuple[File, ...],
        *,
        earlier: Job | None = None,
    ) -> NewJob:
        return NewJob(
            model=model,
            request=request,
            files=files,
            owner=asking.person.user,
            lane=self.access.limits_of(asking.person, asking.rights).lane,
            reply_to=asking.reply_to,
            key=asking.key,
            remembered_by=remembered_by(earlier, self.queue.models.offer.catalog.find(model)),
        )

    async def _submit(self, asking: Asking, new: NewJob) -> Job:
        """Accept a job within its owner's limits. Raises `Declined` and `Refused`."""
        if (ban := ban_of(asking.person, self.clock.now())) is not None:
            raise Declined(ban)
        if (word := unwanted_word(asking.unwanted, said_in(new.request))) is not None:
            raise Declined(UnwantedWord(word=word))
        size = sum(len(file.data) for file in new.files)
        if (fits_at := self.received.fits_at(new.owner, size)) is not None:
            raise Declined(FilesUsedUp(free_at=fits_at))
        self.received.note(new.owner, size)  # before others of the same moment are looked at
        try:
            return await self.queue.submitter.submit(new, limits=self._limits(asking))
        except LimitReached as reached:
            self.received.take_back(new.owner, size)
            raise Declined(await self._limit(new, reached)) from None
        except QueueError:
            self.received.take_back(new.owner, size)
            raise

    def _limits(self, asking: Asking) -> Admission:
        limits = self.access.limits_of(asking.person, asking.rights)
        return Admission(
            max_open=limits.open_per_person,
            max_in_line=limits.in_line_per_person,
            max_per_hour=limits.per_hour,
        )

    async def _limit(self, new: NewJob, reached: LimitReached) -> Refusal:
        """Return which limit is reached, with when there should be room again."""
        if reached.free_at is not None:
            return QuotaUsedUp(limit=reached.limit, free_at=reached.free_at)
        if reached.scope == "line":
            return await self._line_full(new, reached.limit)
        ends = await self._ends(new.owner)
        return TooManyOpen(limit=reached.limit, done_at=min(ends, default=None))

    async def _line_full(self, new: NewJob, limit: int) -> LineFull:
        """Return the refusal of a full line, with when a tenth of it will have been done."""
        name = self.queue.models.offer.catalog.named(new.model).name
        done_at = self._next_done_at(name)
        if done_at is None and await self._ends(new.owner):  # the line may be that new
            done_at = self._next_done_at(name)
        again_at = None
        if done_at is not None:
            now = self.clock.now()
            again_at = now + (done_at - now) * _SHARE_TO_CLEAR
        return LineFull(model=name, limit=limit, again_at=again_at)

    def _next_done_at(self, model: str) -> float | None:
        """Return when a job of the model that came now would be done."""
        status = next(each for each in self.queue.status.snapshot().models if each.name == model)
        return status.next_done_at

    async def _ends(self, owner: str) -> list[float]:
        """Return when open jobs of a person should end, those of which that can be said."""
        standings = await self.queue.status.standings(await self.queue.jobs.open_jobs(owner))
        known = (each for each in standings.values() if not is_open_ended(each.reason))
        return [each.done_at for each in known if each.done_at is not None]


def ban_of(person: Person, now: float) -> Banned | None:
    """Return the ban that holds for a person at that moment, or None."""
    if not person.is_banned(now):
        return None
    return Banned(until=person.banned_until, reason=person.ban_reason)
