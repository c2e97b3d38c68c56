"""How much a person may request, checked for each request when it is accepted.

A request far above what a model is made for would block a GPU for everybody, so its size is
bounded: by the operator's settings for the model, otherwise by four times the model's defaults.
Requests that ran out of memory are remembered until the bot restarts.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from bot.core.content import Moment
from bot.core.live_settings import LiveSettings, Way
from bot.core.queue import JobReader, JobSubmitter, ModelReader, QueueStatus
from bot.core.refusals import Declined, Refusal, RefusalKind
from bot.http.clients import sparing
from bot.people.access import Access, Day, day_of
from bot.people.people import Person
from bot.people.upload_quota import HourFull, ReceivedBytes
from bot.requests.files.images import dimensions
from bot.requests.rules import Rule, apart, require_loras, require_model, require_small, within
from bot.requests.word_filter import said_in, unwanted_word
from bot.texts.catalogue import in_minutes
from queueing.core.constructors import altering
from queueing.core.errors import LimitReached, Problem, ProblemKind, QueueError
from queueing.core.events import Event, JobChanged
from queueing.core.jobs import LATER, Job, JobEvent, NewJob, SubmitLimits, is_bulk
from queueing.core.ports import Clock
from queueing.core.requests import Capability, File, Request, TextToImage, TextToVideo
from queueing.core.snapshot import is_open_ended
from queueing.core.specs import ModelSpec, frames, is_far_above, pixels, usual_pixels, work

log = sparing(logging.getLogger(__name__))

TIMES = 4  # the default bound, in multiples of the model's own defaults

Numbers = Mapping[str, float]


class Bounds:
    """Refuses requests beyond their model's bounds. Events report what ran out of memory."""

    def __init__(self) -> None:
        self._failed: dict[
            str, float
        ] = {}  # by model: the smallest amount of work that ran out of memory

    def on_event(self, event: Event, usual: Mapping[str, Numbers]) -> None:
        """Remember a request far above its model's defaults that ran out of memory."""
        if not isinstance(event, JobChanged) or event.event is not JobEvent.FAIL:
            return
        job = event.job
        if job.error is None or Problem.read(job.error).what is not ProblemKind.MEMORY:
            return
        own = usual.get(job.model, {})
        if is_far_above(job.request, own):
            least = work(job.request, own)
            self._failed[job.model] = min(least, self._failed.get(job.model, least))

    def require(self, spec: ModelSpec, request: Request, usual: Numbers) -> None:
        """Raise `Declined` for a request beyond the model's bounds."""
        most = {**_defaults(request, usual), **spec.most}
        for what, asked in _extent(request, usual).items():
            if what in most and asked > most[what]:
                raise _beyond(spec, what, asked, most[what])
        failed = self._failed.get(spec.name)
        asked = work(request, usual)
        if failed is not None and asked >= failed:
            raise _beyond(spec, "memory", asked, failed)


_BEYOND = {
    "pixels": RefusalKind.BEYOND_PIXELS,
    "steps": RefusalKind.BEYOND_STEPS,
    "count": RefusalKind.BEYOND_COUNT,
    "seconds": RefusalKind.BEYOND_SECONDS,
    "frames": RefusalKind.BEYOND_FRAMES,
    "memory": RefusalKind.BEYOND_MEMORY,
}


def _beyond(spec: ModelSpec, what: str, asked: float, most: float) -> Declined:
    scale = 1e6 if what in {"pixels", "memory"} else 1
    asked, most = apart(asked / scale, most / scale)
    return Declined(Refusal(_BEYOND[what], model=spec.name, asked=asked, most=most))


def _extent(request: Request, usual: Numbers) -> dict[str, float]:
    """Return the explicit values of a request, by the name of their bound."""
    named = {
        name: value
        for name in ("steps", "count", "seconds")
        if (value := getattr(request, name, None)) is not None
    }
    if isinstance(request, TextToImage | TextToVideo) and (request.width or request.height):
        named["pixels"] = pixels(request, usual)
    if isinstance(request, TextToVideo) and (request.seconds or request.fps):
        made = frames(usual, request.seconds, request.fps)
        named |= {} if made is None else {"frames": made}
    return named


def _defaults(request: Request, usual: Numbers) -> dict[str, float]:
    """Return the bounds that follow from the model's defaults."""
    found = {name: TIMES * usual[name] for name in ("steps", "seconds") if name in usual}
    if isinstance(request, TextToImage | TextToVideo):
        found["pixels"] = TIMES * usual_pixels(request, usual)
    if (made := frames(usual)) is not None:
        found["frames"] = TIMES * made
    return found


