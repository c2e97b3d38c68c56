"""Renders content for Telegram: text with entities within its limits, and buttons. Pure functions.

Never uses a parse mode. So text from people or models cannot become a tag, and text that looks like
a mention notifies no one.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from telegram import ForceReply, InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity, User

from bot.core.content import (
    Body,
    Button,
    CommandText,
    Content,
    Markdown,
    Moment,
    Part,
    Period,
    ProgressBar,
    Strong,
    utf16_length,
)
from bot.markdown.pages import first_page
from bot.platforms.telegram.text.markdown import (
    Span,
    SpanKind,
    Styled,
    head,
    join,
    outer_first,
    sendable,
    styled,
)
from bot.texts.catalogue import bar_text, clock, clocks, dated

TEXT_MOST = 4096
CAPTION_MOST = 1024
ENTITIES_MOST = 100
ALERT_MOST = 200
LABEL_MOST = 64

_CUT = "…"
_COMMAND = re.compile(r"/[a-z]+")  # clients link these themselves
# Telegram's server finds mentions in any text except code. A word joiner is invisible and breaks
# the name after the "@". Mail addresses are not mentions. Telegram has its own Unicode tables for
# what else counts as a letter before an "@".
_MENTION = re.compile(r"(?<![A-Za-z0-9_])@(?=\w)")
_JOINER = "\u2060"
_CODES = frozenset({SpanKind.CODE, SpanKind.PRE})
_CODE_LEAST = 44  # units; so that a message of 4096 has at most 93 pieces of code
_USE: Mapping[SpanKind, int] = {
    kind: rank
    for rank, kind in enumerate(
        (SpanKind.PRE, SpanKind.CODE, SpanKind.LINK, SpanKind.SPOILER, SpanKind.QUOTE)
    )
}
"""Which spans are kept if a message has too many, the first first."""
_DATA = re.compile(r"(?P<command>[-_\w]{1,32}):(?P<id>\d{1,18})(?::(?P<number>\d{1,3}))?", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutgoingTelegram:
    """A message's text, formatting and buttons, in the library's types."""

    text: str
    entities: list[MessageEntity]
    keyboard: InlineKeyboardMarkup | None
    prompt: ForceReply | None = None
    spoiler: bool = False

    @property
    def markup(self) -> InlineKeyboardMarkup | ForceReply | None:
        """The reply markup of a new message. An edit can only have the keyboard."""
        return self.keyboard or self.prompt


def outgoing(
    content: Content, *, group: bool, now: float, most: int | None = None, formatted: bool = True
) -> OutgoingTelegram:
    """Return the content as one message of at most `most` UTF-16 units.

    The default for `most` is the limit of a caption if there are files, otherwise that of a
    message. Without `formatted`, the message has the same text but no entities.

    In a group, the first word links to the mentioned person. In a private chat every message
    notifies anyway.
    """
    room = most or (CAPTION_MOST if content.files else TEXT_MOST)
    shown = fit(dated(content.body, now), room, formatted=formatted)
    if formatted and group and content.mention and content.mention.isdecimal():
        shown = _mentioning(shown, content.mention)
    return OutgoingTelegram(
        text=shown.text,
        entities=entities_of(shown),
        keyboard=keyboard_of(content.buttons),
        # In a group, the reply prompt opens only for the mentioned person.
        prompt=ForceReply(selective=group) if content.awaits else None,
        spoiler=content.spoiler,
    )


def measured(body: Body) -> int:
    """Return how much of a message a body takes, in UTF-16 units.

    Telegram reads 100 entities a message, and finds mentions in code that has none. So each piece
    of code counts as at least a share of the message, and none lacks its entity.
    """
    shown = [_without_mentions(_shown(part)) for part in body]
    codes = sum(span.kind in _CODES for part in shown for span in part.spans)
    return max(sum(utf16_length(part.text) for part in shown), codes * _CODE_LEAST)


def fit(body: Body, most: int, *, formatted: bool = True) -> Styled:
    """Return the body as text with spans, at most `most` UTF-16 units long.

    Callers have already divided an answer that has ended. The longest part is shortened first, so
    that a long prompt never hides a job's state.
    """
    shown = list(_all_shown(body, most, formatted=formatted))
    while (excess := sum(utf16_length(part.text) for part in shown) - most) > 0:
        index = max(range(len(shown)), key=lambda each: utf16_length(shown[each].text))
        shown[index] = _shortened(shown[index], excess)
    return join(shown)


def _all_shown(body: Body, most: int, *, formatted: bool) -> Iterator[Styled]:
    """Yield the parts, with no more spans in total than Telegram reads.

    Code outside a span that Telegram reads would be searched for mentions, so excess spans are
    dropped here.
    """
    # 1 is for the mentioned person.
    room = (
        ENTITIES_MOST
        - 1
        - sum(isinstance(part, Moment) + 2 * isinstance(part, Period) for part in body)
    )
    for part in body:
        shown = _beginning(part, most) if isinstance(part, Markdown) else _shown(part)
        if not formatted:
            shown = Styled(text=shown.text)
        elif not isinstance(part, Moment | Period):
            shown = _with_most_useful(shown, max(room, 0))
            room -= len(shown.spans)
        yield shown if isinstance(part, Moment | Period) else _without_mentions(shown)


def _beginning(part: Markdown, most: int) -> Styled:
    """Return an answer, or the beginning of one that is too long while it is written."""
    page = first_page(part.blocks, most, lambda blocks: measured((Markdown.of(blocks),)))
    return styled(page) if page == part.blocks else join((styled(page), Styled(text=_CUT)))


def _with_most_useful(text: Styled, room: int) -> Styled:
    """Return a text with its most useful spans. Without those of code, code could not be copied."""
    ranked = sorted(text.spans, key=lambda span: _USE.get(span.kind, len(_USE)))
    return replace(text, spans=tuple(sorted(ranked[:room], key=outer_first)))


def _shown(part: Part) -> Styled:  # noqa: PLR0911  # one return for each kind
    match part:
        case Moment():
            return _moment(part, clock(part))
        case Period(moments=moments):
            begins, *ends = map(_moment, moments, clocks(moments))
            return join((begins, *(piece for end in ends for piece in (Styled(text="–"), end))))
        case Markdown():
            return styled(part.blocks)
        case ProgressBar(share):
            return Styled(text=bar_text(share))
        case Strong(text):
            return _marked(text, SpanKind.BOLD)
        case CommandText(text):
            return Styled(text=text) if _COMMAND.fullmatch(text) else _marked(text, SpanKind.CODE)
        case _:
            return Styled(text=sendable(part))


def _marked(text: str, kind: SpanKind) -> Styled:
    shown = sendable(text)
    return Styled(text=shown, spans=(Span(start=0, end=len(shown), kind=kind),) if shown else ())


def _moment(moment: Moment, words: str) -> Styled:
    """Return a moment as a Telegram entity. Clients without support for it show `words`.

    Clients keep "in 4 minutes" up to date themselves.
    """
    form = ("wdt" if moment.day else "t") if moment.clock else "r"
    span = Span(start=0, end=len(words), kind=SpanKind.MOMENT, value=form, at=moment.at)
    return Styled(text=words, spans=(span,))


def _without_mentions(text: Styled) -> Styled:
    if "@" not in text.text:
        return text
    codes = [span for span in text.spans if span.kind in _CODES]
    found = [match.end() for match in _MENTION.finditer(text.text)]
    places = [at for at in found if not any(code.start < at <= code.end for code in codes)]
    for at in reversed(places):
        text = _inserted(text, at, _JOINER)
    return text


def _inserted(text: Styled, at: int, piece: str) -> Styled:
    def moved(position: int, *, starts: bool) -> int:
        return position + len(piece) if position > at or (starts and position == at) else position

    return Styled(
        text=text.text[:at] + piece + text.text[at:],
        spans=tuple(
            replace(span, start=moved(span.start, starts=True), end=moved(span.end, starts=False))
            for span in text.spans
        ),
    )


def _shortened(text: Styled, excess: int) -> Styled:
    """Return a text cut by at least `excess` UTF-16 units and marked as cut, possibly empty."""
    room = utf16_length(text.text) - excess - len(_CUT)
    kept = 0
    for character in text.text:
        room -= utf16_length(character)
        if room < 0:
            break
        kept += 1
    return join([head(text, kept), Styled(text=_CUT)]) if kept else Styled(text="")


def _mentioning(text: Styled, person_id: str) -> Styled:
    word = re.match(r"\S+", text.text)
    if word is None or any(span.start < word.end() for span in text.spans):
        return text
    span = Span(start=0, end=word.end(), kind=SpanKind.MENTION, value=person_id)
    return replace(text, spans=(span, *text.spans))


def entities_of(text: Styled) -> list[MessageEntity]:
    """Return a text's spans as entities in UTF-16 units, at most as many as Telegram reads."""
    units = _Units(text.text)
    return [_entity(span, units) for span in text.spans[:ENTITIES_MOST]]


