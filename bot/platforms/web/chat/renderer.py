"""Parses lines typed on the page, and converts a `Content` for it. No I/O."""

import re
from io import BytesIO

from PIL import Image
from pydantic import JsonValue

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
)
from bot.markdown.elements import LITERAL, Blocks, Element, Kind
from bot.markdown.parser import parse
from bot.platforms.web.chat.chat_log import (
    BarPart,
    MarkdownPart,
    MomentPart,
    PeriodPart,
    ShownButton,
    ShownFile,
    ShownMessage,
    ShownPart,
    StrongPart,
    TextPart,
    TypedPart,
    file_id,
)
from queueing.core.requests import File

_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "AVIF")  # formats that browsers show inline
_COMMAND = re.compile(r"/([^\W\d_][\w-]*)(=|(?=\s|$))")


def split_command(line: str) -> tuple[str, str]:
    """Return the command and the rest of a line: "/image flux cat" is ("image", "flux cat").

    "/image=flux=cat" means the same. A line without a command asks a model, because that is what
    people expect on a chat page. A line of only slashes lists the commands.
    """
    text = line.strip()
    if text and not text.strip("/"):
        return "help", ""
    found = _COMMAND.match(text)
    if found is None:
        return "ask", text
    rest = text[found.end() :]
    if found[2] == "=":
        rest = rest.replace("=", " ", 1)
    return found[1].lower(), rest.strip()


def shown_of(
    chat: str, message: str, content: Content, *, quiet: bool = False, reply_to: str | None = None
) -> ShownMessage:
    """Return the page's form of a bot message. Reads image headers, so not for the event loop."""
    return ShownMessage(
        author="usher",
        body=shown_body(content.body),
        files=tuple(shown_file(chat, message, file) for file in content.files),
        buttons=tuple(
            tuple(
                ShownButton(
                    command=button.command,
                    job=button.job_id,
                    label=_clean(button.label),
                    danger=button.danger,
                    number=button.number,
                    hint=_clean(button.hint),
                )
                for button in row
            )
            for row in content.buttons
        ),
        quiet=quiet,
        reply_to=reply_to,
        spoiler=content.spoiler,
        waits=content.waits,
        sizes=content.sizes,
    )


def shown_body(body: Body) -> tuple[ShownPart, ...]:
    """Return the page's form of a text."""
    return tuple(_part(part) for part in body)


def with_blocks(shown: ShownMessage) -> ShownMessage:
    """Return a stored message as the page draws it: with the blocks of its Markdown.

    They are read at each call, so that older messages look like new ones. Too slow for the event
    loop if the answer is long.
    """
    if not any(isinstance(part, MarkdownPart) for part in shown.body):
        return shown
    body = (_with_blocks(part) if isinstance(part, MarkdownPart) else part for part in shown.body)
    return shown.model_copy(update={"body": tuple(body)})


def _with_blocks(part: MarkdownPart) -> MarkdownPart:
    return part if part.blocks else part.model_copy(update={"blocks": _blocks(parse(part.text))})


def _blocks(blocks: Blocks) -> tuple[JsonValue, ...]:
    return tuple(map(_block, blocks))


def _block(node: Element) -> JsonValue:
    """Return a node as the page reads it: a text as it is, else what is not empty."""
    if node.kind is Kind.TEXT:
        return node.text
    content: JsonValue = node.text if node.kind in LITERAL else [*map(_block, node.children)]
    made: dict[str, JsonValue] = {"kind": node.kind.value}
    made["text" if node.kind in LITERAL else "children"] = content
    if node.value:
        made["value"] = node.value
    if node.number:
        made["number"] = node.number
    return made


def shown_file(chat: str, message: str, file: File) -> ShownFile:
    """Describe a file. Images include their size, so that the page can reserve the space."""
    width, height = _size_of(file.data) if file.mime.startswith("image/") else (None, None)
    return ShownFile(
        id=file_id(chat, message, file),
        name=_clean(file.name),
        mime=file.mime,
        size=len(file.data),
        width=width,
        height=height,
    )


def _part(part: Part) -> ShownPart:  # noqa: PLR0911  # one return for each kind
    match part:
        case Moment(at, clock, before):
            return MomentPart(at=at, clock=clock, before=before)
        case Period(begins_at, ends_at):
            return PeriodPart(begins=begins_at, ends=ends_at)
        case Markdown(text, page):
            blocks = () if page is None else _blocks(page)
            return MarkdownPart(text=_clean(text), blocks=blocks)
        case ProgressBar(share):
            return BarPart(share=share)
        case Strong(text, job, has_image):
            return StrongPart(text=_clean(text), job=job, has_image=has_image)
        case CommandText(text):
            return TypedPart(text=_clean(text))
        case str():
            return TextPart(text=_clean(part))


def _clean(text: str) -> str:
    # Half a surrogate pair cannot be encoded as UTF-8, and a model's stream may be cut inside one.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _size_of(data: bytes) -> tuple[int | None, int | None]:
    try:
        # Reads only the header, not the pixels.
        with Image.open(BytesIO(data), formats=_FORMATS) as image:
            return image.size
    except Exception:  # noqa: BLE001  # readers raise anything for hostile bytes, and only the size is lost
        return None, None
