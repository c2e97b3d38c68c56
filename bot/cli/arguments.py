"""Defines the command line `usher`.

Imports only the standard library, so that help and usage errors work before anything is installed.
"""

import argparse
from contextlib import suppress
from pathlib import Path

from bot.cli.demo.options import DemoOptions
from bot.version import version

_FASTEST = 1_000_000


def parser() -> argparse.ArgumentParser:
    """Return the argument parser."""
    top = argparse.ArgumentParser(
        prog="usher",
        description="Shares a community's own GPUs over Discord, Telegram and a local web chat.",
    )
    top.add_argument("--version", action="version", version=f"usher {version()}")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="try it now: no account, GPU or server needed")
    _demo_arguments(demo)
    demo.set_defaults(command="demo")

    init = commands.add_parser(
        "init", help="find your servers, ask for tokens, and write a configuration"
    )
    _init_arguments(init)
    init.set_defaults(command="init")

    for name, text in (
        ("run", "run the bot"),
        ("check", "try the configuration, every server and every chat, and report what works"),
        ("health", "report whether the bot of this configuration is alive"),
        ("reload", "make the running bot reload this configuration, and report what changed"),
    ):
        command = commands.add_parser(name, help=text)
        _config_argument(command)
        if name == "run":
            _process_arguments(command)
        command.set_defaults(command=name)

    watch = commands.add_parser("top", help="watch this machine's running bot in the terminal")
    watch.add_argument("--once", action="store_true", help="print the state once and exit")
    watch.add_argument("--json", action="store_true", help="print everything as one JSON object")
    _config_argument(watch)
    watch.set_defaults(command="top")

    _workflow_commands(
        commands.add_parser("workflow", help="turn workflows exported from ComfyUI into models")
    )

    backup = commands.add_parser("backup", help="copy the database, even while the bot runs")
    backup.add_argument(
        "file", type=Path, metavar="FILE", help="replaced once the copy is complete"
    )
    _config_argument(backup)
    backup.set_defaults(command="backup")

    restore = commands.add_parser(
        "restore", help="replace the database with a backup; stop the bot first"
    )
    restore.add_argument(
        "file", type=Path, metavar="FILE", help="a file of `usher backup`; it is not changed"
    )
    _config_argument(restore)
    restore.set_defaults(command="restore")

    _database_commands(commands.add_parser("db", help="check and copy databases"))
    example = commands.add_parser("example", help="print a configuration with every setting")
    example.set_defaults(command="example")
    commands.add_parser("version", help="print the version").set_defaults(command="version")
    return top


def _config_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "-c",
        "--config",
        type=Path,
        default=Path("config.yaml"),
        metavar="FILE",
        help="the configuration (default: config.yaml in this folder)",
    )


def _init_arguments(init: argparse.ArgumentParser) -> None:
    _config_argument(init)
    init.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="URL",
        help="a server on another machine or port, such as http://192.168.1.20:8188; without a port,"
        " the usual ports of that machine are tried; may be repeated",
    )
    init.add_argument(
        "--admin",
        action="append",
        default=[],
        metavar="ID",
        help="an admin, such as telegram:42; may be repeated",
    )
    init.add_argument(
        "--url",
        default="",
        metavar="URL",
        help="the address at which others reach the page, such as https://usher.example.net behind a"
        " proxy or http://192.168.1.5:8080; the page then gets a token (default: this machine only)",
    )
    init.add_argument(
        "--unit", choices=("user", "system", "none"), help="write a systemd unit as well"
    )
    init.add_argument(
        "--yes",
        action="store_true",
        help="ask nothing: tokens come from the environment, such as TELEGRAM_TOKEN",
    )


