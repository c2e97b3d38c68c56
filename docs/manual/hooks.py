"""What mkdocs does beside its own work: adds the pages made from the code, and mends links.

The pages are read on GitHub as well, where a link may leave `docs/`. Here such a link becomes the
name of the file, or a link to the repository if `repo_url` is set.
"""

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # mkdocs loads this file by its path
    sys.path.insert(0, str(ROOT))

from docs.manual import api, chat_commands, command_line, settings  # noqa: E402

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]*)\]\((?P<to>[^)\s#]+)(?P<at>#[^)\s]*)?\)")
_INTO_DOCS = re.compile(r"\]\(docs/")
SETTINGS = "reference/settings.md"


def made_pages() -> dict[str, str]:
    """Return the pages that are made from the code, by their paths below `docs/`."""
    return {
        "index.md": _beside("README.md"),
        "reference/chat-commands.md": chat_commands.page(),
        "reference/command-line.md": command_line.page(),
        SETTINGS: settings.page(ROOT / "config.example.yaml"),
        "reference/api.md": api.page(),
        "changelog.md": _beside("CHANGELOG.md"),
    }


def _beside(name: str) -> str:
    """Return a file that lies beside `docs/`, with its links as they are from within."""
    return _INTO_DOCS.sub("](", (ROOT / name).read_text(encoding="utf-8"))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the decisions to the pages of the menu; there is a new one now and then."""
    notes = sorted(Path(config.docs_dir).glob("decisions/*.md"))
    listed = [f"decisions/{each.name}" for each in notes]
    config.nav = [*(config.nav or ()), {"Decisions": listed}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages made from the code."""
    for path, text in made_pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(
    markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files
) -> str | None:
    """Mend the links of a page that lead out of `docs/`."""
    return mended(markdown, page.file.src_uri, config.repo_url or "", set(files.src_uris))


def mended(markdown: str, page: str, repository: str, pages: set[str]) -> str:
    """Return a page's text with links to files outside of the pages as names, or to the repository."""
    folder = posixpath.dirname(page)

    def link(match: re.Match[str]) -> str:
        to, text = match["to"], match["text"]
        if "://" in to or to.startswith("mailto:"):
            return match[0]
        target = posixpath.normpath(posixpath.join(folder, to))
        for known in (target, f"{target}/README.md"):
            if known in pages:
                return f"[{text}]({posixpath.relpath(known, folder or '.')}{match['at'] or ''})"
        outside = posixpath.normpath(posixpath.join("docs", folder, to))
        if page in {"index.md", "changelog.md"}:  # they lie beside the files they name
            outside = posixpath.normpath(to)
        inside = outside.startswith("docs/")
        if inside and not any(known.startswith(f"{target}/") for known in pages):
            return match[0]  # mkdocs reports it
        if outside == "config.example.yaml":
            return f"[{text}]({posixpath.relpath(SETTINGS, folder or '.')})"
        return f"[{text}]({repository}/blob/main/{outside})" if repository and not inside else text

    return _LINK.sub(link, markdown)
