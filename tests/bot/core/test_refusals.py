"""The table of refusals: each row has its sentence in each language, and reaches its person."""

import ast
import asyncio
import re
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path

import pytest

from bot.commands import registry
from bot.commands.call.context import Call, Context
from bot.core.answers import Answer
from bot.core.content import Moment
from bot.core.refusals import (
    ApiAnswer,
    Declined,
    FieldValue,
    Phrase,
    Refusal,
    RefusalKind,
    refusal_of,
)
from bot.requests.admission import AdmissionService
from bot.texts.catalogue import CATALOGUES, clock, plain, word
from bot.texts.refusals import sentence
from queueing.core.errors import (
    LimitReached,
    NoServer,
    NotAccepting,
    NotCapable,
    Refused,
    UnknownModel,
)
from queueing.core.requests import Capability
from tests.bot.api.openai_sdk import CAT
from tests.bot.api.whole_api import running
from tests.bot.results import bot_with
from tests.simulation.loop import in_virtual_time

BOT = Path(__file__).parents[3] / "bot"
SLOT = re.compile(r"\{(\w+)(?::[^}]*)?\}")
SOON = Moment(4_000_000_000.0)
HINT = Phrase("hint.help")
EXAMPLES: Mapping[type, FieldValue] = {str: "flux", int: 37, float: 2.5, Moment: SOON, Phrase: HINT}
TOO_MANY, AWAY = HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE
ANSWERS = {
    "BANNED": ApiAnswer(HTTPStatus.FORBIDDEN, "banned"),
    "BANNED_UNTIL": ApiAnswer(HTTPStatus.FORBIDDEN, "banned"),
    **{
        f"MODEL_NOT_ALLOWED{others}": ApiAnswer(
            HTTPStatus.FORBIDDEN, "model_not_allowed", param="model"
        )
        for others in ("", "_OTHERS")
    },
    **{
        kind: ApiAnswer(HTTPStatus.FORBIDDEN, "not_allowed")
        for kind in ("KIND_NOT_ALLOWED", "LORA_NOT_ALLOWED", "TOO_MUCH")
    },
    "UNKNOWN_MODEL": ApiAnswer(HTTPStatus.NOT_FOUND, "model_not_found", "model"),
    "NOT_CAPABLE": ApiAnswer(code="not_capable", param="model"),
    "NOT_CAPABLE_OTHERS": ApiAnswer(code="not_capable", param="model"),
    "QUOTA_USED_UP": ApiAnswer(TOO_MANY, "quota_used_up", again_s=1.0),
    "UPLOADS_USED_UP": ApiAnswer(TOO_MANY, "quota_used_up", again_s=1.0),
    "GPU_TIME_USED_UP": ApiAnswer(TOO_MANY, "gpu_time_used_up", again_s=1.0),
    "TOO_MANY_OPEN": ApiAnswer(TOO_MANY, "too_many_open", again_s=5.0),
    "TOO_MANY_OPEN_UNTIL": ApiAnswer(TOO_MANY, "too_many_open", again_s=5.0),
    "QUEUE_FULL": ApiAnswer(TOO_MANY, "queue_full", again_s=5.0),
    "QUEUE_STANDS": ApiAnswer(TOO_MANY, "queue_full", again_s=5.0),
    "NO_SERVER": ApiAnswer(AWAY, "no_server"),
    "NOT_LOADABLE": ApiAnswer(AWAY, "no_server", again_s=1.0),
    "FULL_DISK": ApiAnswer(AWAY, "not_accepting"),
    "NOT_ACCEPTING": ApiAnswer(AWAY, "not_accepting"),
    **{
        f"BEYOND_{what}": ApiAnswer(code="beyond_model")
        for what in ("PIXELS", "STEPS", "COUNT", "SECONDS", "FRAMES", "MEMORY")
    },
}


def example(kind: RefusalKind) -> Refusal:
    return Refusal(kind, **{name: EXAMPLES[type_] for name, type_ in kind.value.fields.items()})


@pytest.mark.parametrize("language", CATALOGUES)
def test_a_file_without_a_name_leaves_no_gap_in_a_sentence(language: str) -> None:
    """People would read " is too large", or "know about ?"."""
    for kind in RefusalKind:
        blank = {name: "" for name in ("name", "names") if name in kind.value.fields}
        text = CATALOGUES[language][kind.value.text]
        if blank and kind.value.text.startswith("problem.") and "--{name}" not in text:
            told = plain(sentence(Refusal(kind, **{**example(kind).values, **blank}), language))
            assert not re.search(r"^\W*[a-z]|\s\s|\s[?,;:!)]|\s\.\s|“”|\s$", told), told


def shown(value: FieldValue, language: str) -> str:
    """Return what appears in a sentence for a value."""
    match value:
        case Phrase(key):
            return word(language, key)
        case Moment():
            return clock(value)
        case float():
            return f"{value:g}".replace(".", word(language, "number.point"))
    return str(value)


@pytest.mark.parametrize("language", CATALOGUES)
def test_each_sentence_shows_exactly_the_fields_of_its_row(language: str) -> None:
    """A person would not learn what to change, or only that something went wrong."""
    for kind in RefusalKind:
        row, refusal = kind.value, example(kind)
        slots = set(SLOT.findall(CATALOGUES[language][row.text]))
        assert slots - {"command"} == row.fields.keys() - {"command"}, kind
        said = plain(sentence(refusal, language, "imagine"))
        for value in refusal.values.values():
            assert shown(value, language) in said, kind
        assert ("imagine" in said) is ("command" in slots - row.fields.keys()), kind


