"""Classifies a server's error response by its status, then its codes, then its wording. Pure.

Servers quote rejected input, so a message may contain the caller's own words. A message counts as
the server's fault only if all of it matches a sentence that servers are known to send. Each kind of
server has its own table of rules.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pydantic import JsonValue

from backends.common.http_replies import BadStatus, ErrorInAnswer, HttpFailed, Redirected
from queueing.core.errors import (
    BackendError,
    BadModel,
    Busy,
    KeyRefused,
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

CAUSE_LIMIT = 300  # characters of a server's message that reach the log
REFUSED = problem(ProblemKind.REFUSED)
OK, UNAUTHORIZED, UNPAID, FORBIDDEN, NOT_FOUND = 200, 401, 402, 403, 404
NO_TIME, TOO_LARGE, TOO_MANY, BROKEN = 408, 413, 429, 500
NOT_NOW = frozenset({423, 425, TOO_MANY, 529})  # locked, too early, overloaded
_PREFIXES = (  # prefixes that servers put before a library's own message
    "((llama runner process has terminated|error loading model|[a-z]+ execution error|runtimeerror"
    "|an error was encountered while running the model|(torch[.])?(cuda[.])?outofmemoryerror"
    "|rpc error: code = [a-z]+ desc =|exit status [0-9]+|ggml_[a-z0-9_]+):? )*"
)
_SIZE = "[(][0-9.]+ [kmgt]?i?b[)]"
_OF_LIBRARIES = (  # torch, ggml and their allocators; some append figures
    r"(cuda|rocm|hip|xpu|mps)( error:| backend)? out of memory"
    r"[.]?(\s+(tried to allocate|[(]mps allocated:|current device:) [0-9].*)?"
    r"|(allocating [0-9.]+ mib on device [0-9]+: )?cudamalloc failed: out of memory"
    r"|(vk::[a-z:]+ )?erroroutofdevicememory"
    r"|(failed|unable) to allocate (\w+ |compute pp |kv cache )?buffers?"
    r"|allocation on device"
    r"(\s+([0-9]+ would exceed allowed memory|this error means you ran out of memory).*)?"
)
OUT_OF_MEMORY = (
    f"{_PREFIXES}({_OF_LIBRARIES})",
    "(torch[.])?(cuda[.])?outofmemoryerror",
    "model limit reached, try again later",  # llama.cpp's router: all models it may keep are busy
)
"""Known messages for a lack of GPU memory."""
_OF_MAIN_MEMORY = (
    r"(\[enforce fail[^\]]*\] *(data)?[.]? *)?defaultcpuallocator: "
    r"(not enough|can't allocate) memory(: you tried to allocate [0-9].*)?"
    f"|model requires more system memory {_SIZE} than is available( {_SIZE})?"  # Ollama
)
NO_MAIN_MEMORY = (f"{_PREFIXES}({_OF_MAIN_MEMORY})",)
"""Known messages for a lack of main memory, which unloading a model from a GPU does not fix."""
NO_ROOM = ("model loading (was stopped|aborted) due to insufficient system resources.*",)
"""LM Studio's message, at any status, for a model that it does not load to spare the memory."""
_OF_LOADS = (*OUT_OF_MEMORY, *NO_ROOM)
AWAY = frozenset({502, 503, 504})
OF_CALLERS = (Rejected, BadModel, NotLoaded, Busy)  # some send 400 while they load a model
NOBODYS = frozenset(
    {OK, UNAUTHORIZED, FORBIDDEN, NO_TIME}
)  # statuses that do not say whose fault it is
BY_CODE: Mapping[str, int] = {  # for servers that report an error in a response with status 200
    "rate_limit_exceeded": TOO_MANY,
    "rate_limit_error": TOO_MANY,
    "server_error": BROKEN,
    "internal_error": BROKEN,
    "internal_server_error": BROKEN,
    "internalservererror": BROKEN,
    "api_error": BROKEN,
    "unavailable_error": 503,
    "overloaded_error": 529,
    "invalid_request_error": 400,
    "badrequesterror": 400,
    "not_found_error": NOT_FOUND,
}
# Linear: an unclosed "{" matches to the end of the text, since a server may send 64 KB of them.
_QUOTED = re.compile(r"""\{(?:.*\}|.*)|\[(?:.*\]|.*)|"[^"]*"|(?<!\w)'[^']*'(?!\w)""", re.DOTALL)
_EVENT = re.compile(r"(?:event:.*\n)?data:(.*)")
OF_KEYS = frozenset(
    {"invalid_api_key", "authentication_error", "token_not_found_in_db", "expired_key"}
)
_WRONG_KEY = ("(incorrect|invalid) api key.*", "api key (not valid|expired|is invalid).*")
OF_CREDIT = frozenset(
    {
        "insufficient_quota",
        "exceeded_current_quota_error",
        "billing_not_active",
        "billing_hard_limit_reached",
        "budget_exceeded",  # LiteLLM
        "arrearage",  # DashScope, also the next one
        "allocationquota.freetieronly",
        "accountoverdueerror",  # Volcengine
    }
)
_NO_CREDIT = (
    "insufficient (balance|credit|funds).*",
    "(sorry, )?your (credit|account) balance is .*",
    # Gemini also sends this sentence for a limit per minute, which it names.
    "you exceeded your current quota, please check your plan and billing det(?!.*limit: [1-9]).*",
    "you have (exceeded your monthly included credits|used up your daily free allocation).*",
    "aierror: you have used up your daily free allocation.*",  # Workers AI
    "you have reached your specified api usage limits.*",  # Anthropic
    "key limit exceeded.*",  # OpenRouter
    "account [^ ]+ is suspended.*",  # Fireworks
    "your team [^ ]+ has either used all available credits or .*",  # xAI
    "余额不足.*",  # Zhipu
)
_BEYOND_A_MINUTE = ("request too large for .* on tokens per min.*",)
"""OpenAI's and Groq's message, with status 429 or 413, for more tokens than a minute may have."""
_WAIT = re.compile(r"(?:retry|try again) (?:in|after) ([0-9]{1,6}(?:[.][0-9]{1,9})?) ?s")
INNER = ("error", "detail", "errors", "base_resp")
_LABELS = ("error_id", "type", "code")
NAMED = ("message", "msg", "error_msg", "status_msg", *_LABELS)
CODED = ("code", "type", "error_id", "status")


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorRule:
    """An error, and how servers report it: by a code, a whole sentence, or words in the message.

    `codes` and `sentences` (regular expressions that match a whole message) apply to every error.
    `words` apply only to errors that blame the caller, because the message may quote the caller.
    `told` is the problem shown to people.
    """

    kind: type[BackendError]
    told: Problem | None = None
    codes: frozenset[str] = frozenset()
    words: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()

    def matches(self, status: int, said: "_ErrorText") -> bool:
        """Return whether the response reports this error.

        With a status from 201 to 499, only rules whose kind is in `OF_CALLERS` can match.
        """
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

