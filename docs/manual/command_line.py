"""The reference of the command line, made from what `usher --help` prints."""

import argparse
from collections.abc import Iterator, Mapping

from bot.cli.arguments import parser


def page() -> str:
    """Return the page in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The command line\n"
    yield "In a copy of the repository, use `python3 tasks.py usher …` instead of `usher …`.\n"
    yield from _tree("usher", parser())


def _tree(name: str, shown: argparse.ArgumentParser) -> Iterator[str]:
    below = subcommands(shown)
    if not below or name == "usher":
        yield f"## {name}\n"
        yield f"```text\n{_help(shown)}```\n"
    for each, command in below.items():
        yield from _tree(f"{name} {each}", command)


def subcommands(shown: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """Return the commands below a command by name."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in shown._actions:  # noqa: SLF001  # argparse has no public way to them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            found |= action.choices
    return found


def _help(shown: argparse.ArgumentParser) -> str:
    shown.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=88)
    return shown.format_help()
