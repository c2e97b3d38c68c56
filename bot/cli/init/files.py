"""The texts of the files that `usher init` writes, and how they are written.

A file is written completely or not at all, and never replaces another.
"""

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from backends.hardware.gpu_memory import SYSTEM
from bot.cli.init.chats import TOKEN, USUAL_PORT, ChatPlan, PagePlan
from bot.cli.init.hosts import HostPlan
from bot.cli.init.scan import FoundServer
from bot.cli.init.terminal import InitFailed
from bot.config.reading.environment import FILE
from bot.core.platform import ChatPerson

NAMED = 5  # models listed in a comment
_PLAIN_URL = re.compile(r"[A-Za-z0-9:/._~%-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrangement:
    """Everything that was found and answered."""

    hosts: tuple[HostPlan, ...]
    chats: tuple[ChatPlan, ...]
    admins: tuple[ChatPerson, ...]
    page: PagePlan
    telegram_api: str | None = None


def configuration(made: Arrangement) -> str:
    """Return the text of the configuration."""
    return "\n".join(
        (
            "# Written by `usher init`. `usher example` prints every setting. After a change, run",
            "# `usher check`. Models need no entry here: everything a server has is offered.",
            "",
            *_hosts(made.hosts),
            "",
            *_chats(made),
            "",
            f"admins: [{', '.join(each.id for each in made.admins)}]  # {_names(made.admins)}",
            "",
        )
    )


def environment(values: Mapping[str, str]) -> str:
    """Return the text of the file for the tokens."""
    lines = [f"{name}={value}" for name, value in sorted(values.items())]
    comment = f"# Usher's tokens, read from next to its configuration. Keep {FILE} private."
    return "\n".join((comment, *lines, ""))


def secrets_of(made: Arrangement) -> dict[str, str]:
    """Return the tokens by their variables in the configuration."""
    servers = (pair for host in made.hosts for pair in host.servers)
    return (
        {chat.kind.variable: chat.token for chat in made.chats}
        | {variable(name): server.token for name, server in servers if server.token}
        | ({TOKEN: made.page.token} if made.page.token else {})
    )


def variable(backend: str) -> str:
    """Return the environment variable of a server's token."""
    return f"{re.sub(r'[^A-Za-z0-9]', '_', backend).upper()}_TOKEN"


_GUESS = "a guess: name the GPUs it uses (docs/gpus.md#several-gpus-in-one-computer)"


def _hosts(hosts: Sequence[HostPlan]) -> Iterator[str]:
    yield "hosts:"
    for host in hosts:
        yield f"  {host.name}:  # choose any name; people see it"
        if host.gpus:
            yield f"    gpus:  # {host.why}; `gpu` sees what other programs take of each"
            for number, size in host.gpus.items():
                yield f"      {number}: {{vram: {size}, gpu: {host.maker}{number}}}"
        else:
            yield f"    vram: {host.vram}  # {host.why}"
        if host.gpu is not None:
            what = "this machine's memory" if host.gpu == SYSTEM else "this GPU"
            yield f"    gpu: {host.gpu}  # sees what other programs take of {what}"
        yield "    backends:"
        for name, server in host.servers:
            yield f"      # {_about(server)}"
            if name in host.guessed:
                yield f"      # {_GUESS}"
            settings = _backend(name, server, host.uses.get(name, ()))
            yield f"      {name}: {{{', '.join(settings)}}}"


def _backend(name: str, server: FoundServer, uses: Sequence[int]) -> Iterator[str]:
    yield f"kind: {server.kind}"
    yield f"url: {server.url if _PLAIN_URL.fullmatch(server.url) else json.dumps(server.url)}"
    if server.token or server.wants_token:
        yield f'token: "${{{variable(name)}}}"'
    if uses:
        yield f"gpus: [{', '.join(map(str, uses))}]"


def _about(server: FoundServer) -> str:
    if server.trouble:
        return f"did not answer: {server.trouble}"
    return f"{server.description}; {models(server)}"


def models(server: FoundServer) -> str:
    """Return a short phrase about a server's models."""
    count = len(server.models)
    if not count:
        return "no model found yet"
    more = f" and {count - NAMED} more" if count > NAMED else ""
    return f"{count} model{'' if count == 1 else 's'}: {', '.join(server.models[:NAMED])}{more}"


def _chats(made: Arrangement) -> Iterator[str]:
    yield "chats:"
    for chat in made.chats:
        about = f"  # {chat.account.name}" if chat.account else ""
        yield f"  {chat.kind.name}:{about}"
        yield f"    token: ${{{chat.kind.variable}}}"
        if chat.kind.name == "telegram" and made.telegram_api:
            yield f"    api_url: {json.dumps(made.telegram_api)}"
    yield from _page(made.page)


def _page(page: PagePlan) -> Iterator[str]:
    settings = [] if page.port == USUAL_PORT else [f"port: {page.port}"]
    if page.url is None:
        yield f"  web: {{{', '.join(settings)}}}  # the page in a browser, for this machine only"
        return
    settings += [f"url: {json.dumps(page.url)}", f'token: "${{{TOKEN}}}"']
    if page.direct:
        settings.insert(0, "host: 0.0.0.0")
    else:
        settings.append("proxies: [127.0.0.1]")
    yield f"  web: {{{', '.join(settings)}}}  # the page in a browser"


def _names(people: Sequence[ChatPerson]) -> str:
    return "; ".join(f"{each.id}: {' '.join(each.name.split())}" for each in people)


PRIVATE = 0o600
COMMON = 0o644  # minus the umask


@dataclass(frozen=True, kw_only=True, slots=True)
class NewFile:
    """A file to write. It has the permissions `mode` from its creation."""

    path: Path
    text: str
    mode: int = COMMON


def is_there(path: Path) -> bool:
    """Return whether the name is taken, even by a broken link."""
    return os.path.lexists(path)


def write_all(files: Sequence[NewFile]) -> None:
    """Write all files or none. Raises `InitFailed`. Existing files are never changed."""
    written: list[Path] = []
    try:
        for file in files:
            _write(file)
            written.append(file.path)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise


def _write(file: NewFile) -> None:
    beside = file.path.with_name(f".{file.path.name}.{secrets.token_hex(8)}")
    try:
        try:
            _create(beside, file)
            _name(beside, file)
        finally:
            beside.unlink(missing_ok=True)
    except FileExistsError:
        text = f"{file.path} was created by something else in the meantime: it was not changed, and nothing was written."
        raise InitFailed(text) from None
    except OSError as error:
        raise InitFailed(f"{file.path} cannot be written: {error.strerror}.") from None


def _create(path: Path, file: NewFile) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, file.mode), "w", encoding="utf-8", newline="\n") as opened:
        opened.write(file.text)
        opened.flush()
        os.fsync(opened.fileno())


def _name(beside: Path, file: NewFile) -> None:
    """Give a complete file its name unless the name is taken.

    A rename would replace an existing file.
    """
    try:
        os.link(beside, file.path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links, such as on a memory stick
        _copy(file)


def _copy(file: NewFile) -> None:
    """Write under the final name, which is created first. An incomplete file is removed."""
    try:
        _create(file.path, file)
    except FileExistsError:
        raise
    except BaseException:
        with suppress(OSError):
            file.path.unlink()
        raise