def _workflow_commands(workflow: argparse.ArgumentParser) -> None:
    commands = workflow.add_subparsers(required=True, metavar="COMMAND")
    add = commands.add_parser(
        "add",
        help="turn a workflow exported in the API format into a template: put placeholders where"
        " requests need them, try it on your servers, and write it next to the configuration",
    )
    add.add_argument("file", type=Path, metavar="FILE", help="the workflow; it is never changed")
    _config_argument(add)
    add.add_argument("--name", metavar="NAME", help="the model's name (default: the file's)")
    add.add_argument(
        "--prompt", metavar="NODE.INPUT", help="the input for the prompt, such as 6.text"
    )
    add.add_argument("--negative", metavar="NODE.INPUT", help="the input for the negative prompt")
    add.add_argument(
        "--fixed",
        action="append",
        default=[],
        metavar="NODE.INPUT",
        help="an input that stays as it is; may be repeated",
    )
    add.add_argument(
        "--write", action="store_true", help="add the model to the configuration as well"
    )
    add.add_argument("--dry-run", action="store_true", help="show the difference and write nothing")
    add.set_defaults(command="workflow add")


def _process_arguments(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--roles",
        metavar="NAMES",
        help="with several processes on one database: the roles this one may take, such as"
        " queue,web or telegram,discord; none for the API alone (default: all)",
    )
    run.add_argument(
        "--api",
        type=_place,
        metavar="HOST:PORT",
        help="where this process serves the API, instead of the configured address;"
        " off: not at all",
    )


def _database_commands(database: argparse.ArgumentParser) -> None:
    commands = database.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="read the whole database and report damage")
    check.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="a backup, or postgresql://…, instead of the database",
    )
    _config_argument(check)
    check.set_defaults(command="db check")
    copy = commands.add_parser(
        "copy", help="copy everything into another, empty database; stop the bot first"
    )
    copy.add_argument("source", metavar="FROM", help="a file, or postgresql://…")
    copy.add_argument(
        "target",
        nargs="?",
        metavar="TO",
        help="likewise (default: the configured database)",
    )
    _config_argument(copy)
    copy.set_defaults(command="db copy")


def _demo_arguments(demo: argparse.ArgumentParser) -> None:
    usual = DemoOptions()
    demo.add_argument(
        "--port",
        type=_port,
        help="port of the page, 0 for any free one (default: 8080 if it is free)",
    )
    demo.add_argument(
        "--crowd",
        type=_count,
        default=0,
        metavar="N",
        help="number of simulated people; more than 8 make as many requests as 8",
    )
    demo.add_argument(
        "--say",
        action="append",
        default=[],
        metavar="TEXT",
        help="run this without a page, print what happens and exit; may be repeated",
    )
    demo.add_argument("--out", type=Path, metavar="DIR", help="where results are saved")
    demo.add_argument(
        "--database",
        type=Path,
        metavar="FILE",
        help="store the jobs in this file (default: your state folder; with --say, nowhere)",
    )
    demo.add_argument("--fresh", action="store_true", help="delete the jobs of earlier demos first")
    demo.add_argument(
        "--speed",
        type=_speed,
        default=usual.speed,
        metavar="X",
        help="how many times faster than a real server",
    )


def _place(text: str) -> tuple[str, int] | str:
    if text == "off":
        return text
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit():
        raise argparse.ArgumentTypeError("must be host:port, such as 127.0.0.1:8082, or off")
    return host.removeprefix("[").removesuffix("]"), _port(port)


def _port(text: str) -> int:
    return _within(text, 0, 65535)


def _count(text: str) -> int:
    return _within(text, 0, 10_000)


def _speed(text: str) -> float:
    with suppress(ValueError):
        if 0 < (value := float(text)) <= _FASTEST:
            return value
    raise argparse.ArgumentTypeError(f"must be a number, more than 0 and up to {_FASTEST:,}")


def _within(text: str, least: int, most: int) -> int:
    with suppress(ValueError):  # otherwise argparse would name the conversion function in its error
        if least <= (value := int(text)) <= most:
            return value
    raise argparse.ArgumentTypeError(f"must be a whole number from {least} to {most}")
