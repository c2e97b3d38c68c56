"""Which error a server's answer stands for: its status first, then its code, then its words. Pure.

Servers quote what they refuse, so an answer's words may be a caller's. They name a server's fault
only as a sentence that is the server's own from its first word, as servers were seen to say it.
Each kind of server has a table of its own.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pydantic import JsonValue

from backends.common.http_replies import ErrorInAnswer, HttpFailed, HttpRefused
from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    NotLoaded,
    OutOfMemory,
    Problem,
    ProblemKind,
    Rejected,
    ShortOfMemory,
    Unavailable,
    UnknownFailure,
    problem,
)

CAUSE_LIMIT = 300  # characters of a server's words that reach the log
REFUSED = problem(ProblemKind.REFUSED)
OK, UNAUTHORIZED, FORBIDDEN, NOT_FOUND = 200, 401, 403, 404
NO_TIME, TOO_LARGE, TOO_MANY, BROKEN = 408, 413, 429, 500
_PASSED_ON = (  # what stands before the sentence of a library that a server passes on
    "((llama runner process has terminated|error loading model|[a-z]+ execution error|runtimeerror"
    "|an error was encountered while running the model|(torch[.])?(cuda[.])?outofmemoryerror"
    "|rpc error: code = [a-z]+ desc =|exit status [0-9]+|ggml_[a-z0-9_]+):? )*"
)
_SIZE = "[(][0-9.]+ [kmgt]?i?b[)]"
_OF_LIBRARIES = (  # torch, ggml and their allocators; some go on with figures
    r"(cuda|rocm|hip|xpu|mps)( error:| backend)? out of memory"
    r"[.]?(\s+(tried to allocate|[(]mps allocated:|current device:) [0-9].*)?"
    r"|(allocating [0-9.]+ mib on device [0-9]+: )?cudamalloc failed: out of memory"
    r"|(vk::[a-z:]+ )?erroroutofdevicememory"
    r"|(failed|unable) to allocate (\w+ |compute pp |kv cache )?buffers?"
    r"|allocation on device"
    r"(\s+([0-9]+ would exceed allowed memory|this error means you ran out of memory).*)?"
)
OUT_OF_MEMORY = (
    f"{_PASSED_ON}({_OF_LIBRARIES})",
    "(torch[.])?(cuda[.])?outofmemoryerror",
    "model limit reached, try again later",  # llama.cpp's router: all it may keep are busy
)
"""A lack of memory of a GPU, as servers were seen to report it."""
_OF_MAIN_MEMORY = (
    r"(\[enforce fail[^\]]*\] *(data)?[.]? *)?defaultcpuallocator: "
    r"(not enough|can't allocate) memory(: you tried to allocate [0-9].*)?"
    f"|model requires more system memory {_SIZE} than is available( {_SIZE})?"  # Ollama
)
NO_MAIN_MEMORY = (f"{_PASSED_ON}({_OF_MAIN_MEMORY})",)
"""A lack of the machine's own memory: no model leaves a GPU for it."""
_OF_LOADS = (  # with any status, as LM Studio was seen to say it
    *OUT_OF_MEMORY,
    "model loading (was stopped|aborted) due to insufficient system resources.*",
)
AWAY = frozenset({502, 503, 504})
OF_CALLERS = (Rejected, BadModel, NotLoaded)
NOBODYS = frozenset({OK, UNAUTHORIZED, FORBIDDEN, NO_TIME})  # these do not say whose fault it is
BY_CODE: Mapping[str, int] = {  # of servers that report an error in an answer with status 200
    "rate_limit_exceeded": TOO_MANY,
    "rate_limit_error": TOO_MANY,
    "server_error": BROKEN,
    "internal_error": BROKEN,
    "internal_server_error": BROKEN,
    "internalservererror": BROKEN,
    "api_error": BROKEN,
    "unavailable_error": 503,
    "overloaded_error": 503,
    "invalid_request_error": 400,
    "badrequesterror": 400,
    "not_found_error": NOT_FOUND,
}
# Each part reads on from where it began only once: a server may send 64 KB of "{".
_QUOTED = re.compile(r"""\{(?:.*\}|.*)|\[(?:.*\]|.*)|"[^"]*"|(?<!\w)'[^']*'(?!\w)""", re.DOTALL)
INNER = ("error", "detail")
NAMED = ("message", "msg", "error_id", "type", "code")
CODED = ("code", "type", "error_id", "status")


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorRule:
    """An error and what servers report it by: a code, a whole sentence, or some of their words.

    `codes` and `sentences` (expressions that match a whole message) count wherever they stand,
    `words` only where they blame the caller, whose they may be. `told` is what people read.
    """

    kind: type[BackendError]
    told: Problem | None = None
    codes: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()

    def matches(self, status: int, said: "_Said") -> bool:
        """Return whether it is this error; a status that blames the caller tells of few."""
        if OK < status < BROKEN and not issubclass(self.kind, OF_CALLERS):
            return False
        if self.codes & said.codes:
            return True
        if says(said.sentence, self.sentences):
            return True
        return issubclass(self.kind, Rejected) and any(word in said.own for word in self.words)