ABOUT_CONTENT = ErrorRule(
    kind=Rejected,
    told=problem(ProblemKind.FILTERED),
    codes=frozenset(
        {
            "content_filter",
            "content_policy_violation",
            "data_inspection_failed",
            "moderation_blocked",
        }
    ),
    words=(
        "content exists risk",
        "content management policy",
        "content moderation",
        "inappropriate content",
        "nsfw content",
        "safety system",
        "violated vertex ai's usage guidelines",
        "包含不安全或敏感内容",  # Zhipu
    ),
    sentences=("[^ ]+ requires moderation on .* your input was flagged .*",),  # OpenRouter
)
"""A filter of a server's provider that refuses what a person wrote."""


def judged(
    rules: Sequence[ErrorRule], status: int, body: JsonValue, *, after_s: float | None = None
) -> BackendError:
    """Return the error that a response reports; `body` is its text or parsed JSON.

    `after_s` is the server's Retry-After in seconds, if it sent one.
    """
    error = _judged(rules, status, body, after_s)
    error.answer = body
    return error


def _judged(
    rules: Sequence[ErrorRule], status: int, body: JsonValue, after_s: float | None
) -> BackendError:
    said = _ErrorText.of(body)
    cause = f"status {status}: {said.words[:CAUSE_LIMIT]!a}"
    status = said.meant(status)
    if final := _final(status, said):
        return Rejected(cause, problem=problem(final))
    if status in NOT_NOW or (after_s is not None and status >= BROKEN):
        return Busy(cause, after_s=said.wait_s if after_s is None else after_s)
    for rule in rules:
        if rule.matches(status, said):
            return rule.kind(cause, problem=rule.told)
    if status == UNAUTHORIZED or said.codes & OF_KEYS or says(said.sentence, _WRONG_KEY):
        return KeyRefused(cause)
    if status < BROKEN and status not in NOBODYS:
        return Rejected(cause, problem=REFUSED)
    return UnknownFailure(cause)


