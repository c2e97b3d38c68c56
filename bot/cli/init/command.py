"""`usher init`: finds servers, asks questions, writes missing files, and checks the result."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from backends.common.proxies import of_environment
from backends.hardware.gpu_memory import AMD, UNIFIED
from bot.app import logs, process
from bot.cli.init import (
    chats as tokens,
)
from bot.cli.init import files as init_files
from bot.cli.init import (
    hosts as machines,
)
from bot.cli.init import scan
from bot.cli.init import (
    systemd as unit,
)
from bot.cli.init.files import PRIVATE, NewFile, is_there, write_all
from bot.cli.init.scan import FoundServer
from bot.cli.init.terminal import InitFailed, Keyboard, NoQuestions, Terminal, agreed, ask_for
from bot.config.host_checks import address_of
from bot.config.loader import Config, load
from bot.config.proxies import unusable
from bot.config.reading import environment
from bot.config.reading.forms import ENVIRONMENT

EXPECTED = ("http://127.0.0.1:8188", "http://127.0.0.1:1234")
"""The servers written if none was found: ComfyUI and LM Studio."""


def servers(
    given: Sequence[str], terminal: Terminal, values: Mapping[str, str]
) -> tuple[FoundServer, ...]:
    """Return the servers that answer, and those at complete addresses that were given."""
    terminal.tell("Looking for servers on this machine …")
    named = [url for each in given for url in scan.places(each)]
    found = _looked([*named, *scan.usual(scan.HERE)], terminal, values)
    kept = list(_kept(found, given, terminal))
    while terminal.asks:
        more = ask_for(
            terminal, "Address of another server; Enter for none", "", _address_or_nothing
        )
        if not more:
            break
        known = {address_of(each.url) for each in kept}
        urls = [url for url in scan.places(more) if address_of(url) not in known]
        kept += _kept(_looked(urls, terminal, values), [more], terminal)
    return tuple(kept) or _expected(terminal)


def _kept(
    found: Iterable[FoundServer], given: Sequence[str], terminal: Terminal
) -> Iterator[FoundServer]:
    """Yield the servers to write, and print which given addresses have none.

    A given address whose server cannot be used now is kept if the person agrees or is not asked.
    """
    places = {url: place for place in given for url in scan.places(place)}
    silent: set[str] = set()
    for server in found:
        place = places.get(server.url)
        if not server.trouble or server.wants_token:
            places = {url: each for url, each in places.items() if each != place}
            silent.discard(place or "")
            yield server
        elif server.url == place:
            terminal.tell(f"  {server.url}  cannot be used now: {server.trouble}")
            if agreed(terminal, "  Keep this address anyway", usual=not terminal.asks):
                yield server
        elif place is not None:
            silent.add(place)
    for place in sorted(silent):
        terminal.tell(f"  {place}  no server was found at the usual ports")


def _address_or_nothing(text: str) -> str:
    return scan.address(text) if text else ""


def _expected(terminal: Terminal) -> tuple[FoundServer, ...]:
    terminal.tell("No server was found: writing ComfyUI and LM Studio with their usual addresses.")
    trouble = "nothing found here; start it, or correct the address"
    return tuple(
        FoundServer(url=url, kind=scan.likely_kind(url), trouble=trouble) for url in EXPECTED
    )


def _looked(
    urls: Sequence[str], terminal: Terminal, values: Mapping[str, str]
) -> Iterator[FoundServer]:
    """Identify servers and print what they are.

    Retries with a token if a server needs one.
    """
    once = {_place(url): url for url in reversed(urls)}  # the first of several spellings
    asked = [url for url in dict.fromkeys(urls) if once[_place(url)] == url]
    for server in process.run(scan.look(asked)):
        found = _with_token(server, terminal, values) if server.wants_token else server
        if not found.trouble:
            terminal.tell(f"  {found.url}  {found.description}, {init_files.models(found)}")
        yield found


def _place(url: str) -> object:
    """Return a key that is equal for all addresses of one server."""
    host, port, path = address_of(url)
    return ("loopback" if scan.is_here(host) else host, port, path)


def _with_token(server: FoundServer, terminal: Terminal, values: Mapping[str, str]) -> FoundServer:
    name = init_files.variable(server.called)
    token = values.get(name, "")
    while True:
        if not token:
            token = terminal.ask_secret(
                f"{server.url} needs a token, not shown while you type; Enter to skip it for now"
            )
        if not token:
            terminal.tell(f"  {server.url}  needs a token: {name}")
            return server
        (tried,) = process.run(scan.look([server.url], tokens={server.url: token}))
        if not tried.trouble:
            return tried
        terminal.tell(f"  {server.url}  {tried.trouble}")
        if not terminal.asks:
            return replace(server, token=token)
        token = ""


UNUSABLE = 1
STOPPED = 130  # the shells' status for a program ended by Ctrl-C

Check = Callable[[Config], int]
"""Tries a configuration, prints what it finds, and returns the exit status."""

Start = Callable[[Path, str], int]
"""Runs Usher with a configuration, opens its page at an address, and returns the exit status."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InitOptions:
    """The command-line options. `unit` and `url` are None if not given."""

    config: Path
    servers: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()
    unit: str | None = None
    url: str | None = None


