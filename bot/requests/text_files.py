"""Text files from strangers: told from other files by name and kind, read within bounds; pure.

What a file holds is only ever text: it is quoted before the question, as words a reply is about are.
"""

from pathlib import PurePath

MOST_BYTES = 200_000  # more than any question may hold in letters of four bytes

_KINDS = frozenset(
    f"application/{kind}"
    for kind in ("json", "x-ndjson", "xml", "yaml", "x-yaml", "toml", "javascript", "x-sh", "sql")
)
_ENDINGS = frozenset({
    ".txt", ".md", ".rst", ".log", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".toml",
    ".ini", ".cfg", ".conf", ".xml", ".html", ".css", ".js", ".ts", ".py", ".c", ".h", ".cpp",
    ".hpp", ".cs", ".go", ".java", ".kt", ".lua", ".php", ".pl", ".ps1", ".r", ".rb", ".rs", ".sh",
    ".sql", ".swift", ".tex", ".diff", ".patch", ".srt",
})  # fmt: skip


class BadTextFile(Exception):
    """A file that cannot be read as text; `key` makes the text for the person."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def is_text_file(name: str, mime: str) -> bool:
    """Return whether a file says that it is text; chats guess the kind of many as "bytes"."""
    kind = mime.partition(";")[0].strip().lower()
    if kind.startswith(("image/", "audio/", "video/")):
        return False
    return kind.startswith("text/") or kind in _KINDS or PurePath(name).suffix.lower() in _ENDINGS


def decoded(data: bytes) -> str:
    """Return a stranger's bytes as text. Raises `BadTextFile`."""
    if len(data) > MOST_BYTES:
        raise BadTextFile("problem.text_bytes")
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise BadTextFile("problem.not_text") from None
    if "\x00" in text:
        raise BadTextFile("problem.not_text")
    return text