def _final(status: int, said: "_ErrorText") -> ProblemKind | None:
    """Return the problem that neither a retry nor a rule can change."""
    if says(said.sentence, _BEYOND_A_MINUTE):
        return ProblemKind.TOO_LONG
    if status == TOO_LARGE:
        return ProblemKind.TOO_LARGE
    unpaid = status == UNPAID or said.codes & OF_CREDIT or says(said.sentence, _NO_CREDIT)
    return ProblemKind.NO_CREDIT if unpaid else None


def judged_answer(rules: Sequence[ErrorRule], error: BadStatus) -> BackendError:
    """Return the error that a response with a bad status reports."""
    if isinstance(error, Redirected):  # its body is a page of the server that redirects
        return Unavailable(str(error))
    return judged(rules, error.status, error.body, after_s=error.after_s)


@contextmanager
def answers_judged(rules: Sequence[ErrorRule]) -> Iterator[None]:
    """Convert HTTP errors raised inside the block, using `rules`."""
    try:
        yield
    except BadStatus as error:
        raise judged_answer(rules, error) from error
    except ErrorInAnswer as error:
        raise judged(rules, OK, error.body) from error


def says(message: str, sentences: Sequence[str]) -> bool:
    """Return whether a whole lower-case message matches one of the regular expressions."""
    return any(re.fullmatch(each, message, re.DOTALL) for each in sentences)


def words_of(body: JsonValue) -> str:
    """Return a server's description of an error, or the whole body if it has none."""
    return _ErrorText.of(body).words


@contextmanager
def loading() -> Iterator[None]:
    """Classify a failed load by the server's message, whatever the status.

    A 502, 503 or 504 raises `Unavailable`: the server is starting, or a gateway cannot reach it.
    """
    try:
        yield
    except (Rejected, UnknownFailure) as error:
        sentence = "" if error.answer is None else _ErrorText.of(error.answer).sentence
        if says(sentence, _OF_LOADS):
            raise OutOfMemory(str(error)) from error
        if says(sentence, NO_MAIN_MEMORY):
            raise ShortOfMemory(str(error)) from error
        if isinstance(error.__cause__, HttpFailed) and error.__cause__.status in AWAY:
            raise Unavailable(str(error)) from error
        raise


@dataclass(frozen=True, kw_only=True, slots=True)
class _ErrorText:
    """An error response in parts: its words, its first sentence, and its codes.

    `own` is `words` without the quoted parts, which may come from the caller.
    """

    words: str
    sentence: str
    own: str
    codes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, body: JsonValue) -> "_ErrorText":
        told = _parsed(body)
        parts: list[str] = []
        sentences: list[str] = []
        codes: set[str] = set()
        inner = told
        while isinstance(inner, dict):  # errors nest in `error` or `detail`, or have both
            fields = inner
            inner = _first(next((v for key in INNER if (v := fields.get(key))), None))
            named = [*([inner] if isinstance(inner, str) else ()), *map(fields.get, NAMED)]
            spoken = named[: -len(_LABELS)]
            sentences += [part for part in spoken if isinstance(part, str) and part]
            parts += [str(part) for part in named if isinstance(part, str | int) and part]
            codes |= {
                str(v).casefold() for key in CODED if isinstance(v := fields.get(key), str | int)
            }
        words = " ".join(parts) or (told if isinstance(told, str) else json.dumps(told))
        sentence = next(iter((*sentences, *parts)), words).casefold().strip()
        own = _QUOTED.sub(" ", words).casefold()
        return cls(words=words, sentence=sentence, own=own, codes=frozenset(codes))

    @property
    def wait_s(self) -> float | None:
        """The seconds after which the message asks to try again, if it names them."""
        found = _WAIT.search(self.sentence)
        return float(found[1]) if found else None

    def meant(self, status: int) -> int:
        """Return the effective status: an error inside a 200 response may carry its own status."""
        if status != OK:
            return status
        numbers = (int(code) for code in self.codes if re.fullmatch("[45][0-9]{2}", code))
        return max(*numbers, *(BY_CODE[code] for code in self.codes & BY_CODE.keys()), OK, OK)


def _parsed(body: JsonValue) -> JsonValue:
    """Return a body as JSON if it is an object, or a list of one, as Gemini sends.

    Some servers refuse a streamed request with an event.
    """
    parsed = body
    if isinstance(body, str) and (event := _EVENT.match(body)):
        body = event[1]
    if isinstance(body, str) and body.lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            parsed = json.loads(body)
    return _first(parsed)


def _first(told: JsonValue) -> JsonValue:
    """Return the first of several errors."""
    return told[0] if isinstance(told, list) and told and isinstance(told[0], dict) else told
