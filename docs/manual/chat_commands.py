"""The reference of chat commands, made from the command table."""

from collections.abc import Iterator

from bot.commands.call.parser import usage
from bot.commands.registry import COMMANDS
from bot.core.command import Command, Param, ParamKind, Topic
from bot.texts.catalogue import word

LANGUAGE = "en"
_VALUES = {
    ParamKind.MODEL: "a model",
    ParamKind.JOB: "the number of a job",
    ParamKind.HOST: "a host",
    ParamKind.PERSON: "a person",
    ParamKind.SIZE: "a size",
    ParamKind.STYLE: "a style",
    ParamKind.WHOLE: "a whole number",
    ParamKind.DECIMAL: "a number",
    ParamKind.TEXT: "text",
    ParamKind.CHOICE: "",
    ParamKind.FLAG: "",
    ParamKind.IMAGE: "an attached image",
    ParamKind.SOUND: "an attached recording",
    ParamKind.MASK: "an attached mask",
}


def page() -> str:
    """Return the page in Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# All chat commands and options\n"
    yield "Generated from the command table; `/help` and `/help image` show the same in a chat."
    yield "[Chat commands](../commands.md) explains how to use them.\n"
    shown = [each for each in COMMANDS if not each.hidden]
    for topic in Topic:
        yield f"## {word(LANGUAGE, f'help.{topic}').rstrip(':')}\n"
        for command in shown:
            if command.topic is topic and not command.admin:
                yield from _command(command)
    yield f"## {word(LANGUAGE, 'help.admin').rstrip(':')}\n"
    for command in shown:
        if command.admin:
            yield from _command(command)


def _command(command: Command) -> Iterator[str]:
    yield f"### /{command.name}\n"
    yield f"`{usage(command)}`\n"
    yield f"{_sentence(word(LANGUAGE, command.help))}\n"
    if not command.params:
        return
    yield "| parameter | value | meaning |"
    yield "|---|---|---|"
    for each in command.params:
        name = each.name if each.positional else f"--{each.name}"
        told = word(LANGUAGE, each.help).replace("|", "\\|")
        yield f"| `{name}` | {_value(each)} | {told} |"
    yield ""


def _value(param: Param) -> str:
    words = [f"`{each}`" for each in param.choices]
    if kind := _VALUES[param.kind]:
        words.insert(0, kind + _range(param))
    return ", ".join(words) or "–"


def _range(param: Param) -> str:
    if param.least is None or param.most is None:
        return ""
    return f", {param.least:g} to {param.most:g}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
