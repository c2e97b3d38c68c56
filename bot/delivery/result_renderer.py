"""Renders a job's result for a chat: pages, files that fit, or plain text as a last resort.

Decides what to show and sends nothing.
"""

import asyncio
import io
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import islice

from PIL import Image

from backends.common.file_types import MOVING, is_image, is_sound, is_video, mime_of
from backends.media import videos
from bot.core.content import (
    Body,
    Content,
    Markdown,
    Moment,
    Period,
    ProgressBar,
)
from bot.core.live_settings import ChatSettingsTable
from bot.core.origin import Origin
from bot.core.platform import ChatLimits
from bot.core.queue import JobReader, ModelReader
from bot.delivery.spoken_answers import SpokenAnswer
from bot.people.links import Links
from bot.requests import recordings
from bot.requests.files import images
from bot.requests.files.images import dimensions
from bot.requests.rules import RuleTable, offered
from bot.texts import status
from bot.texts.catalogue import join, say
from bot.texts.paging import answer_pages, is_long, length
from bot.texts.refusals import told
from bot.texts.results import UNKNOWN, Measures, abilities_of
from queueing.core.catalog import Catalog
from queueing.core.errors import Problem
from queueing.core.jobs import Job, JobState
from queueing.core.requests import File, Output

_log = logging.getLogger(__name__)

# Chat clients show other video codecs as a still image with sound.
_CODECS = frozenset({"h264", "vp8", "vp9"})
_PIXELS = frozenset({"yuv420p", "yuvj420p", "yuva420p"})  # chat clients play no other pixel formats


async def fitted(file: File, limits: ChatLimits) -> File | None:
    """Return a file as a chat accepts it, re-encoded if needed, or None if it cannot fit.

    A video or sound that cannot be re-encoded is returned unchanged if it is small enough.
    """
    mime = mime_of(file.data)
    small = len(file.data) <= limits.upload
    if is_image(mime):
        moves = (not small or not limits.animations) and await _moves(file, limits)
        if not moves:
            return await images.fitted(file, limits.upload)
    elif not (is_video(mime) or is_sound(mime)):
        return file if small else None
    elif small and mime in limits.plays and (is_sound(mime) or await _plays(file)):
        return file
    try:
        return await videos.fitted(file, limits.upload)
    except videos.VideoError as error:
        _log.warning("%s could not be re-encoded: %s", file.name, error)
        return file if small else None


async def _plays(file: File) -> bool:
    try:
        looks = (await videos.looked_at(file)).looks
    except videos.VideoError:
        return True  # re-encoding would fail as well
    return looks.image in _CODECS and looks.pixels in _PIXELS


async def _moves(file: File, limits: ChatLimits) -> bool:
    """Return whether an image is animated and the chat cannot show its format."""
    if mime_of(file.data) == "image/gif" and len(file.data) <= limits.upload:
        return False  # GIFs play everywhere
    return await asyncio.to_thread(_frames, file.data) > 1


def _frames(data: bytes) -> int:
    try:
        with Image.open(io.BytesIO(data), formats=MOVING) as image:
            return int(getattr(image, "n_frames", 1))
    except Exception:  # noqa: BLE001  Pillow's readers raise anything for broken files
        return 1


class OriginalHints:
    """Points people to a result's original files: by link, or to the web page if links are off."""

    def __init__(self, links: Links | None = None, *, on_page: bool = False) -> None:
        self._links = links
        self._on_page = on_page

    async def links(self, job: Job, files: int, language: str) -> Body:
        """Return links to the first `files` files of a job's result; empty if links are off."""
        if self._links is None or await self._links.address(job, 1) is None:
            return ()
        return await self.hints(job, range(1, files + 1), language)

    async def hints(self, job: Job, numbers: Sequence[int], language: str) -> Body:
        """Return where to find the originals of these files (counted from 1), if anywhere."""
        lines: list[Body] = []
        for number in numbers:
            link = await self._links.address(job, number) if self._links is not None else None
            if link is None:
                return say(language, "result.on_page", job=job.id) if self._on_page else ()
            one = len(numbers) == 1
            key = "result.original" if one else "result.original_number"
            lines.append(say(language, key, link=link, **({} if one else {"number": number})))
        return join(tuple(part for line in lines for part in (*line, "\n"))[:-1])


