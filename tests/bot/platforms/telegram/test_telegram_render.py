"""Content as text with entities: nothing escapes, nothing is cut apart, everything fits."""

import re
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from telegram import MessageEntity

from bot.core.content import (
    Button,
    CommandText,
    Content,
    Markdown,
    Moment,
    Part,
    Period,
    Strong,
    utf16_length,
)
from bot.markdown.parser import parse
from bot.platforms.telegram.renderer import (
    CAPTION_MOST,
    ENTITIES_MOST,
    TEXT_MOST,
    OutgoingTelegram,
    outgoing,
    pressed,
)
from bot.platforms.telegram.text.markdown import styled
from queueing.core.requests import File

NOW = 1_700_000_000.0
Said = list[tuple[str, str]]


def shown(*parts: Part, **more: Any) -> OutgoingTelegram:
    return outgoing(Content(body=parts, **more), group=False, now=NOW)


def stretches(message: OutgoingTelegram) -> Said:
    """Return each entity's kind and the text it covers."""
    raw = message.text.encode("utf-16-le")
    return [
        (str(each.type), raw[each.offset * 2 : (each.offset + each.length) * 2].decode("utf-16-le"))
        for each in message.entities
    ]


def test_markdown_becomes_entities() -> None:
    """An answer would show its marks, lose words, or format what was not meant."""
    cases: list[tuple[str, str, Said]] = [
        ("a **b** c", "a b c", [("bold", "b")]),
        (
            "__b__ and *i* and _i_",
            "b and i and i",
            [("bold", "b"), ("italic", "i"), ("italic", "i")],
        ),
        ("***both***", "both", [("bold", "both"), ("italic", "both")]),
        ("~~gone~~", "gone", [("strikethrough", "gone")]),
        ("**a *b* c**", "a b c", [("bold", "a b c"), ("italic", "b")]),
        ("🐈 **Katze** 🐈", "🐈 Katze 🐈", [("bold", "Katze")]),
        ("snake_case_name and 2*3*4", "snake_case_name and 2*3*4", []),
        ("a ** b ** c, 5 * 6", "a ** b ** c, 5 * 6", []),
        ("**never closed", "**never closed", []),
        ("**over\na line**", "over\na line", [("bold", "over\na line")]),
        ("**not\n\nover a gap**", "**not\n\nover a gap**", []),
        (r"\*as it is\*", "*as it is*", []),
        ("`x = *y*`", "x = *y*", [("code", "x = *y*")]),
        ("`` a ` b ``", "a ` b", [("code", "a ` b")]),
        ("a ` b", "a ` b", []),
        ("**see `x` there**", "see x there", [("bold", "see "), ("code", "x"), ("bold", " there")]),
        ("**`x` there**", "x there", [("code", "x"), ("bold", " there")]),
        ("**see `x`**", "see x", [("bold", "see "), ("code", "x")]),
        ("```python\nprint(1)\n```\nend", "print(1)\nend", [("pre", "print(1)")]),
        ("```\nno end", "no end", [("pre", "no end")]),
        ("~~~\na\n```\nb\n~~~", "a\n```\nb", [("pre", "a\n```\nb")]),
        ("# Head *line* #\ntext", "Head line\ntext", [("bold", "Head line"), ("italic", "line")]),
        ("#hashtag", "#hashtag", []),
        (
            "* one\n* *two*\n1. **three**",
            "• one\n• two\n\n1. three",
            [("italic", "two"), ("bold", "three")],
        ),
        ("[a cat](https://example.org/c)", "a cat", [("text_link", "a cat")]),
        ("![alt](http://example.org/c.png)", "alt", [("text_link", "alt")]),
        ("[a](tg://user?id=8)", "a (tg://user?id=8)", []),
        ("[a](javascript:alert)", "[a](javascript:alert)", []),
        ("[ ] to do", "[ ] to do", []),
        ("<b>no html</b> &amp;", "<b>no html</b> &", []),
    ]
    for markdown, text, said in cases:
        message = shown(Markdown(markdown))
        assert message.text == text, markdown
        assert stretches(message) == said, markdown


def test_a_code_block_keeps_its_language_and_a_link_its_address() -> None:
    """Code would not be coloured, or a link would lead elsewhere."""
    message = shown(Markdown("```py\nx\n```\n[here](https://example.org/a_(b)?c=*d*)"))
    code, link = message.entities
    assert code.language == "py"
    assert link.url == "https://example.org/a_(b)?c=*d*"


