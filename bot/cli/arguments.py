"""What the command line `usher` understands.

Imports only the standard library, so that help and usage errors appear before anything is
installed.
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

    demo = commands.add_parser("demo", help="try it here and now: no account, GPU or server needed")
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
        ("reload", "have the running bot read this configuration again, and report what it took"),
    ):
        command = commands.add_parser(name, help=text)
        _config_argument(command)
        if name == "run":
            _process_arguments(command)
        command.set_defaults(command=name)

    watch = commands.add_parser("top", help="watch the running bot of this machine in the terminal")
    watch.add_argument("--once", action="store_true", help="print the image once")
    watch.add_argument("--json", action="store_true", help="print everything as one JSON object")
    _config_argument(watch)
    watch.set_defaults(command="top")

    backup = commands.add_parser("backup", help="copy the database, also while the bot runs")
    backup.add_argument("file", type=Path, metavar="FILE", help="replaced when the copy is whole")
    _config_argument(backup)
    backup.set_defaults(command="backup")

    _database_commands(commands.add_parser("db", help="look after the database"))
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
        help="the configuration; without: config.yaml in this folder",
    )


def _init_arguments(init: argparse.ArgumentParser) -> None:
    _config_argument(init)
    init.add_argument(
        "--server",
        action="append",
        default=[],
        metavar="URL",
        help="a server on another machine or port, such as http://192.168.1.20:8188; a machine"
        " alone means its usual ports; may be given several times",
    )
    init.add_argument(
        "--admin",
        action="append",
        default=[],
        metavar="ID",
        help="an admin, such as telegram:42; may be given several times",
    )
    init.add_argument(
        "--url",
        default="",
        metavar="URL",
        help="the address others will reach the page by, such as https://usher.example.net behind a"
        " proxy or http://192.168.1.5:8080; the page then gets a token; without: this machine alone",
    )
    init.add_argument(
        "--unit", choices=("user", "system", "none"), help="write a systemd unit as well"
    )
    init.add_argument(
        "--yes",
        action="store_true",
        help="ask nothing: tokens come from the environment, such as TELEGRAM_TOKEN",
    )


def _process_arguments(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--posts",
        metavar="NAMES",
        help="of several processes on one database: the posts this one applies for, such as"
        " queue,web or telegram,discord; none for the API alone; without: every one",
    )
    run.add_argument(
        "--api",
        type=_place,
        metavar="HOST:PORT",
        help="where this process serves the API, instead of where the configuration says;"
        " off: not at all",
    )


def _database_commands(database: argparse.ArgumentParser) -> None:
    commands = database.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="read all of it and say what is damaged")
    check.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="a backup, or postgresql://…, instead of the database",
    )
    _config_argument(check)
    check.set_defaults(command="db check")
    copy = commands.add_parser(
        "copy", help="bring everything into another, empty database; stop the bot first"
    )
    copy.add_argument("source", metavar="FROM", help="a file, or postgresql://…")
    copy.add_argument(
        "target",
        nargs="?",
        metavar="TO",
        help="likewise; without: the database of the configuration",
    )
    _config_argument(copy)
    copy.set_defaults(command="db copy")


def _demo_arguments(demo: argparse.ArgumentParser) -> None:
    usual = DemoOptions()
    demo.add_argument(
        "--port", type=_port, help="of the page, 0 for any free one; without: 8080 where it is free"
    )
    demo.add_argument(
        "--crowd", type=_count, default=0, metavar="N", help="simulated people beside you"
    )
    demo.add_argument(
        "--say",
        action="append",
        default=[],
        metavar="TEXT",
        help="no page: do this, print what happens, end; may be given several times",
    )
    demo.add_argument("--out", type=Path, metavar="DIR", help="where results are saved")
    demo.add_argument(
        "--database",
        type=Path,
        metavar="FILE",
        help="keep the jobs in this file; without: in your state folder, with --say nowhere",
    )
    demo.add_argument(
        "--fresh", action="store_true", help="begin without the jobs of earlier demos"
    )
    demo.add_argument(
        "--speed",
        type=_speed,
        default=usual.speed,
        metavar="X",
        help="times faster than a real server",
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
    with suppress(ValueError):  # argparse would name the function that reads it
        if least <= (value := int(text)) <= most:
            return value
    raise argparse.ArgumentTypeError(f"must be a whole number from {least} to {most}")
