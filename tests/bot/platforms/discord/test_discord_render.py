"""How content becomes Discord's text: literal where it must be, and always within the limit."""

import re

from hypothesis import given
from hypothesis import strategies as st

from bot.core.content import (
    Body,
    Button,
    CommandText,
    Content,
    Markdown,
    Moment,
    Period,
    Strong,
    utf16_length,
)
from bot.platforms.discord.components.views import pressed, view_of
from bot.platforms.discord.renderer import (
    TEXT_MOST,
    fit,
    literal,
    outgoing,
    text_of,
)
from queueing.core.requests import File

# Signs that mean something to Discord, so that random texts are full of them.
NASTY = st.text(st.sampled_from("*_~|`[]()<>@#:-+\\/1.) \n") | st.characters(), max_size=200)
WORDS = st.sampled_from(
    ["@everyone", "<@7>", "https://x.org/a_b", "[a](https://x.org)", "<t:0:R>", "\n# h", "```"]
)
TEXTS = st.lists(NASTY | WORDS, max_size=6).map("".join)
PARTS = (
    TEXTS
    | TEXTS.map(Markdown)
    | TEXTS.map(Strong)
    | TEXTS.map(CommandText)
    | st.integers(0, 2**33).map(lambda at: Moment(float(at)))
)
BODIES = st.lists(PARTS, max_size=6).map(tuple)

ADDRESS = re.compile(r"https?://[^\s<]+[^<.,:;\"'\]\s]")
FORMATS = re.compile(
    r"[*_~|`\[<]|@everyone|@here|(?<![^\n])[ \t]*(>|(#{1,3}|[+-]#?|\d+[.)])(\s|$))"
)


def walk(text: str) -> tuple[str, list[str]]:
    """Return what Discord shows of a literal text, and what it would treat as formatting."""
    shown, formats, at = "", [], 0
    while at < len(text):
        if address := ADDRESS.match(text, at):
            shown, at = shown + address[0], address.end()
        elif text[at] == "\\" and at + 1 < len(text) and re.match(r"[^\w\s]|_", text[at + 1]):
            shown, at = shown + text[at + 1], at + 2
        else:
            if found := FORMATS.match(text, at):
                formats.append(found[0])
            shown, at = shown + text[at], at + 1
    return shown, formats


# Signs that are not seen and are taken out: controls, and what turns words around.
HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@given(TEXTS)
def test_a_persons_words_are_shown_as_they_are(text: str) -> None:
    """A prompt would mention people, hide links, or be shown with other characters than typed."""
    shown, formats = walk(literal(text))
    assert formats == []
    assert shown == HIDDEN.sub("", text)


@given(BODIES, st.integers(1, 400))
def test_no_text_is_ever_longer_than_the_limit(body: Body, most: int) -> None:
    """Discord would refuse a status message because escaping made it too long."""
    assert utf16_length(fit(body, most)) <= most


@given(BODIES)
def test_what_fits_is_not_cut(body: Body) -> None:
    """Words would be lost although there was room for them."""
    assert fit(body, 10_000) == "".join(fit((part,), 10_000) for part in body)


def test_a_long_prompt_gives_way_to_the_place_in_line() -> None:
    """A prompt full of special characters would push place and time out of the message."""
    text = text_of(Content(body=("#3 in line, ready ", Moment(5), " · ", "*" * 1900, " · flux")))
    assert text.startswith("#3 in line, ready <t:5:R> · ")
    assert text.endswith("… · flux")
    assert TEXT_MOST - 20 <= utf16_length(text) <= TEXT_MOST


def test_a_moment_in_a_sentence_is_a_time_of_day_and_a_period_two_of_them() -> None:
    """A sentence would say "at in 4 minutes", and a range would count down at both ends."""
    body = ("at ", Moment(5.0, clock=True), ", ready ", Period.around(61.0, 170.0))
    assert text_of(Content(body=body)) == "at <t:5:t>, ready <t:60:t>–<t:180:t>"
    assert text_of(Content(body=(Period.around(60.0, 60.0),))) == "<t:60:t>"


def test_a_cut_answer_closes_its_code_block() -> None:
    """Everything after a cut answer would be shown as code."""
    text = fit((Markdown("```py\n" + "x = 1\n" * 500), " · flux"), TEXT_MOST)
    assert text.endswith("\n```\n… · flux")
    assert TEXT_MOST - 20 <= utf16_length(text) <= TEXT_MOST


async def test_the_description_of_a_picture_fits() -> None:
    """Because of a long prompt Discord would refuse the picture."""
    file = File(name="cat.png", mime="image/png", data=b"")
    for alt in ("cat\u202e " * 900, "cat cat 🐈" * 900):
        [sent] = outgoing(Content(files=(file,), alt=alt), now=0.0).files
        assert sent.description is not None
        assert sent.description.startswith("cat cat")
        assert 1023 <= utf16_length(sent.description) <= 1024


def test_emoji_count_as_the_two_units_they_are() -> None:
    """A text of emoji would be too long for Discord, or cut in the middle of an emoji."""
    text = fit(("😀" * 1500,), TEXT_MOST)
    assert set(text) == {"😀", "…"}
    assert TEXT_MOST - 10 <= utf16_length(text) <= TEXT_MOST


def test_the_answer_of_a_model_keeps_its_formatting() -> None:
    """Answers would be full of backslashes."""
    answer = "**bold** and `code`\n- a list"
    assert fit((Markdown(answer),), TEXT_MOST) == answer


def test_other_ids_than_ours_are_no_press() -> None:
    """A forged or foreign button would reach a command."""
    cases: list[str] = [
        "",
        "job:12",
        "job::cancel",
        "job:12:",
        "job:x:cancel",
        "vote:12:cancel",
        "job:1:a b",
    ]
    for custom_id in cases:
        assert pressed(custom_id) is None, custom_id


@given(
    st.integers(1, 10**17),
    st.from_regex(r"[a-z][-_a-z]{0,20}", fullmatch=True),
    st.none() | st.integers(1, 4),
)
async def test_a_button_carries_its_command_and_job(
    job_id: int, command: str, number: int | None
) -> None:
    """A press would act on another job, or an id would be longer than Discord accepts."""
    view = view_of([[Button(command=command, job_id=job_id, label="x" * 200, number=number)]])
    assert view is not None
    [row] = view.to_components()
    [button] = row["components"]
    values = {"id": job_id} | ({"number": number} if number else {})
    assert pressed(button["custom_id"]) == (command, values)
    assert len(button["custom_id"]) <= 100
    assert len(button["label"]) <= 80


def test_no_answer_turns_our_words_around() -> None:
    """A model that is talked into it could show the words after its answer backwards."""
    body = (Markdown("a\u202egnp\u2066b"), " by flux")
    assert text_of(Content(body=body)) == "agnpb by flux"
