"""Turns requests into jobs, within the limits of the person who asks.

Knows neither chats nor HTTP: plain values come in, an accepted job or a refusal comes out.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from bot.core.asker import Asker
from bot.core.live_settings import LiveSettings
from bot.core.origin import Origin, origin_in
from bot.core.queue import JobReader, JobSubmitter, ModelReader
from bot.core.refusals import Declined, Refusal, RefusalKind, refusal_of
from bot.people.people import Person
from bot.requests import enhancement, recordings, shared_prompts
from bot.requests.conversation import IMAGES, Conversation, continued, remembered_by, room_chars
from bot.requests.creation import (
    PROMPT_LIMIT,
    Creation,
    Made,
    drawn,
    edits,
    needs_of,
    require_taken,
    require_text,
    style_name,
)
from bot.requests.files.images import require_upscalable
from bot.requests.limits import RequestLimits, SubmissionDetails
from bot.requests.model_choice import model_of_conversation, model_of_style, usual_model
from bot.requests.options import SIZES, Style
from bot.requests.rules import (
    EVERYTHING,
    NOTHING,
    Rule,
    RuleTable,
    fitting_size,
    fitting_style,
    kind_refused,
    offered,
    offers_any,
    offers_size,
    offers_style,
    require_model,
    require_style,
)
from bot.requests.shown_status import ShownStatus
from queueing.core.catalog import Catalog
from queueing.core.errors import Refused
from queueing.core.jobs import Job, JobState, NewJob, SubmitLimits
from queueing.core.requests import Capability, Chat, ChatMessage, File, Request, TextToImage
from queueing.core.specs import ModelSpec

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question for a text model, with all its images.

    It continues the conversation of the job `earlier`. `replies`: the person chose that
    conversation by replying, so it is not a guess. `system` is sent to the model before everything
    else.
    """

    talk: Conversation
    model: str | None = None
    earlier: Job | None = None
    replies: bool = False
    system: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chosen:
    """What a request for an image, a video or music will be made with.

    `styled` is whether a person's usual style and size apply. `takes` are the fields the model
    honours, None for all.
    """

    model: str
    style: Style
    styled: bool
    edit: bool
    takes: Collection[str] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class AdmissionService:
    """Accepts requests for people. The operator's `styles` and `rules` may change.

    It accepts nothing until a `rule` is decided: see `of`.
    """

    submitter: JobSubmitter
    jobs: JobReader
    models: ModelReader
    limits: RequestLimits
    styles: Mapping[str, Style] = field(default_factory=dict)
    live: LiveSettings = field(default_factory=LiveSettings)
    rules: RuleTable = field(default_factory=RuleTable)
    rule: Rule = NOTHING

    def of(self, asker: Asker) -> "AdmissionService":
        """Return the service for a person in a room, which allows what their rule allows."""
        return self.under(self.rules.of(asker))

    def under(self, rule: Rule) -> "AdmissionService":
        """Return the service that allows what a rule allows."""
        return replace(self, rule=rule)

    @property
    def catalog(self) -> Catalog:
        """The models that the rule allows."""
        return offered(self.models.offer.catalog, self.rule)

    @property
    def shown(self) -> ShownStatus:
        """The state of the queue as people may see it."""
        return ShownStatus(
            status=self.limits.status,
            models=self.models,
            rules=self.rules,
            access=self.limits.access,
        )

    @property
    def offered_styles(self) -> Mapping[str, Style]:
        """The styles that the rule allows."""
        return {name: each for name, each in self.styles.items() if offers_style(self.rule, each)}

    @property
    def offered_sizes(self) -> tuple[str, ...]:
        """The common sizes that the rule allows."""
        return tuple(each for each in SIZES if offers_size(self.rule, each))

    def require_style(self, named: str) -> str:
        """Return a style's configured name, ignoring case. Raises `Declined`."""
        name = style_name(self.styles, named, self.offered_styles)
        require_style(self.rule, self.styles[name])
        return name

    def require(self, named: str, able: Capability) -> ModelSpec:
        """Return the model of that name or alias. Raises `Declined` and `Refused`."""
        return require_model(self.models.offer.catalog, self.rule, named, able)

    async def draw(self, asking: SubmissionDetails, drawing: Creation) -> Job | Refusal:
        """Accept a request for an image, a video or music."""
        return await self._answered(asking.key, self._draw(asking, drawing))

    async def ask(self, asking: SubmissionDetails, question: Question) -> Job | Refusal:
        """Accept a question together with the conversation so far."""
        return await self._answered(asking.key, self._ask(asking, question))

    async def submit(
        self,
        asking: SubmissionDetails,
        model: str,
        request: Request,
        files: tuple[File, ...] = (),
        *,
        earlier: Job | None = None,
    ) -> Job | Refusal:
        """Accept a request as it is. `earlier` is the job it repeats or continues."""
        new = self._going_on(asking, model, request, files, earlier)
        steps = self._submit(asking, new, continues=earlier is not None)
        return await self._answered(asking.key, steps)

    async def add(self, asking: SubmissionDetails, job: Job, added: Conversation) -> Job | Refusal:
        """Add late parts to a job's question, while it waits."""
        return await self._answered(None, self._add_in_time(asking, job, added))

    async def ask_for_prompt(self, image: Job) -> Job | Refusal | None:
        """Accept the question for a better prompt of an image or video; None without enhancement.

        It counts against nobody's limits.
        """
        spec = self.models.offer.catalog.find(image.model)
        request = image.request
        if spec is None or spec.enhance is None or not isinstance(request, Made):
            return None
        new = enhancement.question(image, request, spec.enhance)
        steps = self.submitter.submit(new, limits=SubmitLimits())
        return await self._answered(new.key, steps)

    async def write_down(
        self, person: Person, question: Job, place: int, sound: File
    ) -> Job | Refusal:
        """Accept the transcription of a recording in a person's held question.

        Like the job that reads the answer aloud, it counts against nobody's limits.
        """
        return await self._made_for(
            recordings.writing_key(question.id, place),
            person,
            Capability.SPEECH_TO_TEXT,
            lambda model: recordings.writing(question, place, sound, model),
        )

    async def read_aloud(self, person: Person, question: Job, words: str) -> Job | Refusal:
        """Accept the job that reads the answer to a person's question aloud."""
        return await self._made_for(
            recordings.speech_key(question.id),
            person,
            Capability.TEXT_TO_SPEECH,
            lambda model: recordings.speech(question, words, model),
        )

    def of_job(self, job: Job) -> "AdmissionService":
        """Return the service for the person who asked for a job, in that room."""
        origin = origin_in(job.reply_to)
        return self.under(EVERYTHING) if origin is None else self.of(origin.asker)

    async def _made_for(
        self, key: str, person: Person, able: Capability, made: Callable[[str], NewJob]
    ) -> Job | Refusal:
        async def steps() -> Job:
            new = made(self.usual_model(person, able))
            return await self.submitter.submit(new, limits=SubmitLimits())

        return await self._answered(key, steps())

    def usual_model(self, person: Person, capability: Capability) -> str:
        """Return the model for a request that names none.

        Raises `Declined` if no model is able.
        """
        if not offers_any(self.models.offer.catalog, self.rule, (capability,)):
            raise Declined(kind_refused(capability))
        return usual_model(
            self.catalog, (self.rule.defaults, self.live.defaults), person, capability
        )

    async def _answered(self, key: str | None, steps: Awaitable[Job]) -> Job | Refusal:
        """Return the outcome of accepting a request.

        A repeat of a request that was accepted before is never refused.
        """
        try:
            return await steps
        except Declined as declined:
            refusal = declined.refusal
        except Refused as refused:
            refusal = refusal_of(refused, tuple(self.catalog.models))
            if refusal.kind is RefusalKind.NOT_ACCEPTING:
                log.info("refused: %s", refused)
        accepted = None if key is None else await self.jobs.find(key)
        return accepted or refusal

    # ------------------------------------------------------------ what is asked for

    async def _draw(self, asking: SubmissionDetails, drawing: Creation) -> Job:
        drawing, _ = self.understood(asking.person, drawing)
        require_text(drawing.prompt, PROMPT_LIMIT)
        if drawing.options.strength is not None and not drawing.files:
            raise Declined(Refusal(RefusalKind.NO_IMAGE))
        chosen = self._chosen(asking.person, drawing)
        model, files, edit = chosen.model, drawing.files, chosen.edit
        require_taken(drawing.options.given, drawing.makes, model, chosen.takes)
        usual_size = fitting_size(self.rule, asking.person.size) if chosen.styled else None
        request = drawn(drawing, chosen.style, usual_size, chosen.takes, edit=edit)
        delay_s = 0.0
        if not drawing.raw:
            has_image = bool(files)
            delay_s = await enhancement.delay_s(self.models, model, request, has_image=has_image)
        new = _new(asking, model, request, files, delay_s=delay_s)
        return await self.limits.submit(asking, new, self.rule)

    def understood(self, person: Person, drawing: Creation) -> tuple[Creation, tuple[str, ...]]:
        """Return a request with the LoRAs and parameters that its prompt contains as options.

        Explicit options take precedence. Also returns the names of what has no effect on the model.
        Raises `Declined`.
        """
        shared = shared_prompts.read(drawing.prompt) if not drawing.raw else None
        if shared is None or shared == shared_prompts.SharedPrompt(prompt=drawing.prompt):
            return drawing, ()
        takes = self._chosen(person, drawing).takes if shared.options else None
        return shared_prompts.applied(drawing, shared, takes)

    def _chosen(self, person: Person, drawing: Creation) -> "_Chosen":
        """Return the model and style of a request. Raises `Declined`."""
        catalog = self.catalog
        edit = edits(drawing, catalog, drawing.model)
        styled = drawing.makes is TextToImage and not edit
        style = self._style(person, drawing.style) if styled or drawing.style else Style()
        able = needs_of(drawing, edit=edit)
        named = drawing.model or model_of_style(catalog, style, able)
        named = named or self.usual_model(person, able)
        model = self.require(named, able).name
        takes = self.models.offer.options_of(model)
        if edit:
            takes = frozenset(TextToImage.model_fields if takes is None else takes) - {"strength"}
        return _Chosen(model=model, style=style, styled=styled, edit=edit, takes=takes)

    def _style(self, person: Person, named: str | None) -> Style:
        """Return the named style, otherwise the person's default if the rule allows it.

        Raises `Declined`.
        """
        if named is None:
            style = self.offered_styles.get(person.style or "", Style())
        else:
            style = self.styles[self.require_style(named)]
        return fitting_style(self.rule, style)

    async def _ask(self, asking: SubmissionDetails, question: Question) -> Job:
        catalog, asked = self.models.offer.catalog, question.talk
        model = question.model or self._text_model(asking.person, question)
        spec = catalog.find(model)
        talk = continued(
            await self._conversation_until(question.earlier),
            asked,
            system=question.system,
            room=room_chars(spec),
            sees=spec is not None and Capability.VISION in spec.capabilities,
        )
        if talk.shortened:
            asking = replace(asking, reply_to=_with_cut_answer(asking.reply_to))
        request = Chat(messages=talk.turns)
        new = self._going_on(asking, model, request, talk.files, question.earlier)
        self._require_heard(asking.person, new)
        return await self.limits.submit(asking, new, self.rule, continues=True)

    def _text_model(self, person: Person, question: Question) -> str:
        """Return the conversation's model or the person's default. Raises `Declined`."""
        catalog = self.catalog
        able = Capability.VISION if question.talk.has_image else Capability.TEXT_TO_TEXT
        earlier, replies = question.earlier, question.replies
        goes_on = model_of_conversation(catalog, person, earlier, able, replies=replies)
        return goes_on or self.usual_model(person, able)

    async def _submit(self, asking: SubmissionDetails, new: NewJob, *, continues: bool) -> Job:
        if isinstance(new.request, TextToImage) and new.request.upscale:
            for file in new.files:
                await require_upscalable(file)
        self._require_heard(asking.person, new)
        return await self.limits.submit(asking, new, self.rule, continues=continues)

    def _require_heard(self, person: Person, new: NewJob) -> None:
        """Refuse a recording that no model here can transcribe. Raises `Declined`."""
        if new.held:
            self.usual_model(person, Capability.SPEECH_TO_TEXT)

    async def _add_in_time(self, asking: SubmissionDetails, job: Job, added: Conversation) -> Job:
        """Add to the question's latest version: another part may be added at the same time."""
        while True:
            try:
                return await self._add(asking, job, added)
            except Declined as declined:
                newer = await self.jobs.get(job.id)
                if (
                    newer is None
                    or newer.state is not JobState.PENDING
                    or newer.version == job.version
                    or declined.refusal.kind is not RefusalKind.ALBUM_TOO_LATE
                ):
                    raise
                job = newer

    async def _add(self, asking: SubmissionDetails, job: Job, added: Conversation) -> Job:
        request, (new,) = job.request, added.turns
        if not isinstance(request, Chat) or (new.sounds and not job.held):
            raise Declined(Refusal(RefusalKind.ALBUM_TOO_LATE, job=job.id))
        *before, last = request.messages
        if (count := len(last.images) + len(new.images)) > IMAGES:
            raise Declined(Refusal(RefusalKind.TOO_MANY_IMAGES, count=count, most=IMAGES))
        if new.images:
            self.require(job.model, Capability.VISION)
        there = len(await self.jobs.inputs(job) or ())
        asked = last.model_copy(
            update={
                "text": "\n".join(filter(None, (last.text, new.text))),
                "images": (*last.images, *(there + index for index in new.images)),
                "sounds": (*last.sounds, *(there + index for index in new.sounds)),
            }
        )
        request = request.model_copy(update={"messages": (*before, asked)})
        return await self.limits.replace_request(asking, job, request, self.rule, added.files)

    async def _conversation_until(self, job: Job | None) -> Conversation:
        """Return the conversation up to a job's answer. A stopped answer is left out."""
        if job is None or not isinstance(job.request, Chat):
            return Conversation()
        output = await self.jobs.output(job)
        said = job.request.messages
        if output is not None:
            said = (*said, ChatMessage(role="assistant", text=output.text))
        return Conversation(turns=said, files=await self.jobs.inputs(job) or ())

    def _going_on(
        self,
        asking: SubmissionDetails,
        model: str,
        request: Request,
        files: tuple[File, ...],
        earlier: Job | None,
    ) -> NewJob:
        """Return a job that prefers the server that has the earlier conversation in its cache."""
        new = _new(asking, model, request, files)
        if earlier is None:
            return new
        spec = self.models.offer.catalog.find(model)
        return replace(new, remembered_by=remembered_by(earlier, spec))


def _with_cut_answer(reply_to: str) -> str:
    """Return an origin that records that only the end of the last answer was used."""
    origin = Origin.model_validate_json(reply_to)
    return origin.model_copy(update={"cut_answer": True}).model_dump_json()


def _new(
    asking: SubmissionDetails,
    model: str,
    request: Request,
    files: tuple[File, ...],
    *,
    delay_s: float = 0.0,
) -> NewJob:
    return NewJob(
        model=model,
        request=request,
        files=files,
        owner=asking.person.user,
        reply_to=asking.reply_to,
        key=asking.key,
        delay_s=delay_s,
        held=bool(recordings.to_be_heard(request)),
    )