def main(arguments: argparse.Namespace, check: Check, start: Start) -> int:
    """Run the command. Failures are reported in one sentence."""
    if not arguments.yes and not sys.stdin.isatty():
        print("There is no terminal for questions: use --yes to ask none.", file=sys.stderr)
        return UNUSABLE
    try:
        terminal = NoQuestions() if arguments.yes else Keyboard()
        return init(_options(arguments), terminal, check, start)
    except InitFailed as error:
        print(logs.harmless(str(error)), file=sys.stderr)
        return UNUSABLE
    except (KeyboardInterrupt, EOFError):
        print("\nStopped. No file is incomplete.", file=sys.stderr)
        return STOPPED


def _options(arguments: argparse.Namespace) -> InitOptions:
    try:
        return InitOptions(
            config=arguments.config,
            servers=tuple(map(scan.address, arguments.server)),
            admins=tuple(map(tokens.known_id, arguments.admin)),
            unit=arguments.unit,
            url=tokens.address(arguments.url),
        )
    except ValueError as error:
        raise InitFailed(f"{error} Nothing was written.") from None


def init(
    options: InitOptions,
    terminal: Terminal,
    check: Check,
    start: Start,
    environ: Mapping[str, str] = os.environ,
) -> int:
    """Run the command and return the exit status of the final check, or of the bot it started.

    Raises `InitFailed`; then nothing was written.
    """
    config = options.config.absolute()
    _require_room(config)
    if options.unit not in {None, "none"}:
        unit.require_lasting()
    logs.set_up(level="error")
    given = _given(config.parent, terminal, environ)
    made = _arranged(options, terminal, given)
    wanted = _unit_kind(options, terminal)
    service = unit.plan(wanted, config)
    kept = _write(config, made, service, terminal)
    terminal.tell()
    unsaved = _unsaved(made, kept)
    status = check(load(config, {**environ, **unsaved}))
    if made.page.url is not None:
        terminal.tell(f"Sign in at {made.page.url} with the page's token, {tokens.TOKEN}.")
    _tell_next(options.config, service, terminal, works=status == 0)
    can_start = terminal.asks and status == 0 and service is None and unsaved.keys() <= given.keys()
    if can_start and agreed(terminal, "Start Usher now and open its page?", usual=True):
        terminal.tell(f"The page is at {made.page.address}; Ctrl-C stops Usher.")
        return start(options.config, made.page.address)
    return status


def _require_room(config: Path) -> None:
    if is_there(config):
        raise InitFailed(
            f"{config} already exists and was not changed: try it with `usher check`, or choose"
            " another file with -c."
        )
    if not config.parent.is_dir():
        raise InitFailed(f"There is no folder {config.parent}.")
    if not os.access(config.parent, os.W_OK | os.X_OK):
        raise InitFailed(f"You may not write into {config.parent}.")


