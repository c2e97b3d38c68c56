"""The reference of settings, made from `config.example.yaml`, which names every one."""

import re
from collections.abc import Iterator
from pathlib import Path

_HEADING = re.compile(r"^# -{4,} (.+)$")
_COMMENT = re.compile(r"^# ?")


def page(example: Path) -> str:
    """Return the page in Markdown."""
    return "\n".join(_lines(example.read_text(encoding="utf-8"))) + "\n"


def _lines(text: str) -> Iterator[str]:
    intro, *sections = _sections(text)
    yield "# Settings\n"
    yield "This is `config.example.yaml`. It contains every setting, which a test checks.\n"
    for _, body in (intro,):
        yield from (_COMMENT.sub("", line) for line in _as_code(body))
    for heading, body in sections:
        yield f"\n## {heading[:1].upper()}{heading[1:]}\n"
        yield f"```yaml\n{body.strip(chr(10))}\n```"


def _as_code(body: str) -> Iterator[str]:
    """Yield the lines of a comment; those that are indented within it show commands."""
    for line in body.splitlines():
        yield line.replace("#   ", "#     ", 1)


def _sections(text: str) -> list[tuple[str, str]]:
    """Return the parts of the file with their headings; that of the first is empty."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        if match := _HEADING.match(line):
            found.append((match[1], []))
        else:
            found[-1][1].append(line)
    return [(heading, "\n".join(lines)) for heading, lines in found]