_PAGES = 4  # longer answers also come as a file


class Fallback(IntEnum):
    """How far a refused result is cut down."""

    WHOLE = 0
    HALF = 1  # of the upload limit, for files that the platform still found too large
    EIGHTH = 2
    WORDS = 3  # no files and no formatting
    NOTE = 4  # a single sentence from the bot

    def below(self, *, too_large: bool) -> "Fallback":
        """Return the next fallback. Smaller files are tried only if size was the problem."""
        return Fallback(
            min(self + 1 if too_large else max(self + 1, Fallback.WORDS), Fallback.NOTE)
        )


_SHARE: Mapping[Fallback, float] = {Fallback.HALF: 1 / 2, Fallback.EIGHTH: 1 / 8}


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderedResult:
    """The status message's final content, and the messages that follow it."""

    content: Content
    rest: tuple[Content, ...] = ()


class ResultRenderer:
    """Renders the results of ended jobs."""

    def __init__(
        self,
        outputs: JobReader,
        models: ModelReader,
        chat_settings: ChatSettingsTable,
        originals: OriginalHints | None = None,
        rules: RuleTable | None = None,
    ) -> None:
        self._rules = rules or RuleTable()
        self._outputs = outputs
        self._models = models
        self._chat_settings = chat_settings
        self._originals = originals or OriginalHints()

    async def render(
        self,
        job: Job,
        origin: Origin,
        limits: ChatLimits,
        *,
        written: str = "",
        fallback: Fallback = Fallback.WHOLE,
        aloud: SpokenAnswer | None = None,
    ) -> RenderedResult:
        """Render the result of an ended job. `written` is the answer as far as it was generated.

        `aloud` is the spoken answer, or a note about it.
        """
        language = origin.language
        if fallback is Fallback.NOTE:
            return RenderedResult(content=Content(body=say(language, "result.refused", job=job.id)))
        if not origin.group:
            limits = replace(limits, direct=None)  # the person has it already
        if fallback in _SHARE:
            limits = replace(limits, upload=int(limits.upload * _SHARE[fallback]))
        hint = status.near_model(origin.near, language)
        aloud = await _fitting(aloud, limits, language)
        cut, same = status.incomplete(origin, language), status.same_again(origin, language)
        notes = _in_lines(cut, same, aloud.note)
        rendered = await self._whole(job, origin, limits, written, hint=hint, notes=notes)
        if aloud.sound:
            rendered = replace(
                rendered, rest=(*rendered.rest, Content(files=aloud.sound, voice=True))
            )
        if fallback is Fallback.WORDS:
            refused = say(language, "result.files_refused", job=job.id)
            rendered = _in_words(rendered, refused + await self._links(job, rendered, language))
        return RenderedResult(
            content=self.hidden(job, origin, rendered.content),
            rest=tuple(self.hidden(job, origin, each) for each in rendered.rest),
        )

    async def _links(self, job: Job, rendered: RenderedResult, language: str) -> Body:
        """Return links to the files a chat refuses. A text answer sent as a file has none."""
        files = sum(len(each.files) for each in (rendered.content, *rendered.rest))
        if not files or not job.request.gives_files:
            return ()
        links = await self._originals.links(job, files, language)
        return ("\n", *links) if links else ()

    async def _whole(
        self,
        job: Job,
        origin: Origin,
        limits: ChatLimits,
        written: str,
        *,
        hint: Body,
        notes: Body,
    ) -> RenderedResult:
        language = origin.language
        match job.state:
            case JobState.FAILED:
                broken = status.failed(job, language, written)
                return await self._render_text(broken, written, limits, language)
            case JobState.CANCELLED:
                stopped = status.cancelled(job, language, written)
                return await self._render_text(stopped, written, limits, language)
        output = await self._outputs.output(job)
        if output is None:
            body = say(language, "status.gone", job=job.id)
            return RenderedResult(content=Content(body=body))
        return await self._render_output(job, output, origin, limits, hint=hint, notes=notes)

    async def _render_output(
        self,
        job: Job,
        output: Output,
        origin: Origin,
        limits: ChatLimits,
        *,
        hint: Body,
        notes: Body,
    ) -> RenderedResult:
        language = origin.language
        files, note = await self._fit_files(job, output.files, limits, language)
        missing = _missing(output, language)
        note = _in_lines(note, (missing,) if missing else (), notes)
        if heard := recordings.heard_in(job):
            output = replace(output, text=f"{status.quoted(heard, language)}\n\n{output.text}")
        measures = await measured(output.files[0]) if output.files else UNKNOWN
        content = status.result(
            job,
            output,
            language,
            files=files[: limits.files_per_edit],
            abilities=replace(
                abilities_of(job.model, self.offered(origin)), copy=limits.direct is not None
            ),
            measures=measures,
            note=note,
            hint=hint,
            seeded=self._models.offer.honours(job.model, "seed"),
            gallery=limits.gallery and _images_in(files) == _images_in(output.files),
        )
        rendered = await self._render_text(content, output.text, limits, language)
        if len(files) > limits.files_per_edit:
            number = limits.files_per_edit + 1 if len(files) == len(output.files) else None
            further = Content(files=files[limits.files_per_edit :], alt=content.alt, number=number)
            return replace(rendered, rest=(*rendered.rest, further))
        return rendered

    async def _render_text(
        self, content: Content, text: str, limits: ChatLimits, language: str
    ) -> RenderedResult:
        if is_long(text):
            return await asyncio.to_thread(self._divided, content, text, limits, language)
        return self._divided(content, text, limits, language)

    def _divided(
        self, content: Content, text: str, limits: ChatLimits, language: str
    ) -> RenderedResult:
        room = limits.caption if content.files else limits.text
        if length(content.body, limits) <= room:
            return RenderedResult(content=content)
        first, rest = self._paged(content, text, limits, language)
        return RenderedResult(content=first, rest=tuple(rest))

    async def _fit_files(
        self, job: Job, files: tuple[File, ...], limits: ChatLimits, language: str
    ) -> tuple[tuple[File, ...], Body]:
        """Return the files as the chat accepts them, and a note about those that were changed."""
        made = [await fitted(file, limits) for file in files]
        fitting = tuple(file for file in made if file is not None)
        changed = [
            number
            for number, (file, small) in enumerate(zip(files, made, strict=True), start=1)
            if small is not file
        ]
        if not changed:
            return fitting, ()
        said = _note_about(files, made, language)
        where = await self._originals.hints(job, changed, language)
        return fitting, join((*said, *((" ",) if where else ()), *where))

    def _paged(
        self, content: Content, text: str, limits: ChatLimits, language: str
    ) -> tuple[Content, list[Content]]:
        """Split a long answer into several messages; a very long one also comes as a file."""
        facts = tuple(part for part in content.body if not isinstance(part, Markdown))
        more, cut = say(language, "status.continued"), say(language, "status.cut")
        room = limits.caption if content.files else limits.text
        parts = answer_pages(text, room - length((*facts, *more), limits) - 1, limits)
        shown = tuple(islice(parts, _PAGES + 1))
        if len(shown) <= _PAGES:
            first = replace(content, body=(shown[0], "\n", *more))
            following = [Content(body=(part,)) for part in shown[1:-1]]
            following.append(Content(body=(shown[-1], *facts)))
            return first, following
        whole = File(name="answer.md", mime="text/markdown", data=text.encode())
        # A message with a file has a caption, which holds less text than a message.
        room = limits.caption - length((*facts, *cut), limits) - 1
        body = (next(answer_pages(text, room, limits)), "\n", *cut, *facts)
        return replace(content, body=body, files=(*content.files, whole)), []

    def offered(self, origin: Origin) -> Catalog:
        """Return the models that the person at an origin may use there."""
        return offered(self._models.offer.catalog, self._rules.of(origin.asker))

    def hidden(self, job: Job, origin: Origin, content: Content) -> Content:
        """Mark images and videos as spoilers if the operator wants that for the chat or person."""
        if not content.files or not job.request.is_seen:
            return content
        settings = self._chat_settings.of(origin.platform, origin.places)
        hides = settings.spoiler or self._rules.of(origin.asker).spoiler
        return replace(content, spoiler=True) if hides else content


