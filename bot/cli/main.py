"""The command line `usher`: parses the arguments, runs one command, returns an exit status.

0: done, or stopped in order. 1: the configuration cannot be used. 2: something does not work
(argparse also exits with 2 for a wrong command line).
"""

import argparse
import io
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bot.app import control_socket, heartbeat, logs, process
from bot.app.control_socket import NotRunning
from bot.app.process import run_until_signal
from bot.cli import database
from bot.cli.arguments import parser
from bot.cli.demo.options import DemoOptions
from bot.config.loader import Config, ConfigError, load, sign_at
from bot.config.reading.values import passwords
from bot.core.errors import ChatRefused
from bot.version import version
from queueing.core.concurrency import first_cause
from queueing.core.errors import BadModel, StoreError

UNUSABLE = 1
BROKEN = database.BROKEN

_log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # replace characters that the console cannot show
    arguments = parser().parse_args(argv)
    try:
        return _carried_out(arguments)
    except BrokenPipeError:  # for example `| head`: the reader has stopped reading
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN
    except (ConfigError, BadModel, StoreError, ChatRefused, ExceptionGroup) as error:
        cause = first_cause(error)
        if not isinstance(cause, (ConfigError, BadModel, StoreError, ChatRefused)):
            raise
        given = [each for each in vars(arguments).values() if isinstance(each, str)]
        secrets = {secret for each in given for secret in passwords(each)}
        print(logs.Redactor(secrets)(str(cause)), file=sys.stderr)
        return UNUSABLE if isinstance(cause, (ConfigError, BadModel)) else BROKEN


def _carried_out(arguments: argparse.Namespace) -> int:
    status = COMMANDS[arguments.command](arguments)
    sys.stdout.flush()  # raises here if the reader has gone, instead of at interpreter exit
    return status


# ---------------------------------------------------------------- commands


def _demo(arguments: argparse.Namespace) -> int:
    from bot.app import process  # noqa: PLC0415  # the other commands do not need its libraries
    from bot.cli.demo import demo  # noqa: PLC0415  # the other commands do not need its libraries

    process.settle()
    options = {name: getattr(arguments, name) for name in DemoOptions.__dataclass_fields__}
    return demo.main(DemoOptions(**options | {"say": tuple(arguments.say)}))


def _init(arguments: argparse.Namespace) -> int:
    from bot.cli.init import command  # noqa: PLC0415  # as above

    return command.main(arguments, _checked, _started)


def _started(config: Path, page: str) -> int:
    """Run the bot, and open its page once it is served."""
    from bot.cli.init import browser  # noqa: PLC0415  # as above

    with browser.opening(page):
        return _run(parser().parse_args(["run", "-c", str(config)]))


def _run(arguments: argparse.Namespace) -> int:
    config = _loaded(arguments.config)
    from bot.app import process, runner  # noqa: PLC0415  # as above
    from bot.cli import this_process  # noqa: PLC0415  # as above

    config, options = this_process.options(arguments, _reached(config, arguments.config))
    process.settle()

    def reread() -> Config:
        config = _reached(load(arguments.config), arguments.config)
        return this_process.options(arguments, config)[0]

    return run_until_signal(runner.run(config, version(), options, reread=reread, log_as=_log_as))


def _reached(config: Config, path: Path) -> Config:
    """Return the configuration if requests can reach the bot. Raises `ConfigError`."""
    if not config.is_reached:
        raise ConfigError((f"{path}: chats: none is configured, so no request can reach the bot",))
    return config


def _log_as(before: Config, after: Config) -> None:
    """Log as the new configuration says. Secrets of the old one stay hidden."""
    secrets = before.secrets() | after.secrets()
    logs.set_up(level=after.logging.level, form=after.logging.format, secrets=secrets)


def _check(arguments: argparse.Namespace) -> int:
    return _checked(_loaded(arguments.config, level="error"))  # the table reports the rest


def _checked(config: Config) -> int:
    from bot.cli import check  # noqa: PLC0415  # as above

    return process.run(check.report(config))


def _health(arguments: argparse.Namespace) -> int:
    wrong = heartbeat.health(load(arguments.config).sign_of_life)
    print(wrong or "alive")
    return BROKEN if wrong else 0


def _top(arguments: argparse.Namespace) -> int:
    from bot.cli import top  # noqa: PLC0415  # as above

    return top.top(arguments.config, once=arguments.once, as_json=arguments.json)


def _workflow_add(arguments: argparse.Namespace) -> int:
    from bot.cli.workflow import command  # noqa: PLC0415  # as above

    return command.main(arguments)


def _example(_: argparse.Namespace) -> int:
    # Next to the packages: in a checkout, in a wheel and in the image.
    print((Path(__file__).parents[2] / "config.example.yaml").read_text(encoding="utf-8"), end="")
    return 0


def _version(_: argparse.Namespace) -> int:
    print(f"usher {version()}")
    return 0


def _loaded(path: Path, *, level: str | None = None) -> Config:
    config = load(path)
    logs.set_up(
        level=level or config.logging.level, form=config.logging.format, secrets=config.secrets()
    )
    for warning in config.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return config


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "demo": _demo,
    "init": _init,
    "run": _run,
    "check": _check,
    "health": _health,
    "reload": lambda arguments: reload(arguments.config),
    "top": _top,
    "workflow add": _workflow_add,
    "backup": database.back_up,
    "restore": database.restore,
    "db check": database.check,
    "db copy": database.copy,
    "example": _example,
    "version": _version,
}


REFUSED = 1
NOT_RUNNING = 2


def reload(path: Path) -> int:
    """Make the running processes reload, print their answers and return the exit status.

    The processes read the file themselves, with their own environment. Here it only locates them.
    """
    hide = logs.Redactor()
    refused = False
    try:
        answers = list(control_socket.call_all(sign_at(path)))
    except NotRunning:
        print(f"no running bot uses {path}: start it with `usher run`", file=sys.stderr)
        return NOT_RUNNING
    for name, outcome in answers:
        refused = refused or bool(outcome.problems)
        stream = sys.stderr if outcome.problems else sys.stdout
        if len(answers) > 1:
            print(f"process {name}:", file=stream)
        print(hide("\n".join(outcome.lines())), file=stream)
    return REFUSED if refused else 0