def test_plain_text_is_shown_literally() -> None:
    """A prompt would be read as formatting."""
    prompt = "**a** `b` [c](https://d.org) <b>e</b> _f_"
    assert shown(prompt) == OutgoingTelegram(text=prompt, entities=[], keyboard=None)


def test_nobody_is_mentioned_by_accident() -> None:
    """A prompt or an answer would notify people."""
    cases: list[Part] = ["@somebody and @you", Markdown("**@somebody** and @you")]
    for part in cases:
        text = shown(part).text
        assert "@s" not in text, part
        assert "@y" not in text, part
        assert text.replace("\u2060", "") == "@somebody and @you", part


_DROPPED = re.compile("[\u2028-\u202e\u030a\u0333\u033f]")  # by Telegram's server, before it looks
_FOUND = re.compile(r"(?<!\w)@[A-Za-z0-9_]{2,32}(?!\w)")
_CODE = {MessageEntity.CODE, MessageEntity.PRE}


def found_by_telegram(message: OutgoingTelegram) -> list[str]:
    """Return the mentions that Telegram's server finds: everywhere but in marked code."""
    raw = message.text.encode("utf-16-le")
    for each in message.entities[:ENTITIES_MOST]:
        if each.type in _CODE:
            start, end = each.offset * 2, (each.offset + each.length) * 2
            raw = raw[:start] + " ".encode("utf-16-le") * each.length + raw[end:]
    return _FOUND.findall(_DROPPED.sub("", raw.decode("utf-16-le")))


def test_no_trick_makes_a_mention() -> None:
    """A model that is talked into it, or a name, could call people who are not there."""
    cases: list[str] = [
        "@@durov",
        "@\u202edurov",
        "@\u0333durov",
        "a\U00010d40@durov",
        "`a` " * 100 + "`@durov`",
        "`" * 3 + "\n@durov",
    ]
    for text in cases:
        assert found_by_telegram(shown(Markdown(text))) == [], text
        assert found_by_telegram(shown(text)) == [], text


@given(
    st.lists(
        st.sampled_from(["@", "ab", "_", "`", "```", "\n", " ", "*", "\u202e", "\u0333", "é", "…"]),
        max_size=40,
    ).map("".join),
    st.integers(1, 60),
    st.booleans(),
)
def test_nothing_that_is_cut_or_bare_mentions_anybody(
    text: str, most: int, formatted: bool
) -> None:
    """A mention could appear where a long answer is cut, or is sent without its formatting."""
    for part in (text, Markdown(text)):
        content = Content(body=(part, " ▌"))
        message = outgoing(content, group=False, now=NOW, most=most, formatted=formatted)
        assert found_by_telegram(message) == []
        assert formatted or message.entities == []


def test_code_and_addresses_of_mail_keep_their_signs() -> None:
    """Code copied from an answer would not run, or an address could not be copied."""
    text = "```\n@decorator\n```\n`@x` a@b.org"
    message = shown(Markdown(text))
    assert message.text == "@decorator\n@x a@b.org"


def test_a_moment_is_shown_in_the_readers_own_time() -> None:
    """People would read times of another time zone, or countdowns would not change."""
    message = shown("ready ", Moment(1_700_000_000.9, before="at "), "!")
    assert message.text == "ready at 22:13 UTC!"
    [entity] = message.entities
    assert entity.to_dict() == {
        "type": "date_time",
        "offset": 6,
        "length": 12,
        "unix_time": 1_700_000_000,
        "date_time_format": "r",
    }


def test_a_moment_in_a_sentence_is_a_time_of_day_and_a_period_two_of_them() -> None:
    """A sentence would say "at in 4 minutes", and a range would count down at both ends."""
    message = shown("at ", Moment(1_700_000_000.9, clock=True))
    assert message.text == "at 22:13 UTC"
    [entity] = message.entities
    assert (entity.length, entity.date_time_format) == (9, "t")
    message = shown("about ", Period.around(1_700_000_001, 1_700_000_100))
    assert message.text == "about 22:13–22:15 UTC"
    assert [each.date_time_format for each in message.entities] == ["t", "t"]
    assert [each.unix_time for each in message.entities] == [
        datetime.fromtimestamp(at, UTC) for at in (1_699_999_980, 1_700_000_100)
    ]