def test_each_row_has_a_sentence_of_its_own() -> None:
    """Two reasons would be shown as the same."""
    texts = [kind.value.text for kind in RefusalKind]
    assert len(RefusalKind.__members__) == len(set(texts)) == len(texts)


def made_in_bot() -> Iterator[tuple[str, set[str]]]:
    """Return the kind and the fields of each refusal that the bot makes with a literal kind."""
    for path in BOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) == "Refusal"
                and (named := ast.unparse(node.args[0])).startswith("RefusalKind.")
            ):
                yield named.removeprefix("RefusalKind."), {str(each.arg) for each in node.keywords}


def test_whoever_refuses_gives_the_fields_of_the_row() -> None:
    """The type checker does not notice it: a person would be told that something went wrong."""
    made = list(made_in_bot())
    assert len(made) > 100
    for name, fields in made:
        assert fields == RefusalKind[name].value.fields.keys(), name


def test_no_row_is_left_over() -> None:
    """The table would collect reasons that are never used."""
    source = "".join(path.read_text("utf-8") for path in BOT.rglob("*.py"))
    unused = [k.name for k in RefusalKind if not re.search(rf"RefusalKind\.{k.name}\b", source)]
    assert unused == []


def test_a_refusal_has_the_fields_of_its_row() -> None:
    """A number would appear where a time belongs."""
    kind = RefusalKind.QUOTA_USED_UP
    for wrong in (
        {},
        {"limit": 3},
        {"limit": 3, "moment": 5.0},
        {"limit": 3, "moment": SOON, "x": 1},
    ):
        with pytest.raises(TypeError, match="QUOTA_USED_UP"):
            Refusal(kind, **wrong)
    assert str(Refusal(RefusalKind.NO_JOB, job=7)) == "NO_JOB, job 7"


@pytest.mark.parametrize(
    ("error", "refusal"),
    [
        (
            UnknownModel("flx", nearest=("flux",)),
            Refusal(
                RefusalKind.UNKNOWN_MODEL,
                name="flx",
                hint=Phrase("hint.did_you_mean", {"names": "flux"}),
            ),
        ),
        (
            UnknownModel("xyz", able=("qwen",)),
            Refusal(
                RefusalKind.UNKNOWN_MODEL,
                name="xyz",
                hint=Phrase("hint.models", {"names": "qwen"}),
            ),
        ),
        (
            UnknownModel("x" * 99),
            Refusal(
                RefusalKind.UNKNOWN_MODEL,
                name="x" * 60,
                hint=Phrase("hint.models", {"names": "flux, qwen"}),
            ),
        ),
        (
            NotCapable("flux", Capability.VISION, able=("qwen",)),
            Refusal(
                RefusalKind.NOT_CAPABLE_OTHERS,
                model="flux",
                unable=Phrase("unable.vision"),
                names="qwen",
            ),
        ),
        (
            NotCapable("flux", Capability.UPSCALE),
            Refusal(RefusalKind.NOT_CAPABLE, model="flux", unable=Phrase("unable.upscale")),
        ),
        (NoServer("flux", None), Refusal(RefusalKind.NO_SERVER, model="flux")),
        (
            NoServer("flux", SOON.at),
            Refusal(RefusalKind.NOT_LOADABLE, model="flux", moment=SOON),
        ),
        (LimitReached("owner", 10), Refusal(RefusalKind.TOO_MANY_OPEN, limit=10)),
        (NotAccepting("full", full_disk=True), Refusal(RefusalKind.FULL_DISK)),
        (NotAccepting("damaged"), Refusal(RefusalKind.NOT_ACCEPTING)),
        (Refused("of a newer queue"), Refusal(RefusalKind.NOT_ACCEPTING)),
    ],
    ids=str,
)
def test_the_queues_own_reasons_are_rows(error: Refused, refusal: Refusal) -> None:
    """A misspelt model would reach people as "Usher is restarting"."""
    assert refusal_of(error, ("flux", "qwen")) == refusal


@in_virtual_time
async def test_every_row_reaches_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command could refuse, and its caller get no answer, or an answer without the usage."""
    kinds = iter(RefusalKind)

    async def refuse(_context: Context, _call: Call) -> Answer:
        raise Declined(example(next(kinds)))

    monkeypatch.setitem(registry.HANDLERS, "cancel", refuse)
    async with bot_with() as bot:
        for _ in RefusalKind:
            await bot.dispatcher.call(bot.chat.call("/cancel"))
            await asyncio.sleep(1)
    told = bot.chat.answers
    for kind, text in zip(RefusalKind, told, strict=True):
        assert text.startswith(plain(sentence(example(kind), "en", "cancel"))), kind
        assert ("Usage: /cancel [id|all]" in text) is kind.value.usage, kind


async def test_every_row_reaches_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program would retry in vain, or give up although a retry a second later would succeed."""
    kinds = iter(RefusalKind)

    async def refuse(*_args: object, **_wanted: object) -> Refusal:
        return example(next(kinds))

    monkeypatch.setattr(AdmissionService, "submit", refuse)
    async with running(tmp_path) as api:
        for kind in RefusalKind:
            expected, refusal = ANSWERS.get(kind.name, ApiAnswer()), example(kind)
            async with api.session.post(f"{api.url}/chat/completions", json=CAT) as answer:
                error = (await answer.json())["error"]
            assert answer.status == expected.status, kind
            assert (error["code"], error["param"]) == (expected.code, expected.param), kind
            assert error["message"] == plain(sentence(refusal, "en")), kind
            comes_back = expected.again_s is not None
            assert ("Retry-After" in answer.headers) is (comes_back and refusal.moment is not None)
            assert kind.value.api == expected