ABOUT_MEMORY = (
    ErrorRule(kind=OutOfMemory, sentences=OUT_OF_MEMORY),
    ErrorRule(kind=ShortOfMemory, sentences=NO_MAIN_MEMORY),
)


def judged(
    rules: Sequence[ErrorRule], status: int, body: JsonValue, *, after_s: float | None = None
) -> BackendError:
    """Return the error an answer stands for; `body` is its text or parsed JSON.

    `after_s` is when the server says to ask again, if it does.
    """
    error = _judged(rules, status, body, after_s)
    error.answer = body
    return error


def _judged(
    rules: Sequence[ErrorRule], status: int, body: JsonValue, after_s: float | None
) -> BackendError:
    said = _Said.of(body)
    cause = f"status {status}: {said.words[:CAUSE_LIMIT]!a}"
    status = said.meant(status)
    if status == TOO_LARGE:
        return Rejected(cause, problem=problem(ProblemKind.TOO_LARGE))
    if status == TOO_MANY or (after_s is not None and status >= BROKEN):
        return Busy(cause, after_s=after_s)
    for rule in rules:
        if rule.matches(status, said):
            return rule.kind(cause, problem=rule.told)
    if status < BROKEN and status not in NOBODYS:
        return Rejected(cause, problem=REFUSED)
    return UnknownFailure(cause)


def judged_answer(rules: Sequence[ErrorRule], error: HttpRefused | HttpFailed) -> BackendError:
    """Return the error that an answer with a bad status stands for."""
    return judged(rules, error.status, error.body, after_s=error.after_s)


@contextmanager
def answers_judged(rules: Sequence[ErrorRule]) -> Iterator[None]:
    """Raise the error that a server's answer stands for."""
    try:
        yield
    except (HttpRefused, HttpFailed) as error:
        raise judged_answer(rules, error) from error
    except ErrorInAnswer as error:
        raise judged(rules, OK, error.body) from error


def says(message: str, sentences: Sequence[str]) -> bool:
    """Return whether a message in small letters is one of the sentences from its first word on."""
    return any(re.fullmatch(each, message, re.DOTALL) for each in sentences)


def words_of(body: JsonValue) -> str:
    """Return a server's own description of an error, or all that it sent."""
    return _Said.of(body).words


@contextmanager
def loading() -> Iterator[None]:
    """Believe a server's own sentence about why a load failed, whatever its status.

    One that is starting, or behind a gateway that cannot reach it, is away.
    """
    try:
        yield
    except (Rejected, UnknownFailure) as error:
        sentence = "" if error.answer is None else _Said.of(error.answer).sentence
        if says(sentence, _OF_LOADS):
            raise OutOfMemory(str(error)) from error
        if says(sentence, NO_MAIN_MEMORY):
            raise ShortOfMemory(str(error)) from error
        if isinstance(error.__cause__, HttpFailed) and error.__cause__.status in AWAY:
            raise Unavailable(str(error)) from error
        raise


@dataclass(frozen=True, kw_only=True, slots=True)
class _Said:
    """What an answer says: in words, in its first sentence for people, and in codes for programs.

    `own` are the words without what they quote, which is the caller's.
    """

    words: str
    sentence: str
    own: str
    codes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, body: JsonValue) -> "_Said":
        told = _parsed(body)
        parts: list[str] = []
        codes: set[str] = set()
        inner = told
        while isinstance(inner, dict):  # errors lie in errors, details, or beside either
            fields = inner
            inner = next((v for key in INNER if (v := fields.get(key))), None)
            named = [*([inner] if isinstance(inner, str) else ()), *map(fields.get, NAMED)]
            parts += [str(part) for part in named if isinstance(part, str | int) and part]
            codes |= {
                str(v).casefold() for key in CODED if isinstance(v := fields.get(key), str | int)
            }
        words = " ".join(parts) or (told if isinstance(told, str) else json.dumps(told))
        sentence = (parts[0] if parts else words).casefold().strip()
        own = _QUOTED.sub(" ", words).casefold()
        return cls(words=words, sentence=sentence, own=own, codes=frozenset(codes))

    def meant(self, status: int) -> int:
        """Return the status of an answer; an error inside a 200 may name its own."""
        if status != OK:
            return status
        numbers = (int(code) for code in self.codes if re.fullmatch("[45][0-9]{2}", code))
        return max(*numbers, *(BY_CODE[code] for code in self.codes & BY_CODE.keys()), OK, OK)


def _parsed(body: JsonValue) -> JsonValue:
    """Return a text as the JSON object it holds, if it does."""
    if not isinstance(body, str) or not body.lstrip().startswith("{"):
        return body
    try:
        parsed: JsonValue = json.loads(body)
    except (ValueError, RecursionError):
        return body
    return parsed
