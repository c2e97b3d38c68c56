"""The documentation site: its generated pages name everything, and its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bot.api.operations import OPERATIONS
from bot.cli.arguments import parser
from bot.commands.registry import COMMANDS
from docs.manual import api, chat_commands, command_line, hooks, settings

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "config.example.yaml"
_FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio|object)\b[^>]*?\s(?:src|href|data)=\"([^\"]*)"
)


def test_every_command_is_in_the_reference() -> None:
    """A person would look for it, and find nothing."""
    page = chat_commands.page()
    for command in COMMANDS:
        assert (f"### /{command.name}\n" in page) is not command.hidden
        if not command.hidden:
            assert all(
                f"`{each.name}`" in page or f"`--{each.name}`" in page for each in command.params
            )


def test_every_command_of_the_terminal_is_in_the_reference() -> None:
    """An operator would not know that it exists."""
    page = command_line.page()
    for name, command in command_line.subcommands(parser()).items():
        below = command_line.subcommands(command)
        for path in [f"{name} {each}" for each in below] or [name]:
            assert f"## usher {path}\n" in page


def test_every_setting_is_in_the_reference() -> None:
    """The page would leave out what is between two headings."""
    page = settings.page(EXAMPLE)
    lines = [each for each in EXAMPLE.read_text(encoding="utf-8").splitlines() if each.strip()]
    named = [each for each in lines if not each.startswith("#")]
    assert len(named) > 100
    assert [each for each in named if each not in page.splitlines()] == []
    assert page.count("```") % 2 == 0


def test_every_route_is_in_the_reference() -> None:
    """A program's author would not know what can be called."""
    page = api.page()
    for route, operation in OPERATIONS.items():
        assert f"## `{route}`\n" in page or operation.absent


@pytest.mark.parametrize(
    ("link", "becomes"),
    [
        ("[a](web.md#x)", "[a](web.md#x)"),
        ("[a](https://x.org/y.md)", "[a](https://x.org/y.md)"),
        ("[a](../Dockerfile)", "a"),
        ("[a](../config.example.yaml)", "[a](reference/settings.md)"),
        ("![a](screenshot.png)", "![a](screenshot.png)"),
        ("[a](gone.md)", "[a](gone.md)"),
    ],
)
def test_links_out_of_the_pages_become_names(link: str, becomes: str) -> None:
    """The site would lead to pages that do not exist."""
    assert hooks.mended(link, "operating.md", "", {"web.md"}) == becomes


def test_links_out_of_the_pages_lead_to_the_repository_where_it_is_known() -> None:
    """A reader could not look at the file that a page mentions."""
    found = hooks.mended("[a](../bot/cli)", "operating.md", "https://git.example/usher", set())
    assert found == "[a](https://git.example/usher/blob/main/bot/cli)"


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    """The check would pass with pages that lead nowhere."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("# One\n\n[gone](gone.md)\n")
    told = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    kept = told.partition("nav:\n  - Usher")[0].replace("hooks: [docs/manual/hooks.py]\n", "")
    (tmp_path / "mkdocs.yml").write_text(kept)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "gone.md" in done.stderr


@pytest.mark.thorough
def test_the_site_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    """Without a network, diagrams would stay source text; with one, another site sees readers."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = _FETCHED.findall(text)
        assert [each for each in fetched if re.match(r"(https?:)?//", each)] == [], page.name
        assert 'class="mermaid' not in text, page.name  # the theme fetches its program
    for style in tmp_path.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"""(url\(|@import\s*)["']?(https?:)?//""", text), style.name
