"""What `usher check` says of several processes on one database: who does what, and whether this fits."""

from collections.abc import Iterator
from ipaddress import ip_address

from bot.app.cluster.agreement import Agreement, version_of
from bot.app.cluster.duties import QUEUE, posts_of
from bot.app.cluster.post_list import listed
from bot.app.joining import require_place
from bot.cli.findings import Finding, told
from bot.config.config import Config
from bot.config.loader import ConfigError
from bot.http.addresses import host_and_port
from queueing.core.clock import is_off, off_in_words
from queueing.core.leases import Introduction, ServerLook


def findings(config: Config, look: ServerLook) -> Iterator[Finding]:
    """Yield a row for each post, and one for a configuration that does not fit the others."""
    if is_off(look.off_s):
        text = f"{off_in_words(look.off_s)}; this process would take no post"
        yield Finding(what="clock", name="this machine", works=False, text=text)
    else:
        text = f"{abs(look.off_s):.1f} s from the database server's"
        yield Finding(what="clock", name="this machine", works=True, text=text)
    told_by = {each.post.name: each for each in look.held}
    for post in listed(posts_of(config), (each.post for each in look.held)):
        holder = told_by[post.name] if post.holder else None
        if holder is None:
            yield _free(post.name, idle=not look.held)
            continue
        yield Finding(what="post", name=post.name, works=True, text=_described(holder))
        if _is_public(post.address):
            text = f"What processes tell each other at {post.address} is not encrypted, and"
            yield told("", "", f"{text} that is a public address: use a private network.")
    try:
        require_place(config, Agreement(config, ""), look)
    except ConfigError as error:
        yield Finding(what="processes", name="configuration", works=False, text=str(error))
    else:
        if look.held:
            yield Finding(
                what="processes", name="configuration", works=True, text="the same as the others'"
            )


def _free(name: str, *, idle: bool) -> Finding:
    """Return the row of a post that no process holds; `idle`: because none runs."""
    if idle or name != QUEUE:
        return told("post", name, "free")
    text = "free, though processes run: nothing is accepted until one of them may take it (--posts)"
    return Finding(what="post", name=name, works=False, text=text)


def _described(holder: Introduction) -> str:
    version = version_of(holder.about)
    by = f"{holder.post.holder} (usher {version})" if version else holder.post.holder
    at = f", listens at {holder.post.address}" if holder.post.address else ""
    return f"held by {by}, {holder.post.left_s:.0f} s of its lease left{at}"


def _is_public(address: str) -> bool:
    """Return whether an address can be reached from the internet; of a name no one knows."""
    try:
        host, _ = host_and_port(address)
        return ip_address(host).is_global
    except ValueError:
        return False
