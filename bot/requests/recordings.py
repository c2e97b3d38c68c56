"""Recordings in a question: a model transcribes, one answers, one reads aloud. Pure.

The question is the person's job, accepted once and held. Transcription and reading aloud are jobs
made for it. Their keys derive from its number, so each is accepted only once, even after an
interruption.
"""

import re
from collections.abc import Sequence

from bot.core.origin import THE_BOT
from queueing.core.jobs import Job, NewJob
from queueing.core.requests import Chat, File, Request, SpeechToText, TextToSpeech

SPOKEN_MOST = 10_000  # characters, about ten minutes
_LOOKED_AT = 15_000  # formatting included

_FENCE = re.compile(r"^(```|~~~).*?(^\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\[\]\n]{0,300})\]\([^)\s]{0,500}\)")
_ADDRESS = re.compile(r"<?https?://[^\s>]+>?")
_RULES = re.compile(r"^[ \t]*(?:([-*_])(?:[ \t]*\1){2,}|[|:-]*\|[|: \t-]*)[ \t]*$\n?", re.MULTILINE)
_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)
_MARKS = re.compile(r"^[ \t]*(?:#{1,6}|>+|[-*+])[ \t]+", re.MULTILINE)
_STRONG = re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|~~|`+)(?=\S)(.{1,200}?)(?<=\S)\1(?!\w)")
_EMPTY = re.compile(r"\n{3,}")


def spoken(markdown: str) -> str:
    """Return the text of a model's answer without code blocks, addresses and formatting."""
    text = _FENCE.sub("", markdown[:_LOOKED_AT])
    text = _LINK.sub(r"\1", text)
    text = _ADDRESS.sub("", text)
    text = _RULES.sub("", text)
    text = _ROW.sub(lambda row: ", ".join(filter(None, map(str.strip, row[1].split("|")))), text)
    text = _MARKS.sub("", text)
    for _ in range(2):  # bold text may contain italics
        text = _STRONG.sub(r"\2", text)
    return _EMPTY.sub("\n\n", text).strip()


OWNER = f"{THE_BOT}recordings"  # counts against nobody's limits and appears in nobody's list

RECORDINGS = 4  # in one question
HEARD_LIMIT = 20_000  # characters of transcript in one question
SPOKEN_LIMIT = 4_000  # characters of an answer that are read aloud

_SILENCE = re.compile(r"(?:[\[(][\w ]*[\])]|[\s.…♪*-])*")
_END = re.compile(r"[.!?…。]\s")


def to_be_heard(request: Request) -> tuple[int, ...]:
    """Return which files of a request are recordings that are not transcribed yet."""
    if not isinstance(request, Chat):
        return ()
    last = request.messages[-1]
    return last.sounds if last.heard is None else ()


def unheard(job: Job) -> tuple[int, ...]:
    """Return which of a held question's files are recordings that are not transcribed yet."""
    return to_be_heard(job.request) if job.held else ()


def heard_in(job: Job) -> str:
    """Return what was said in a question's recordings; "" without any."""
    return (job.request.messages[-1].heard or "") if isinstance(job.request, Chat) else ""


def writing_key(question: int, place: int) -> str:
    """Return the key of the job that transcribes one of a question's files."""
    return f"recording:{question}:{place}"


def writing(question: Job, place: int, sound: File, model: str) -> NewJob:
    """Return the job that transcribes one of a question's files. Deterministic."""
    return NewJob(
        model=model,
        request=SpeechToText(),
        files=(sound,),
        owner=OWNER,
        lane=question.lane,
        parent=question.id,
        key=writing_key(question.id, place),
    )


def words_of(written: str) -> str:
    """Return the transcript; "" if it only marks silence, such as [BLANK_AUDIO]."""
    text = written.strip()
    return "" if _SILENCE.fullmatch(text) else text


def asked(request: Chat, heard: Sequence[str]) -> Chat:
    """Return a question with the transcript of its recordings after its typed text."""
    *before, last = request.messages
    said = _together(heard)[:HEARD_LIMIT]
    text = "\n\n".join(filter(None, (last.text, said)))
    turn = last.model_copy(update={"text": text, "heard": said})
    return request.model_copy(update={"messages": (*before, turn)})


def is_cut(heard: Sequence[str]) -> bool:
    """Return whether the transcript is longer than a question may include."""
    return len(_together(heard)) > HEARD_LIMIT


def _together(heard: Sequence[str]) -> str:
    return "\n\n".join(filter(None, (each.strip() for each in heard)))


def speech_key(question: int) -> str:
    """Return the key of the job that reads a question's answer aloud."""
    return f"speech:{question}"


def speech(question: Job, text: str, model: str) -> NewJob:
    """Return the job that reads an answer aloud. Deterministic."""
    return NewJob(
        model=model,
        request=TextToSpeech(text=text, source=question.id),
        owner=OWNER,
        lane=question.lane,
        parent=question.id,
        key=speech_key(question.id),
    )


def read_of(answer: str) -> str:
    """Return an answer's text for reading aloud; "" if it has none.

    Of a long answer, only the sentences that fit.
    """
    text = spoken(answer)
    if len(text) > SPOKEN_LIMIT:
        text = text[:SPOKEN_LIMIT]
        ends = [found.end() for found in _END.finditer(text)]
        text = text[: ends[-1]] if ends else text
    return text.strip()
