"""Content as Discord shows it: text with its limits, attachments, buttons. Pure.

Never lets a person's words become a mention, a link or formatting.
"""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import discord

from bot.platforms.base import Body, Button, Content, Markdown, Moment, Part
from queueing.requests import File

TEXT_MOST = 2000  # Discord refuses longer contents; counted in UTF-16 units to be safe
LABEL_MOST = 80

_CUT = "…"
_FENCE = "```"
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# What `escape_markdown` leaves alone: tags (`<@1>`, `<t:0:R>`, `<https://…>`), calls to everybody
# and numbered lists.
_LEFT_OVER = re.compile(r"<|@(?=everyone|here)|(?<=\d)[.)](?=\s)")
_BUTTON_ID = re.compile(r"job:(?P<id>\d{1,18}):(?P<command>[-_\w]{1,32})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outgoing:
    """One message in discord.py's types; good for one try, because a file is consumed by it."""

    text: str
    files: list[discord.File]
    view: discord.ui.View | None
    mentions: discord.AllowedMentions


def outgoing(content: Content) -> Outgoing:
    """Return the content as one message. Needs a running event loop, as `discord.ui.View` does."""
    return Outgoing(
        text=text_of(content),
        files=[attachment_of(file) for file in content.files],
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
    """Return the body in Discord's markup, at most that long.

    The layer above already cuts what people read; here only the backslashes of escaping can be too
    much. The longest part gives way, so that a long prompt never hides where a job stands.
    """
    parts = list(body)
    shown = [_shown(part) for part in parts]
    while (excess := sum(map(length, shown)) - most) > 0:
        index = max(range(len(shown)), key=lambda each: length(shown[each]))
        parts[index] = _shortened(parts[index], excess)
        shown[index] = _shown(parts[index])
    return "".join(shown)


def _shown(part: Part) -> str:
    match part:
        case Moment(at):
            return f"<t:{int(at)}:R>"
        case Markdown(text):
            return text + "\n" + _FENCE if text.count(_FENCE) % 2 else text
        case _:
            return literal(part)


def _shortened(part: Part, excess: int) -> Part:
    """Return a part with at least that much less text, marked as cut."""
    match part:
        case Moment():
            return ""
        case Markdown(text):
            return Markdown(_head(text, excess + len(_FENCE) + 1))
        case _:
            return _head(part, excess)


def _head(text: str, excess: int) -> str:
    body = text.removesuffix(_CUT)
    kept = body[: max(0, len(body) - excess - len(_CUT))]
    return kept + _CUT if kept else ""


def literal(text: str) -> str:
    """Return markup that shows exactly these words; addresses stay links, nothing else is special.

    Discord takes a backslash before any punctuation as "the character itself".
    """
    escaped = discord.utils.escape_markdown(_CONTROLS.sub("", text))
    return _LEFT_OVER.sub(lambda found: "\\" + found[0], escaped)


def length(text: str) -> int:
    """Return the length in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def attachment_of(file: File) -> discord.File:
    """Return a file to upload; a new one for every try."""
    return discord.File(io.BytesIO(file.data), filename=file.name)


def view_of(rows: Sequence[Sequence[Button]]) -> discord.ui.View | None:
    """Return the buttons, or None where there are none.

    The view is stopped, so that discord.py does not keep one in memory for every message: a press
    is recognised by the id the button carries, also after a restart.
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
                custom_id=f"job:{button.job_id}:{button.command}",
                style=(
                    discord.ButtonStyle.danger if button.danger else discord.ButtonStyle.secondary
                ),
            )


def pressed(custom_id: str) -> tuple[str, int] | None:
    """Return the command and the job a button carries, None for an id that is none of ours."""
    found = _BUTTON_ID.fullmatch(custom_id)
    return (found["command"], int(found["id"])) if found else None
