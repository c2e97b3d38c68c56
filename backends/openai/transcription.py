"""Asks a server to write down what is said in a recording.

The recording is sent as 16 kHz mono WAV, which every server reads. Nothing is streamed: servers
disagree about the events of a stream, and all of them return the whole text.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from backends.common.error_rules import REFUSED
from backends.common.http import Http
from backends.common.http_replies import HttpFailed, HttpRefused
from backends.media.sounds import SoundError, SoundFault, as_wav
from backends.openai.completion import silence_s
from backends.openai.flavours.errors import (
    BAD_SOUND,
    LONG_SOUND,
    NO_HEARING,
    NO_IMAGES,
    NO_TRANSLATION,
    NOTHING_SAID,
    classify_answer,
)
from backends.openai.flavours.flavour import AudioForm
from backends.openai.recordings import is_plain
from backends.openai.transcripts import SpeechTranscript, heard, pieces_of, together
from queueing.core.errors import BackendError, OutOfMemory, Rejected
from queueing.core.ports import Report
from queueing.core.requests import File, Output, Progress, SpeechToText
from queueing.core.specs import Timeouts

FAULTS = {
    SoundFault.UNREADABLE: BAD_SOUND,
    SoundFault.SILENT: NOTHING_SAID,
    SoundFault.TOO_LONG: LONG_SOUND,
}
UNTOLD = "Invalid request"  # whisper.cpp's whole answer to a sound it cannot read
REFUSES_FORM = {400, 422, 500, 501}  # what servers answer to a response format they lack


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """A sound to write down: how, by which model, and the sound as servers take it.

    `max_tokens` bounds what a model that chats may write.
    """

    request: SpeechToText
    sound: File
    model_id: str
    timeouts: Timeouts
    max_tokens: int | None = None


async def plain_sound(files: Sequence[File]) -> File:
    """Return a job's one recording as WAV; as it is where PyAV is missing. Raises `Rejected`."""
    if len(files) != 1:
        raise Rejected(f"{len(files)} recordings instead of one", problem=BAD_SOUND)
    try:
        return files[0] if is_plain(files[0].data) else await as_wav(files[0])
    except SoundError as error:
        if error.fault is SoundFault.NO_LIBRARY:
            return files[0]
        raise Rejected(str(error), problem=FAULTS[error.fault]) from error


async def transcribe(http: Http, form: AudioForm, recording: Recording, report: Report) -> Output:
    """Return the text of a recording, "" where nothing is said, reporting each piece of it.

    Cancelling closes the connection. Raises `BackendError`s.
    """
    asked = recording.request
    pieces = await asyncio.to_thread(pieces_of, recording.sound.data)
    told: list[SpeechTranscript] = []
    timed = form.segments and (asked.timestamps or form.silence)
    for piece in pieces:
        told.append(await _told(http, form, recording, piece.sound(), timed=timed))
        timed = timed and not (told[-1].text and told[-1].segments is None)
        so_far = together(pieces, told).text if len(pieces) > 1 else None
        report(Progress(fraction=len(told) / len(pieces), text=so_far or None))
    whole = together(pieces, told)
    verbose = whole.verbose(translated=asked.translate) if asked.timestamps else ""
    return Output(text=whole.text, answer=verbose)


async def _told(
    http: Http, form: AudioForm, recording: Recording, sound: bytes, *, timed: bool
) -> SpeechTranscript:
    """Ask with segments where they are wanted, and without where the model knows none."""
    recording = replace(recording, sound=replace(recording.sound, data=sound))
    if timed:
        try:
            return await _asked(http, form, recording, "verbose_json")
        except (HttpRefused, HttpFailed) as error:
            fault = _fault(error)
            told = isinstance(fault, OutOfMemory) or fault.problem not in (None, REFUSED)
            if told or error.status not in REFUSES_FORM:
                raise fault from error
    try:
        return await _asked(http, form, recording, "json")
    except (HttpRefused, HttpFailed) as error:
        raise _fault(error) from error


def _fault(error: HttpRefused | HttpFailed) -> BackendError:
    """Return what an answer stands for; some servers speak of an image, or of nothing."""
    fault = classify_answer(error)
    if fault.problem == NO_IMAGES or error.body.strip() == UNTOLD:
        return Rejected(str(fault), problem=BAD_SOUND)
    return fault


async def _asked(
    http: Http, form: AudioForm, recording: Recording, answer: str
) -> SpeechTranscript:
    path, fields = call_of(form, recording.request)
    if form.tokens and recording.max_tokens is not None:
        fields[form.tokens] = str(recording.max_tokens)
    return heard(
        await http.post_multipart(
            path,
            field="file",
            file=recording.sound,
            fields={"model": recording.model_id, "response_format": answer, **fields},
            timeout_s=silence_s(recording.timeouts),
        )
    )


def call_of(form: AudioForm, request: SpeechToText) -> tuple[str, dict[str, str]]:
    """Return the path of a request, and its form fields beside model and form of the answer. Pure.

    Raises `Rejected` for what the server cannot do.
    """
    fields, path = dict(form.always), form.transcriptions
    if path is None:
        raise Rejected("the server writes down no speech", problem=NO_HEARING)
    if request.translate and form.translate is not None:
        fields[form.translate] = "true"
    elif request.translate and form.translations is None:
        raise Rejected("the server translates nothing", problem=NO_TRANSLATION)
    elif request.translate and form.translations is not None:
        path = form.translations
    if path == form.transcriptions and (language := request.language or form.any_language):
        fields["language"] = language
    if request.prompt:
        fields["prompt"] = form.words.format(request.prompt)
    if request.temperature is not None:
        fields["temperature"] = f"{request.temperature:g}"
    return path, fields