def test_the_mentioned_person_is_notified_in_a_group_only() -> None:
    """A ping in a group would notify no one, or the wrong text would be a link."""
    content = Content(body=("Ready: your image",), mention="7")
    [entity] = outgoing(content, group=True, now=NOW).entities
    assert (entity.type, entity.offset, entity.length) == ("text_mention", 0, 6)
    assert entity.user is not None
    assert entity.user.id == 7
    assert outgoing(content, group=False, now=NOW).entities == []
    anonymous = Content(body=("Ready",), mention="anonymous-5")
    assert outgoing(anonymous, group=True, now=NOW).entities == []


def test_the_longest_part_gives_way() -> None:
    """A long prompt would hide the job's place, or a message be refused as too long."""
    message = shown("⏳ #3 · ", "🐈" * 5000, " · ready ", Moment(NOW))
    assert utf16_length(message.text) <= TEXT_MOST
    assert utf16_length(message.text) >= TEXT_MOST - 1
    assert message.text.startswith("⏳ #3 · 🐈")
    assert message.text.endswith("…" + " · ready 22:13 UTC")
    file = File(name="a.txt", mime="text/plain", data=b"a")
    assert utf16_length(shown("🐈" * 5000, files=(file,)).text) <= CAPTION_MOST


_MARKS = st.text(alphabet="ab \n*_~`[]()!#>\\@🐈-1.:/ht", max_size=120)


@given(
    st.lists(
        st.one_of(
            st.text(), _MARKS.map(Markdown), st.text().map(Strong), st.text().map(CommandText)
        ),
        max_size=6,
    ),
    st.booleans(),
)
@example([Markdown("**a `b** c`")], False)
@example([Markdown("***a** b*")], False)
@example([Markdown("*a **b* c**")], False)
def test_whatever_is_written_telegram_takes_it(parts: list[Part], group: bool) -> None:
    """An answer that Telegram refuses would keep a result from being delivered."""
    message = outgoing(Content(body=tuple(parts), mention="7"), group=group, now=NOW)
    assert utf16_length(message.text) <= TEXT_MOST
    assert len(message.entities) <= ENTITIES_MOST
    _check_entities(message)


@given(st.lists(_MARKS.map(Markdown), min_size=1, max_size=3), st.integers(1, 60))
def test_a_cut_text_is_whole(parts: list[Part], most: int) -> None:
    """Cutting a formatted answer would leave a stray entity or half a character."""
    message = outgoing(Content(body=tuple(parts)), group=False, now=NOW, most=most)
    assert utf16_length(message.text) <= most
    _check_entities(message)


def _check_entities(message: OutgoingTelegram) -> None:
    stretches(message)  # decodes each one: fails on half a character
    size = utf16_length(message.text)
    ranges = [(e.offset, e.offset + e.length, e) for e in message.entities]
    for start, end, _ in ranges:
        assert 0 <= start < end <= size
    for start, end, entity in ranges:
        for other_start, other_end, other in ranges:
            if start < other_start < end:
                assert other_end <= end, "entities cross"
            if entity is not other and start <= other_start and other_end <= end:
                assert entity.type not in {MessageEntity.CODE, MessageEntity.PRE}
    assert all(a[0] <= b[0] for a, b in pairwise(ranges))


@given(_MARKS)
def test_no_word_of_an_answer_is_lost(markdown: str) -> None:
    """A character that is not formatting would remove words with it."""
    kept = [sign for sign in markdown if sign in "ab🐈1"]
    read = [sign for sign in styled(parse(markdown)).text if sign in "ab🐈1"]
    if "](" not in markdown and "```" not in markdown and "~~~" not in markdown:
        assert read == kept


def test_a_button_of_another_age_is_not_read() -> None:
    """Data of another version, or data that a person made up, would reach a command."""
    for data in ("", "cancel", "cancel:", "cancel:x", "a b:1", "x:1:2:3", "c:²"):
        assert pressed(data) is None, data


def test_a_button_carries_all_it_needs() -> None:
    """Buttons on old messages would do nothing after a restart."""
    row = (Button(command="cancel", job_id=10**17, label="x", danger=True),)
    second = Button(command="upscale", job_id=12, label="U2", number=2)
    keyboard = shown("x", buttons=((), row)).keyboard
    assert keyboard is not None
    [[button]] = keyboard.inline_keyboard
    assert pressed(str(button.callback_data)) == ("cancel", {"id": 10**17})
    assert len(str(button.callback_data)) <= 64
    numbered = shown("x", buttons=((second,),)).keyboard
    assert numbered is not None
    data = str(numbered.inline_keyboard[0][0].callback_data)
    assert pressed(data) == ("upscale", {"id": 12, "number": 2})
