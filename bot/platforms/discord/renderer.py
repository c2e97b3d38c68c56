"""Renders content for Discord: text within its limits, attachments, buttons, galleries.

Pure functions.

Text from people can never become a mention, a link or formatting.
"""

import io
import re
from dataclasses import dataclass, replace
from typing import Any

import discord
from discord.utils import MISSING

from bot.core.content import (
    Body,
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
from bot.markdown.elements import Element, Kind
from bot.markdown.pages import first_page
from bot.platforms.discord.components.views import is_gallery, layout_of, view_of
from bot.platforms.discord.text.markdown import written
from bot.texts.catalogue import bar_text, dated
from queueing.core.requests import File

TEXT_MOST = 2000  # Discord refuses longer contents; counted in UTF-16 units to be safe
ALT_MOST = 1024

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
_UNNAMEABLE = re.compile(r"[^\w.-]", re.ASCII)  # in a file's name that a component refers to


@dataclass(frozen=True, kw_only=True, slots=True)
class OutgoingDiscord:
    """One message in discord.py's types.

    Usable for a single try, because sending consumes its files. A `layout` consists of components
    alone, its text included; a message that has become one stays one.
    """

    text: str
    files: list[discord.File]
    view: discord.ui.View | discord.ui.LayoutView | None
    mentions: discord.AllowedMentions

    @property
    def layout(self) -> bool:
        """Whether the text is in the view."""
        return isinstance(self.view, discord.ui.LayoutView)

    def first(self) -> dict[str, Any]:
        """Return the arguments that begin an interaction's answers, which takes no files."""
        return {
            "content": None if self.layout else self.text,
            "view": self.view or MISSING,
            "suppress_embeds": not self.layout,
            "allowed_mentions": self.mentions,
        }

    def sent(self) -> dict[str, Any]:
        """Return the arguments that send a message."""
        return {**self.first(), "files": self.files}

    def replaced(self) -> dict[str, Any]:
        """Return the arguments that replace a message's whole content."""
        return {
            "content": None if self.layout else self.text,
            "embeds": [] if self.layout else MISSING,
            "attachments": self.files,
            "view": self.view,
            "allowed_mentions": self.mentions,
        }


def outgoing(content: Content, *, now: float, layout: bool = False) -> OutgoingDiscord:
    """Return the content as one message: a layout if it is a gallery, or if it must be one.

    Needs a running event loop, because `discord.ui.View` does.
    """
    content = replace(content, body=dated(content.body, now))
    text = text_of(content)
    layout = layout or is_gallery(content)
    files = [
        _upload(file, content, named=f"{number}-" if layout else "")
        for number, file in enumerate(content.files, start=1)
    ]
    return OutgoingDiscord(
        text=text,
        files=files,
        view=layout_of(content, text, files) if layout else view_of(content.buttons),
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


def _upload(file: File, content: Content, *, named: str) -> discord.File:
    """Return a new upload of a file; each try needs its own.

    If `named` is not empty, the file's name begins with it, and a component can refer to the file.
    """
    return discord.File(
        io.BytesIO(file.data),
        filename=named + _UNNAMEABLE.sub("_", file.name) if named else file.name,
        spoiler=content.spoiler,
        description=_alt(content.alt) or None,
    )


def _alt(text: str) -> str:
    """Return the beginning of a description that Discord accepts, counted like other texts."""
    units = _UNSENDABLE.sub("", text).encode("utf-16-le")[: 2 * ALT_MOST]
    return units.decode("utf-16-le", "ignore")