class _Units:
    """The position of each character of a text in UTF-16 units."""

    def __init__(self, text: str) -> None:
        self._at = [0]
        for character in text:
            self._at.append(self._at[-1] + (2 if ord(character) > 0xFFFF else 1))

    def __getitem__(self, position: int) -> int:
        return self._at[position]


def _entity(span: Span, units: _Units) -> MessageEntity:
    start = units[span.start]
    person = span.value if span.kind is SpanKind.MENTION else None
    return MessageEntity(
        type=span.kind.value,
        offset=start,
        length=units[span.end] - start,
        url=span.value if span.kind is SpanKind.LINK else None,
        language=span.value if span.kind is SpanKind.PRE else None,
        user=User(id=int(person), first_name="", is_bot=False) if person else None,
        unix_time=None if span.at is None else datetime.fromtimestamp(int(span.at), UTC),
        date_time_format=span.value if span.kind is SpanKind.MOMENT else None,
    )


# ---------------------------------------------------------------- buttons


def keyboard_of(rows: Sequence[Sequence[Button]]) -> InlineKeyboardMarkup | None:
    """Return the buttons, or None if there are none. An edit without buttons removes them."""
    shown = [[_button(button) for button in row] for row in rows if row]
    return InlineKeyboardMarkup(shown) if shown else None


def _button(button: Button) -> InlineKeyboardButton:
    number = "" if button.number is None else f":{button.number}"
    return InlineKeyboardButton(
        button.label[:LABEL_MOST],
        callback_data=f"{button.command}:{button.job_id}{number}",
        style="danger" if button.danger else None,
    )


def pressed(data: str) -> tuple[str, Mapping[str, int]] | None:
    """Return a button's command and options, or None for an unknown button."""
    found = _DATA.fullmatch(data)
    if found is None:
        return None
    options = {name: int(found[name]) for name in ("id", "number") if found[name] is not None}
    return found["command"], options
