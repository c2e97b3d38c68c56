"""Classifies attachments by name and media type. Pure.

Chats send many files with a generic type, so the file extension decides in that case.
"""

from enum import StrEnum
from pathlib import PurePath

_TEXT_KINDS = frozenset(
    f"application/{kind}"
    for kind in ("json", "x-ndjson", "xml", "yaml", "x-yaml", "toml", "javascript", "x-sh", "sql")
)


_TEXT_ENDINGS = frozenset({
    ".txt", ".md", ".rst", ".log", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".toml",
    ".ini", ".cfg", ".conf", ".xml", ".html", ".css", ".js", ".ts", ".py", ".c", ".h", ".cpp",
    ".hpp", ".cs", ".go", ".java", ".kt", ".lua", ".php", ".pl", ".ps1", ".r", ".rb", ".rs", ".sh",
    ".sql", ".swift", ".tex", ".diff", ".patch", ".srt",
})  # fmt: skip


def is_text_file(name: str, mime: str) -> bool:
    """Return whether a file is declared as text, by its type or its extension."""
    kind = mime.partition(";")[0].strip().lower()
    if kind.startswith(("image/", "audio/", "video/")):
        return False
    return (
        kind.startswith("text/")
        or kind in _TEXT_KINDS
        or PurePath(name).suffix.lower() in _TEXT_ENDINGS
    )


class AttachmentKind(StrEnum):
    """The kinds of attachment a chat can send.

    The command table states which command uses which kind.
    """

    IMAGE = "image"
    TEXT = "text"  # read as text
    DOCUMENT = "document"  # PDF and office files
    VIDEO = "video"
    ROUND_VIDEO = "round-video"  # recorded in the chat and shown as a circle
    ANIMATION = "animation"  # a GIF, or a video that plays like one
    VOICE = "voice"  # recorded in the chat
    AUDIO = "audio"
    STICKER = "sticker"
    ARCHIVE = "archive"
    POLL = "poll"
    PLACE = "place"
    CONTACT = "contact"
    UNSEEN = "unseen"  # the contents of a message that the platform hides from the bot
    WITHHELD = "withheld"  # the words of the call itself, which the platform hides from the bot
    OTHER = "other"


SPOKEN = frozenset({AttachmentKind.VOICE, AttachmentKind.ROUND_VIDEO, AttachmentKind.AUDIO})
"""Kinds whose speech can be transcribed."""
VIDEO_KINDS = frozenset({AttachmentKind.VIDEO, AttachmentKind.ANIMATION})
"""Kinds shown as still images to models that can see."""

_BY_ENDING = {
    AttachmentKind.IMAGE: ".png .jpg .jpeg .webp .heic .heif .avif .bmp .tif .tiff",
    AttachmentKind.ANIMATION: ".gif",
    AttachmentKind.DOCUMENT: (
        ".pdf .doc .docx .odt .rtf .pages .xls .xlsx .ods .numbers .ppt .pptx .odp .key .epub"
    ),
    AttachmentKind.VIDEO: ".mp4 .mkv .webm .mov .avi .m4v .wmv .mpg .mpeg",
    AttachmentKind.AUDIO: ".mp3 .m4a .aac .wav .flac .ogg .oga .opus .wma",
    AttachmentKind.ARCHIVE: ".zip .rar .7z .tar .gz .tgz .bz2 .xz .zst .jar .iso",
}
_ENDINGS = {ending: kind for kind, endings in _BY_ENDING.items() for ending in endings.split()}
_BY_FAMILY = {
    "image": AttachmentKind.IMAGE,
    "video": AttachmentKind.VIDEO,
    "audio": AttachmentKind.AUDIO,
}
_OFFICE = ("application/vnd.openxmlformats", "application/vnd.oasis", "application/vnd.ms-")
_DOCUMENTS = frozenset({"application/pdf", "application/msword", "application/rtf", "text/rtf"})


def kind_of(name: str, mime: str) -> AttachmentKind:
    """Return the kind of a file, as far as its name and declared type reveal it."""
    said = mime.partition(";")[0].strip().lower()
    if said == "image/gif":
        return AttachmentKind.ANIMATION
    if (family := _BY_FAMILY.get(said.partition("/")[0])) is not None:
        return family
    if said in _DOCUMENTS or said.startswith(_OFFICE):
        return AttachmentKind.DOCUMENT
    by_ending = _ENDINGS.get(PurePath(name).suffix.lower())
    if by_ending is not None:
        return by_ending
    if is_text_file(name, mime):
        return AttachmentKind.TEXT
    return AttachmentKind.OTHER