def _images_in(files: Sequence[File]) -> int:
    return sum(is_image(file.mime) for file in files)


async def measured(file: File) -> Measures:
    """Measure a result's file: its pixel size and its duration."""
    mime = mime_of(file.data)
    if not (is_video(mime) or is_sound(mime)):
        return Measures(size=await dimensions(file))
    try:
        looks = (await videos.looked_at(file)).looks
    except videos.VideoError:  # no decoder, or the file cannot be read; the chat may still play it
        return UNKNOWN
    size = (looks.width, looks.height) if looks.width and looks.height else None
    return Measures(size=size, seconds=looks.seconds)


async def _fitting(aloud: SpokenAnswer | None, limits: ChatLimits, language: str) -> SpokenAnswer:
    """Return the voice in a form that the chat accepts, or a note instead."""
    if aloud is None or not aloud.sound:
        return aloud or SpokenAnswer()
    made = [await fitted(file, limits) for file in aloud.sound]
    sound = tuple(file for file in made if file is not None)
    note = (
        aloud.note if len(sound) == len(made) else say(language, "result.files_left_out", count=1)
    )
    return replace(aloud, sound=sound, note=note)


def _in_lines(*bodies: Body) -> Body:
    """Join the non-empty bodies, each on its own line."""
    lines: Body = ()
    for body in filter(None, bodies):
        lines += (*(("\n",) if lines else ()), *body)
    return join(lines)


