"""Reads a text aloud on a server, part by part, and joins the parts into one sound."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from backends.common.file_types import is_text
from backends.common.http import Http
from backends.media.sounds import FORMS, SoundError, as_form
from backends.openai.audio.recordings import ENDINGS, joined, sound_of
from backends.openai.chat.completion import silence_s
from backends.openai.flavours.errors import NO_SPEECH, classified, classify
from backends.openai.flavours.flavour import AudioForm
from queueing.core.catalog import near
from queueing.core.errors import ProblemKind, Rejected, UnreadableAnswer, problem
from queueing.core.ports import Report
from queueing.core.requests import File, Output, Progress, SpeechFormat, TextToSpeech
from queueing.core.specs import Timeouts

PART_MOST = 4096  # characters; OpenAI's limit

_SPAN = 200  # characters of a link or emphasised text: limited so that matching stays fast

_LINES = (
    (re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n]*$", re.MULTILINE), ""),  # fences; the code stays
    (re.compile(r"^[ \t]*(?:\*[ \t]*){3,}$|^[ \t]*(?:_[ \t]*){3,}$", re.MULTILINE), ""),
    (
        re.compile(r"^[ \t|:+=-]{0,200}[-=]{3}[ \t|:+=-]*$", re.MULTILINE),
        "",
    ),  # rules, including those of tables
    (re.compile(r"^[ \t]{0,8}(?:>[ \t]?)+", re.MULTILINE), ""),
    (re.compile(r"^[ \t]{0,8}#{1,6}[ \t]+", re.MULTILINE), ""),
    (re.compile(r"^[ \t]*[-*+•][ \t]+(?:\[[ xX]\][ \t]+)?", re.MULTILINE), ""),
)
_ROW = re.compile(r"^[ \t]*\|([^\n]*)\|[ \t]*$", re.MULTILINE)
_TARGET = r"\((?:[^()\n]|\([^()\n]{0,200}\)){0,2000}\)"
_LINK = re.compile(rf"!?\[([^\[\]\n]{{0,{_SPAN}}})\](?:{_TARGET}|\[[^\[\]\n]{{0,100}}\])")
_CODE = re.compile(rf"(`{{1,3}})([^`\n]{{1,{_SPAN}}})\1")
_EMPHASIS = re.compile(
    rf"(?<![\w*_~\\])(\*{{1,3}}|_{{1,3}}|~~)(?=\S)([^\n]{{1,{_SPAN}}}?)(?<=[^\s\\])\1(?![\w*_~])"
)
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+.!|>~-])")
_GAPS = re.compile(r"\n{3,}")

_BREAKS = (
    re.compile(r"\n[ \t]*\n"),
    re.compile(r"[.!?…][\"'”\u2019»)\]]*(?=\s)|[。\uff01\uff1f]"),
    re.compile(r"\n"),
    re.compile(r"[,;:–](?=\s)|[\uff0c、\uff1b\uff1a]"),
    re.compile(r"\s"),
)
"""Places to split a text, the best first."""


def plain_words(text: str) -> str:
    """Return a text without Markdown syntax, or unchanged if nothing would be left."""
    words = text
    for pattern, instead in _LINES:
        words = pattern.sub(instead, words)
    words = _ROW.sub(lambda row: ", ".join(filter(None, map(str.strip, row[1].split("|")))), words)
    words = _LINK.sub(r"\1", words)
    words = _CODE.sub(r"\2", words)
    for _ in range(3):  # bold in italics in strikethrough
        words = _EMPHASIS.sub(r"\2", words)
    words = _GAPS.sub("\n\n", _ESCAPED.sub(r"\1", words)).strip()
    return words or text.strip()


def parts_of(text: str, most: int = PART_MOST) -> list[str]:
    """Split a text into parts of at most `most` characters, after sentences if possible.

    The parts contain every non-space character of the text, and none is blank.
    """
    parts, rest = [], text.strip()
    while len(rest) > most:
        cut = _cut(rest, most)
        parts.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    return [part for part in (*parts, rest) if part]


def _cut(text: str, most: int) -> int:
    """Return the end of the first part: the best break in its second half, or anywhere."""
    for least in (most // 2, 1):
        for pattern in _BREAKS:
            ends = [found.end() for found in pattern.finditer(text, 0, most)]
            if ends and ends[-1] >= least:
                return ends[-1]
    return most


OPENAI = frozenset(
    {
        *("alloy", "ash", "ballad", "coral", "echo", "fable"),
        *("nova", "onyx", "sage", "shimmer", "verse"),
    }
)
"""OpenAI's own voices, which servers map to theirs."""

_MIX = re.compile(r"[+-]")
_WEIGHT = re.compile(r"\([^()]*\)$")
_LISTED = 8  # voices suggested to a person
_NAME_MOST = 60  # characters of an unknown name


