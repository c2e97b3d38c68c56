"""Which servers to write: those found here, those at addresses given, and what tokens they want."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bot.app import event_loop
from bot.cli.init import config_file, places, scan
from bot.cli.init.scan import FoundServer
from bot.cli.init.terminal import Terminal, ask_for
from bot.config.uniqueness import address_of

EXPECTED = ("http://127.0.0.1:8188", "http://127.0.0.1:1234")
"""What is written where nothing was found: ComfyUI and LM Studio."""


def servers(
    given: Sequence[str], terminal: Terminal, values: Mapping[str, str]
) -> tuple[FoundServer, ...]:
    """Return the servers that answer, and those at addresses given in full whether or not."""
    terminal.tell("Looking for servers on this machine …")
    named = [url for each in given for url in places.places(each)]
    found = _looked([*named, *places.usual(places.HERE)], terminal, values)
    kept = [each for each in found if _counts(each, given)]
    while terminal.asks:
        more = ask_for(
            terminal, "Address of another server; Enter for none", "", _address_or_nothing
        )
        if not more:
            break
        known = {address_of(each.url) for each in kept}
        urls = [url for url in places.places(more) if address_of(url) not in known]
        kept += [each for each in _looked(urls, terminal, values) if _counts(each, [more])]
    return tuple(kept) or _expected(terminal)


def _counts(server: FoundServer, given: Sequence[str]) -> bool:
    return not server.trouble or server.wants_token or server.url in given


def _address_or_nothing(text: str) -> str:
    return places.address(text) if text else ""


def _expected(terminal: Terminal) -> tuple[FoundServer, ...]:
    terminal.tell(
        "No server was found: ComfyUI and LM Studio are written with their usual addresses."
    )
    trouble = "nothing was found here; start it, or correct the address"
    return tuple(
        FoundServer(url=url, kind=places.likely_kind(url), trouble=trouble) for url in EXPECTED
    )


def _looked(
    urls: Sequence[str], terminal: Terminal, values: Mapping[str, str]
) -> Iterator[FoundServer]:
    """Ask servers and tell what they are; one that wants a token is asked again with it."""
    once = {_place(url): url for url in reversed(urls)}  # the first of two spellings of a server
    asked = [url for url in dict.fromkeys(urls) if once[_place(url)] == url]
    for server in event_loop.run(scan.look(asked)):
        found = _with_token(server, terminal, values) if server.wants_token else server
        if not found.trouble:
            terminal.tell(f"  {found.url}  {found.description}, {config_file.models(found)}")
        yield found


def _place(url: str) -> object:
    """Return what two addresses of one server have in common, under whatever name of the machine."""
    host, port, path = address_of(url)
    return ("loopback" if places.is_here(host) else host, port, path)


def _with_token(server: FoundServer, terminal: Terminal, values: Mapping[str, str]) -> FoundServer:
    name = config_file.variable(server.called)
    token = values.get(name, "")
    while True:
        if not token:
            token = terminal.ask_secret(
                f"{server.url} wants a token, not shown while you type; Enter to leave it for later"
            )
        if not token:
            terminal.tell(f"  {server.url}  wants a token: {name}")
            return server
        (tried,) = event_loop.run(scan.look([server.url], tokens={server.url: token}))
        if not tried.trouble:
            return tried
        terminal.tell(f"  {server.url}  {tried.trouble}")
        if not terminal.asks:
            return replace(server, token=token)
        token = ""