def _note_about(files: Sequence[File], made: Sequence[File | None], language: str) -> Body:
    """Return the sentence about files that were left out or shrunk."""
    lost = made.count(None)
    if lost:
        return say(language, "result.files_left_out", count=lost)
    pairs = zip(files, made, strict=True)
    changed = [small for file, small in pairs if small is not None and small is not file]
    if not all(is_image(mime_of(file.data)) for file in changed):  # some animations became videos
        return say(language, "result.video_fitted")
    return say(language, _smaller(len(changed), len(files)), count=len(changed), all=len(files))


def _smaller(count: int, of: int) -> str:
    """Return the key of the text about shrunk images."""
    if count == of:
        return "result.smaller" if of == 1 else "result.all_smaller"
    return "result.one_smaller" if count == 1 else "result.some_smaller"


def in_words(content: Content) -> Content:
    """Return the content without files and formatting."""
    words = (
        part if isinstance(part, str | Moment | Period | ProgressBar) else part.text
        for part in content.body
    )
    return replace(content, body=join(tuple(words)), files=())


def _in_words(rendered: RenderedResult, files_refused: Body) -> RenderedResult:
    content = in_words(rendered.content)
    if rendered.content.files or any(each.files for each in rendered.rest):
        content = replace(content, body=(*content.body, "\n", *files_refused))
    rest = (in_words(each) for each in rendered.rest)
    return RenderedResult(content=content, rest=tuple(each for each in rest if each.body))


def _missing(output: Output, language: str) -> str:
    """Return why some of a server's files are missing."""
    return told(Problem.read(output.missing), language) if output.missing else ""