def voice_named(wanted: str, voices: Sequence[str], form: AudioForm) -> str:
    """Return a voice as the server spells it. Raises `Rejected` for an unlisted one."""
    if not voices:
        return wanted
    known = {voice.casefold(): voice for voice in voices}
    if (whole := known.get(wanted.casefold())) is not None:
        return whole
    named = (
        [_WEIGHT.sub("", part.strip()) for part in _MIX.split(wanted)] if form.mixes else [wanted]
    )
    also = OPENAI if form.mixes else frozenset()
    wrong = [name for name in named if name.casefold() not in known and name not in also]
    if not wrong:
        return wanted
    name = wrong[0][:_NAME_MOST]
    there = ", ".join(near(name, voices, most=_LISTED) or voices[:_LISTED])
    told = problem(ProblemKind.OTHER_VOICES, name=name, there=there)
    raise Rejected(f"unknown voice {name!r}; available: {there}", problem=told)


SOUND_LIMIT = 256 * 1024 * 1024  # bytes; an hour of uncompressed speech is 170 MB
RAW = "audio/pcm"  # samples without a header: any bytes except text


@dataclass(frozen=True, kw_only=True, slots=True)
class Speech:
    """A text to read aloud: the model and its voices.

    `voice` is the default for requests without one; `voices` are those the server lists.
    """

    request: TextToSpeech
    model_id: str
    timeouts: Timeouts
    voice: str = ""
    voices: tuple[str, ...] = ()


async def speak(http: Http, form: AudioForm, speech: Speech, report: Report) -> Output:
    """Read a text aloud, reporting each part. Cancelling closes the connection.

    Raises `BackendError`s.
    """
    path = form.speech
    if path is None:
        raise Rejected("the server cannot read aloud", problem=NO_SPEECH)
    texts = await asyncio.to_thread(lambda: parts_of(plain_words(speech.request.text)))
    wanted = format_of(speech.request.format, len(texts))
    sounds: list[bytes] = []
    for text in texts:
        with classified():
            sound = await http.post_for_bytes(
                path,
                body_of(form, speech, text, wanted),
                timeout_s=silence_s(speech.timeouts),
                limit=SOUND_LIMIT // len(texts),
            )
            require_sound(sound, wanted)
        sounds.append(sound)
        report(Progress(fraction=len(sounds) / len(texts)))
    whole = await asyncio.to_thread(_whole, sounds, wanted)
    return Output(files=(await _in_format(whole, speech.request.format),))


async def _in_format(sound: File, form: SpeechFormat | None) -> File:
    """Convert a sound to the requested format if the server could not send it."""
    if form is None or sound.mime == FORMS[form]:
        return sound
    try:
        return await as_form(sound, form)
    except SoundError:  # keep its own format
        return sound


def format_of(asked: SpeechFormat | None, parts: int) -> SpeechFormat:
    """Return the format to request: MP3 by default, WAV if parts of the format cannot be joined."""
    if parts > 1 and asked in {"flac", "opus"}:
        return "wav"
    return asked or "mp3"


def body_of(form: AudioForm, speech: Speech, text: str, wanted: SpeechFormat) -> JsonValue:
    """Return the request body for one part. Raises `Rejected` for an unlisted voice."""
    request = speech.request
    voice = request.voice or speech.voice or form.voice or next(iter(speech.voices), None)
    options: dict[str, JsonValue] = {
        "voice": voice and voice_named(voice, speech.voices, form),
        "speed": request.speed,
        "instructions": request.instructions,
    }
    told = {name: value for name, value in options.items() if value is not None}
    basic = {"model": speech.model_id, "input": text, "response_format": wanted}
    return {**basic, **told, **form.spoken}


def require_sound(data: bytes, wanted: SpeechFormat) -> None:
    """Raise an error if a response with status 200 is not a sound."""
    if not data:
        raise UnreadableAnswer("the server sent an empty sound")
    if sound_of(data) or (wanted == "pcm" and not is_text(data)):
        return
    text = data[:1000].decode(errors="replace")
    if text.lstrip().startswith("{"):
        raise classify(200, text)
    raise UnreadableAnswer(f"the server's answer is not a sound: {text[:200]!a}")


def _whole(sounds: Sequence[bytes], wanted: SpeechFormat) -> File:
    raw = wanted == "pcm" and not all(map(sound_of, sounds))
    try:
        data = b"".join(sounds) if raw else joined(sounds)
    except ValueError as error:
        raise UnreadableAnswer(f"unexpected sound: {error}") from None
    mime = RAW if raw else sound_of(data)
    return File(name=f"speech.{ENDINGS[mime]}", mime=mime, data=data)