_altered = altering(NewJob)
_SHARE_TO_CLEAR = 0.1  # of a full queue; returning for its first free place would be a race


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmissionDetails:
    """Who submits, with which rights, and where the answer belongs.

    - `unwanted` are words that requests may not contain there.
    - `key` makes the submission idempotent: repeated under the same key, it returns the
      first job. A key belongs to one person: a key chosen by a person must be stored with
      the person's name in front.
    - `reply_to` is stored with the job and means something only to the caller.
    - A job for `later` runs when nothing else waits. With `due_at`, it starts in time to
      be done then.
    """

    person: Person
    key: str
    rights: frozenset[str] = frozenset()
    unwanted: tuple[str, ...] = ()
    reply_to: str = ""
    way: Way = "chat"
    later: bool = False
    due_at: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestLimits:
    """Submits requests to the queue within the person's limits, most of which the queue counts.

    Bans, unwanted words and the bytes per hour are checked first. Open jobs, places in the queue,
    jobs per hour and GPU time per day are counted in the transaction that accepts the job.
    """

    submitter: JobSubmitter
    jobs: JobReader
    models: ModelReader
    status: QueueStatus
    access: Access
    received: ReceivedBytes
    clock: Clock
    live: LiveSettings
    bounds: Bounds = field(default_factory=Bounds)

    async def submit(
        self, asking: SubmissionDetails, new: NewJob, rule: Rule, *, continues: bool = False
    ) -> Job:
        """Accept a job in its person's lane, as far as a rule allows.

        Raises `Declined` and `Refused`.

        `continues`: all but the last turn of the conversation was accepted before.
        """
        self._require_allowed(asking, new.request, continues=continues)
        request = await self._within(rule, new.model, new.request, new.files, new.needs)
        own = self.access.limits_of(asking.person, asking.rights, rule.limits)
        bulk, limit_s = is_bulk(new.request), own.gpu_seconds_per_day
        admission = SubmitLimits(
            max_open=own.embeddings_open if bulk else own.open_per_person,
            max_queued=own.queued_per_person,
            max_per_hour=None if bulk else own.per_hour,
            max_gpu_s=limit_s,
            gpu_since=0.0 if limit_s is None else self._today().began_at,
        )
        entry = await self._take_in(new.owner, new.files)
        try:
            placed = _altered(
                new,
                request=request,
                lane=LATER if asking.later else own.lane,
                due_at=asking.due_at,
                wait_s=self.live.waits.of(asking.way, later=asking.later),
            )
            return await self.submitter.submit(placed, limits=admission)
        except LimitReached as reached:
            await self.received.give_back(entry)
            raise Declined(await self._limit(new, admission, reached)) from None
        except QueueError:
            await self.received.give_back(entry)
            raise

    async def replace_request(
        self,
        asking: SubmissionDetails,
        job: Job,
        request: Request,
        rule: Rule,
        files: tuple[File, ...],
    ) -> Job:
        """Replace the request of a job that has not started.

        Raises `Declined` and `StoreError`.

        `files` are added to its own; its `reply_to` becomes that of `asking`. A held job stays
        held. The job must not have changed since it was read.
        """
        self._require_allowed(asking, request, continues=True)
        needs = request.needs(has_files=request.needs_files)
        request = await self._within(rule, job.model, request, files, needs)
        entry = await self._take_in(job.owner, files)
        try:
            replaced = await self.submitter.replace_request(
                job.id,
                request,
                files=files,
                reply_to=asking.reply_to,
                release=not job.held,
                version=job.version,
            )
        except QueueError:
            await self.received.give_back(entry)
            raise
        if replaced is None:
            await self.received.give_back(entry)
            raise Declined(Refusal(RefusalKind.ALBUM_TOO_LATE, job=job.id))
        return replaced

    def _require_allowed(
        self, asking: SubmissionDetails, request: Request, *, continues: bool
    ) -> None:
        if (ban := ban_of(asking.person, self.clock.now())) is not None:
            raise Declined(ban)
        if not asking.unwanted:
            return
        if (
            word := unwanted_word(asking.unwanted, said_in(request, continues=continues))
        ) is not None:
            raise Declined(Refusal(RefusalKind.UNWANTED_WORD, word=word))

    async def _within(
        self,
        rule: Rule,
        model: str,
        request: Request,
        files: tuple[File, ...],
        needs: Capability,
    ) -> Request:
        """Return a request within the bounds of a rule and of its model. Raises the same errors."""
        offer = self.models.offer
        spec = require_model(offer.catalog, rule, model, needs)
        usual, takes = offer.usual.get(spec.name, {}), offer.options.get(spec.name)
        require_loras(rule, request)
        request = within(rule, request, usual, takes, has_files=bool(files))
        sized = isinstance(request, TextToImage) and request.width and request.height
        if "pixels" in rule.most and isinstance(request, TextToImage) and not sized:
            for file in files:
                require_small(rule, await dimensions(file))
        self.bounds.require(spec, request, usual)
        return request

    async def _take_in(self, owner: str, files: tuple[File, ...]) -> int | None:
        """Count the bytes of files at once, so that concurrent requests share the limit."""
        if not files:
            return None
        try:
            return await self.received.take(owner, sum(len(file.data) for file in files))
        except HourFull as full:
            free_at = Moment(full.free_at)
            raise Declined(Refusal(RefusalKind.UPLOADS_USED_UP, moment=free_at)) from None

    async def _limit(self, new: NewJob, admission: SubmitLimits, reached: LimitReached) -> Refusal:
        """Return which limit is reached, and when there should be space again."""
        if reached.free_at is not None:
            moment = Moment(reached.free_at)
            return Refusal(RefusalKind.QUOTA_USED_UP, limit=reached.limit, moment=moment)
        if reached.scope == "gpu":
            return await self._gpu_used_up(new.owner, admission)
        if reached.scope == "queue":
            return await self._queue_full(new, reached.limit)
        if not (ends := await self._ends(new)):
            return Refusal(RefusalKind.TOO_MANY_OPEN, limit=reached.limit)
        moment = Moment(min(ends))
        return Refusal(RefusalKind.TOO_MANY_OPEN_UNTIL, limit=reached.limit, moment=moment)

    def _today(self) -> Day:
        return day_of(self.clock.now(), self.access.zone)

    async def _gpu_used_up(self, owner: str, admission: SubmitLimits) -> Refusal:
        time = await self.jobs.gpu_time(owner, admission.gpu_since)
        return Refusal(
            RefusalKind.GPU_TIME_USED_UP,
            limit=in_minutes(admission.max_gpu_s or 0.0),
            used=in_minutes(time.used_s),
            held=in_minutes(time.held_s),
            moment=Moment(self._today().ends_at),
        )

    async def _queue_full(self, new: NewJob, limit: int) -> Refusal:
        """Return the refusal of a full queue, with the time at which a tenth should be done."""
        name = self.models.offer.catalog.named(new.model).name
        log.warning("the queue of %s is full (%d jobs): new ones are refused", name, limit)
        done_at = self._next_done_at(name)
        if done_at is None and await self._ends(new):  # the queue may be new
            done_at = self._next_done_at(name)
        if done_at is None:
            return Refusal(RefusalKind.QUEUE_STANDS, model=name, limit=limit)
        now = self.clock.now()
        moment = Moment(now + (done_at - now) * _SHARE_TO_CLEAR)
        return Refusal(RefusalKind.QUEUE_FULL, model=name, limit=limit, moment=moment)

    def _next_done_at(self, model: str) -> float | None:
        """Return when a job of the model would be done if it were accepted now."""
        status = next(each for each in self.status.snapshot().models if each.name == model)
        return None if status.next_ends is None else status.next_ends.latest

    async def _ends(self, new: NewJob) -> list[float]:
        """Return the estimated ends of the open jobs that share a limit with a new one."""
        bulk, mine = is_bulk(new.request), await self.jobs.open_jobs(new.owner)
        alike = [job for job in mine if is_bulk(job.request) is bulk]
        standings = await self.status.standings(alike)
        known = (each for each in standings.values() if not is_open_ended(each.reason))
        return [each.ends.latest for each in known if each.ends is not None]


def ban_of(person: Person, now: float) -> Refusal | None:
    """Return the ban that applies to a person at that moment, or None."""
    if not person.is_banned(now):
        return None
    reason = f" ({person.ban_reason})" if person.ban_reason else ""
    if person.banned_until is None:
        return Refusal(RefusalKind.BANNED, reason=reason)
    moment = Moment(person.banned_until)
    return Refusal(RefusalKind.BANNED_UNTIL, reason=reason, moment=moment)
