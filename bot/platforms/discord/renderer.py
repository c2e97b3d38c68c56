"""Renders content for Discord: text within its limits, attachments, buttons. Pure functions.

Text from people can never become a mention, a link or formatting.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import discord

from bot.core.content import (
    Body,
    Button,
    CommandText,
    Content,
    Form,
    Markdown,
    Moment,
    Part,
    Period,
    ProgressBar,
    Strong,
    utf16_length,
)
from bot.markdown.elements import Element, Kind
from bot.markdown.pages import first_page
from bot.platforms.discord.text.markdown import written
from bot.texts.catalogue import bar_text, dated
from queueing.core.requests import File

TEXT_MOST = 2000  # Discord refuses longer contents; counted in UTF-16 units to be safe
LABEL_MOST = 80
ALT_MOST = 1024
FORM_LABEL_MOST = 45  # of a form's title and of a field's label
FORM_VALUE_MOST = 4000

_CUT = "…"
_CUT_LINE = Element(Kind.LINE, (Element(Kind.TEXT, text=_CUT),))
# Control characters, and marks that reverse the text around them. A model can be persuaded to write
# them.
_UNSENDABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Web addresses stay unescaped, as Discord does, except before a "<": the backslash there would
# become part of the address. Everywhere else, escape every character that starts formatting, a tag
# (`<@1>`, `<t:0:R>`) or a mention of everyone; at the start of a line also headings, quotes and
# lists. `discord.utils.escape_markdown` overlooks the contents of `[…](…)` and `<…:/…>`.
_MARKUP = re.compile(
    r"(?P<address>https?://[^\s<]*[^<.,:;\"'\]\s](?=[.,:;\"'\]]*(?:\s|$)))"
    r"|(?P<start>^[ \t]*(?:\d+(?=[.)](?:\s|$))|(?=>|(?:#{1,3}|[+-]#?)(?:\s|$))))(?P<mark>.)"
    r"|(?P<sign>[\\*_~|`\[<]|:(?=//)|@(?=everyone|here))",
    re.MULTILINE,
)
_BUTTON_ID = re.compile(
    r"job:(?P<id>\d{1,18}):(?P<command>[-_\w]{1,32})(?::(?P<number>\d{1,2}))?", re.ASCII
)
_FORM_ID = re.compile(r"form:(?P<command>[-_\w]{1,32})(?::(?P<id>\d{1,18}))?", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class OutgoingDiscord:
    """One message in discord.py's types.

    Usable for a single try, because sending consumes its files.
    """

    text: str
    files: list[discord.File]
    view: discord.ui.View | None
    mentions: discord.AllowedMentions


def outgoing(content: Content, *, now: float) -> OutgoingDiscord:
    """Return the content as one message.

    Needs a running event loop, because `discord.ui.View` does.
    """
    content = replace(content, body=dated(content.body, now))
    return OutgoingDiscord(
        text=text_of(content),
        files=[_upload(file, content) for file in content.files],
        view=view_of(content.buttons),
        mentions=discord.AllowedMentions(
            everyone=False,
            roles=False,
            replied_user=False,
            users=[discord.Object(int(content.mention))] if content.mention else False,
        ),
    )


def text_of(content: Content) -> str:
    """Return the message's text, within Discord's limit."""
    prefix = f"<@{content.mention}> " if content.mention else ""
    return prefix + fit(content.body, TEXT_MOST - len(prefix))


def fit(body: Body, most: int) -> str:
    """Return the body in Discord's markup, at most `most` UTF-16 units long.

    Callers have already divided an answer that has ended. The longest part is shortened first, so
    that a long prompt never hides a job's state.
    """
    parts = [_beginning(part, most) if isinstance(part, Markdown) else part for part in body]
    shown = [_shown(part) for part in parts]
    while (excess := sum(map(utf16_length, shown)) - most) > 0:
        index = max(range(len(shown)), key=lambda each: utf16_length(shown[each]))
        kept = max(0.0, 1 - excess / utf16_length(shown[index]))
        parts[index] = _shortened(parts[index], kept)
        shown[index] = _shown(parts[index])
    return "".join(shown)


def measured(body: Body) -> int:
    """Return how much of a message a body takes, in UTF-16 units."""
    return sum(utf16_length(_shown(part)) for part in body)


def _beginning(part: Markdown, most: int) -> Markdown:
    """Return an answer, or the beginning of one that is too long while it is written."""
    whole = part.blocks[:-1] if part.blocks[-1:] == (_CUT_LINE,) else part.blocks
    page = first_page(whole, most, lambda blocks: measured((Markdown.of(blocks),)))
    if page == part.blocks:
        return part
    return Markdown.of((*page, _CUT_LINE) if page else ())


def _shown(part: Part) -> str:  # noqa: PLR0911  # one return for each kind
    match part:
        case Moment(at, clock, day=day):
            form = ("f" if day else "t") if clock else "R"
            return f"<t:{int(at)}:{form}>"
        case Period(moments=moments):
            return "–".join(map(_shown, moments))
        case Markdown():
            return written(part.blocks, literal)
        case Strong(text):
            return f"**{literal(text)}**" if text.strip() else ""
        case CommandText(text):
            bare = _UNSENDABLE.sub("", text).replace("`", "").strip()
            return f"`{bare}`" if bare else ""
        case ProgressBar(share):
            return bar_text(share)
        case _:
            return literal(part)


def _shortened(part: Part, kept: float) -> Part:
    """Return a part cut to about that share, at least one character shorter, and marked as cut."""
    match part:
        case Moment() | Period() | ProgressBar():
            return ""
        case Markdown():
            return _beginning(part, int(measured((part,)) * kept) - 2)
        case Strong(text) | CommandText(text):
            return _head(text, kept)
        case _:
            return _head(part, kept)


def _head(text: str, kept: float) -> str:
    body = text.removesuffix(_CUT)
    head = body[: max(0, int(len(body) * kept) - 2)]
    return head + _CUT if head else ""


def literal(text: str) -> str:
    """Return markup that shows exactly this text. Web addresses stay links.

    Discord shows any punctuation after a backslash literally.
    """
    return _MARKUP.sub(_escaped, _UNSENDABLE.sub("", text))


def _escaped(found: re.Match[str]) -> str:
    if found["address"]:
        return found[0]
    if found["mark"]:
        return f"{found['start']}\\{found['mark']}"
    return f"\\{found[0]}"


def _upload(file: File, content: Content) -> discord.File:
    """Return a new upload of a file; each try needs its own."""
    return discord.File(
        io.BytesIO(file.data),
        filename=file.name,
        spoiler=content.spoiler,
        description=_alt(content.alt) or None,
    )


def _alt(text: str) -> str:
    """Return the beginning of a description that Discord accepts, counted like other texts."""
    units = _UNSENDABLE.sub("", text).encode("utf-16-le")[: 2 * ALT_MOST]
    return units.decode("utf-16-le", "ignore")


def view_of(rows: Sequence[Sequence[Button]]) -> discord.ui.View | None:
    """Return the buttons, or None if there are none.

    The view is stopped, so that discord.py does not keep one in memory for every message. A press
    is recognised by the button's id, even after a restart.
    """
    if not any(rows):
        return None
    view = discord.ui.View(timeout=None)
    for button in _buttons(rows):
        view.add_item(button)
    view.stop()
    return view


def _buttons(rows: Sequence[Sequence[Button]]) -> Iterator["discord.ui.Button[discord.ui.View]"]:
    for index, row in enumerate(rows):
        for button in row:
            yield discord.ui.Button(
                row=index,
                label=button.label[:LABEL_MOST],
                custom_id=_button_id(button),
                style=(
                    discord.ButtonStyle.danger if button.danger else discord.ButtonStyle.secondary
                ),
            )


def _button_id(button: Button) -> str:
    number = "" if button.number is None else f":{button.number}"
    return f"job:{button.job_id}:{button.command}{number}"


def pressed(custom_id: str) -> tuple[str, dict[str, int]] | None:
    """Return a button's command and values, or None for an id the bot did not create."""
    found = _BUTTON_ID.fullmatch(custom_id)
    if found is None:
        return None
    values = {"id": int(found["id"])}
    return found["command"], values | ({"number": int(found["number"])} if found["number"] else {})