def _given(folder: Path, terminal: Terminal, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the existing tokens, and print the problems of their file."""
    beside = environment.read_beside(folder)
    for problem in (beside.unread, *beside.warnings):
        if problem:
            terminal.tell(f"warning: {problem}")
    return beside.beneath(environ)


# ---------------------------------------------------------------- what is there


def _own_memory(terminal: Terminal) -> machines.OwnMemory:
    """Measure this machine's memory and print the result."""
    gpus, maker = process.run(machines.gpus()), ""
    silent = "" if gpus else process.run(machines.why_silent())
    if not (gpus or silent) and (amds := machines.amd_gpus()):
        gpus, maker = amds, AMD
    if gpus:
        terminal.tell(f"GPU memory: {', '.join(map(machines.size, gpus))}")
    elif silent == UNIFIED:
        terminal.tell("The GPU of this machine shares the main memory.")
    elif silent:
        terminal.tell(f"The GPU of this machine could not be measured: {silent}.")
    else:
        terminal.tell("No GPU was found here, or no driver that measures it.")
    return machines.OwnMemory(
        gpus=gpus,
        maker=maker,
        machine_mb=machines.machine_mb(),
        gpuless=silent == UNIFIED or machines.gpuless(),
        unified=silent == UNIFIED,
    )


def _arranged(
    options: InitOptions, terminal: Terminal, given: Mapping[str, str]
) -> init_files.Arrangement:
    for sentence in unusable(ENVIRONMENT, given):
        terminal.tell(f"{sentence}.")
    found = servers(options.servers, terminal, given)
    own = _own_memory(terminal)
    hosts = machines.hosts(found, own, terminal)
    api = given.get("TELEGRAM_API")
    asked = (
        tokens.plan(kind, terminal, given) for kind in tokens.kinds(api, of_environment(given)[0])
    )
    chats = tuple(_invited(chat, terminal) for chat in asked if chat is not None)
    planned = tokens.plan_page(options.url, terminal, given)
    return init_files.Arrangement(
        hosts=hosts,
        chats=chats,
        admins=tokens.admins(chats, options.admins, terminal, api, planned),
        page=planned,
        telegram_api=api,
    )


def _invited(chat: tokens.ChatPlan, terminal: Terminal) -> tokens.ChatPlan:
    if chat.account:
        terminal.tell(
            f"{chat.kind.title}: {chat.account.name}; invite it with {chat.account.invite}"
        )
    return chat


# ---------------------------------------------------------------- what is written


def _unit_kind(options: InitOptions, terminal: Terminal) -> str:
    if options.unit is not None or not terminal.asks or not unit.is_possible():
        return options.unit or "none"
    if unit.passing() is not None:
        terminal.tell(f"A systemd unit needs Usher installed: {unit.INSTALL}.")
        return "none"

    def read(answer: str) -> str:
        if answer in unit.KINDS:
            return answer
        raise ValueError(f"It must be one of {', '.join(unit.KINDS)}.")

    question = "A systemd unit: for your account (user), for the machine (system), or none"
    return ask_for(terminal, question, "none", read)


def _write(
    config: Path, made: init_files.Arrangement, service: unit.UnitPlan | None, terminal: Terminal
) -> bool:
    """Write the missing files. Returns whether one of them contains the tokens."""
    saved, beside = init_files.secrets_of(made), config.parent / environment.FILE
    private: list[NewFile] = []
    if saved and not is_there(beside):
        private = [NewFile(path=beside, text=init_files.environment(saved), mode=PRIVATE)]
    elif saved:
        terminal.tell(f"{beside} already exists and was not changed; it, or the environment, must")
        terminal.tell(f"  contain {', '.join(sorted(saved))}.")
    files = [*private, NewFile(path=config, text=init_files.configuration(made))]
    if service is not None and is_there(service.file.path):
        terminal.tell(f"{service.file.path} already exists and was not changed.")
    elif service is not None:
        service.file.path.parent.mkdir(parents=True, exist_ok=True)
        files.append(service.file)
    write_all(files)
    for file in files:
        terminal.tell(f"Wrote {file.path}")
    return bool(private)


def _unsaved(made: init_files.Arrangement, kept: bool) -> Mapping[str, str]:
    """Return the tokens that are in no file, so that the check can use them."""
    return {} if kept else init_files.secrets_of(made)


def _tell_next(
    config: Path, service: unit.UnitPlan | None, terminal: Terminal, *, works: bool
) -> None:
    started = Path(sys.argv[0]).name
    named = shlex.quote(str(config))
    program = started if started in unit.PROGRAMS else "python3 tasks.py usher"
    terminal.tell()
    if not works:
        terminal.tell(f"Correct what failed and try again: {program} check -c {named}")
    for step in service.steps if service else (f"{program} run -c {named}",):
        terminal.tell(f"Then: {step}")
