"""Whatever a person types, presses or submits becomes checked values or one clear refusal."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from telegram import MessageEntity

from bot.commands.call.parser import check, clean, parse, usage
from bot.commands.registry import COMMANDS
from bot.core.command import Command, ParamKind
from bot.core.refusals import Declined
from bot.platforms.discord.components import views as discord_views
from bot.platforms.telegram import renderer as telegram_render
from bot.platforms.telegram.commands import typed
from bot.platforms.web.chat.renderer import split_command
from bot.texts.catalogue import CATALOGUES, plain
from bot.texts.refusals import sentence
from tests.fuzz.hostile_input import bounded, texts

TYPES: Mapping[ParamKind, type | tuple[type, ...]] = {
    ParamKind.JOB: int,
    ParamKind.WHOLE: int,
    ParamKind.DECIMAL: float,
    ParamKind.FLAG: bool,
}
commands = st.sampled_from(COMMANDS)


def _named(name: str) -> Command:
    return next(command for command in COMMANDS if command.name == name)


names = st.sampled_from(sorted({param.name for each in COMMANDS for param in each.params}))
pieces = (
    texts
    | st.builds("--{}".format, names | texts)
    | st.builds("—{}={}".format, names, texts)
    | st.builds("--{} {}".format, names, texts)
    | st.sampled_from(
        ["flux", "768x1024", "3:2", '"', "“", "#7", "-", "--", "=", "\n", "\r\n", " "]
    )
)
lines = st.lists(pieces, max_size=8).map(" ".join)


def _require_sound(command: Command, args: Mapping[str, Any]) -> None:
    """Check what every handler relies on."""
    known = {param.name: param for param in command.params}
    for name, value in args.items():
        param = known[name]
        assert isinstance(value, TYPES.get(param.kind, str)), (name, value)
        if isinstance(value, int | float) and param.least is not None:
            assert value >= param.least
        if isinstance(value, int | float) and param.most is not None:
            assert value <= param.most
        if isinstance(value, str):
            assert value == clean(value)
            value.encode()  # whatever is stored or sent must be real text


def _require_words(*told: str) -> None:
    for text in told:
        assert text


@bounded
@given(commands, lines, st.booleans())
def test_typed_calls(command: Command, line: str, model: bool) -> None:
    """Some text would crash the handler, or pass it a value outside its limits."""
    try:
        _require_sound(command, parse(command, line, lambda _: model))
    except Declined as bad:
        told = [plain(sentence(bad.refusal, language)) for language in CATALOGUES]
        _require_words(*told, usage(command))


@st.composite
def calls(draw: Any) -> tuple[Command, dict[str, Any]]:
    """Return a command with arbitrary values for its own options, and sometimes for another's."""
    command = draw(commands)
    own = [param.name for param in command.params]
    given_ones = draw(st.lists(st.sampled_from(own), unique=True)) if own else []
    values = texts | st.integers() | st.floats() | st.booleans() | st.integers(-3, 3)
    options = {name: draw(values) for name in given_ones}
    if draw(st.integers(0, 5)) == 0:
        options[draw(names | texts)] = draw(values)
    for param in command.params:  # or most calls would end at what is missing
        if param.required:
            options.setdefault(param.name, "1")
    return command, options


@bounded
@given(calls())
@example((_named("image"), {"prompt": "a\u202eb\0\ud800"}))
@example((_named("image"), {"prompt": "a", "count": 10**6}))
@example((_named("image"), {"prompt": "a", "strength": float("nan")}))
def test_options_a_platform_has_typed(called: tuple[Command, Mapping[str, Any]]) -> None:
    """Discord's client can be replaced: what it sends is as free as typed text."""
    command, options = called
    with suppress(Declined):
        _require_sound(command, check(command, options))


@bounded
@given(texts | lines)
def test_what_is_cleaned_can_be_stored_and_shown(text: str) -> None:
    """A character that no database or chat accepts would stop a job after it was accepted."""
    cleaned = clean(text)
    cleaned.encode()
    assert clean(cleaned) == cleaned
    assert not set("\0\x1b\u202e\u2066\r") & set(cleaned)


@bounded
@given(lines)
def test_lines_of_the_web_page(line: str) -> None:
    """A message in the web chat would be lost before anyone could answer it."""
    command, rest = split_command(line)
    assert isinstance(command, str)
    assert command
    assert isinstance(rest, str)


@bounded
@given(
    st.text() | lines.map("/{}".format),
    st.lists(
        st.builds(
            MessageEntity,
            type=st.sampled_from(["bot_command", "bot_command", "mention", "url"]),
            offset=st.just(0) | st.integers(-5, 300),
            length=st.integers(-5, 8) | st.integers(-5, 300),
        ),
        max_size=4,
    ),
)
@example("/\N{CAT FACE}", [MessageEntity("bot_command", 0, 2)])  # half a cat
@example("/\ud800", [MessageEntity("bot_command", 0, 2)])
def test_telegrams_marks_over_any_text(text: str, marks: list[MessageEntity]) -> None:
    """Entities that do not fit their text (half a character, a length too long) would crash it."""
    found = typed(text, marks)
    if found is not None:
        assert isinstance(found.command, str)


@bounded
@given(
    texts
    | st.from_regex(r"[a-z_]{1,20}(:-?[0-9]{1,30}){0,3}", fullmatch=True)
    | st.from_regex(r"(job|form):[0-9]{1,30}(:[a-z]{1,9})?(:[0-9]{1,9})?", fullmatch=True)
)
@example("cancel:-1")
@example("cancel:1:-1")
@example("job:-1:cancel")
@example("job:1:cancel:-1")
@example("job:\N{ARABIC-INDIC DIGIT THREE}:cancel")
@example("cancel:\N{ARABIC-INDIC DIGIT THREE}")
@example("job:1:l\N{LATIN SMALL LETTER O WITH DIAERESIS}schen")
@example("cancel:" + "9" * 5000)
@example("cancel:1\n")
def test_button_ids(data: str) -> None:
    """A forged button id would crash the platform, or contain more than a command and numbers."""
    for press in (telegram_render.pressed(data), discord_views.pressed(data)):
        if press is None:
            continue
        command, options = press
        assert command.isascii()
        assert set(options) <= {"id", "number"}
        assert all(value >= 0 for value in options.values())
        for each in COMMANDS:
            if each.name == command:
                with suppress(Declined):
                    _require_sound(each, check(each, options))