# ---------------------------------------------------------------- forms


def modal_of(form: Form) -> discord.ui.Modal:
    """Return a form as a Discord modal. It is stopped, like a view, and recognised by its id."""
    about = "" if form.job_id is None else f":{form.job_id}"
    modal = discord.ui.Modal(
        title=form.title[:FORM_LABEL_MOST], custom_id=f"form:{form.command}{about}"
    )
    for field in form.fields:
        style = discord.TextStyle.paragraph if field.long else discord.TextStyle.short
        line: discord.ui.TextInput[discord.ui.Modal] = discord.ui.TextInput(
            custom_id=field.name,
            style=style,
            default=field.value[:FORM_VALUE_MOST] or None,
            required=field.required,
            max_length=FORM_VALUE_MOST,
        )
        modal.add_item(discord.ui.Label(text=field.label[:FORM_LABEL_MOST], component=line))
    modal.stop()
    return modal


def filled_in(data: Mapping[str, Any]) -> tuple[str, dict[str, str | int]] | None:
    """Return a submitted form's command and values, or None for an unknown form.

    Fields are wrapped in a label or, from older clients, in a row.
    """
    found = _FORM_ID.fullmatch(str(data.get("custom_id", "")))
    if found is None:
        return None
    rows = data.get("components")
    lines = [line for row in rows for line in _lines_in(row)] if isinstance(rows, list) else []
    values: dict[str, str | int] = {
        str(line["custom_id"]): str(line.get("value") or "".join(line.get("values") or ()))
        for line in lines
    }
    return found["command"], values | ({"id": int(found["id"])} if found["id"] else {})


def _lines_in(row: Any) -> Sequence[Mapping[str, Any]]:
    """Return the named fields of a row."""
    if not isinstance(row, Mapping):
        return ()
    parts = [row["component"]] if "component" in row else row.get("components")
    named = parts if isinstance(parts, list) else ()
    return [part for part in named if isinstance(part, Mapping) and "custom_id" in part]
