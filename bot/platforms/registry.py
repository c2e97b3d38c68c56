"""The chat platforms: one line each, and how each is made from its settings.

The library of a chat is imported only where that chat is configured: importing it
is a large part of a start.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bot.config.chats import ChatsConfig
from bot.core.command import Command
from bot.core.live_settings import LiveSettings
from bot.core.platform import ALONE, ChatLease, ChatPlatform, Notes
from bot.core.queue import ResultFiles
from bot.http.signed_links import LinkReader
from bot.people.access import Access
from bot.people.web_people import WebPeople
from bot.platforms.web.chat_log import ChatLog
from bot.platforms.web.dashboard import DashboardData
from bot.platforms.web.platform import Web
from bot.platforms.web.protocol import ModelQueue
from bot.texts.catalogue import describe
from queueing.core.ports import Clock


@dataclass(frozen=True, kw_only=True, slots=True)
class PlatformParts:
    """What platforms may need from the rest of the bot.

    `operator` makes what the operator's page shows; by the `lease` this process may speak and act.
    """

    commands: Sequence[Command]
    notes: Notes
    access: Access
    clock: Clock
    chat_log: ChatLog
    overview: Callable[[], tuple[ModelQueue, ...]] | None
    web_people: WebPeople | None = None
    originals: LinkReader | None = None
    results: ResultFiles | None = None
    operator: Callable[[], DashboardData] | None = None
    live: LiveSettings | None = None
    lease: ChatLease = ALONE


def _discord(chats: ChatsConfig, fittings: PlatformParts) -> ChatPlatform | None:
    if chats.discord is None:
        return None
    from bot.platforms.discord.platform import Discord  # noqa: PLC0415  # see above

    token = chats.discord.token.get_secret_value()
    return Discord(
        token,
        describe=describe,
        notes=fittings.notes,
        commands=fittings.commands,
        lease=fittings.lease,
    )


def _telegram(chats: ChatsConfig, fittings: PlatformParts) -> ChatPlatform | None:
    if chats.telegram is None:
        return None
    from bot.platforms.telegram.platform import Telegram  # noqa: PLC0415  # see above

    api_url = chats.telegram.api_url
    return Telegram(
        chats.telegram.token.get_secret_value(),
        base_url=f"{api_url}/bot" if api_url else None,
        base_file_url=f"{api_url}/file/bot" if api_url else None,
        admins=fittings.access.admin_ids("telegram"),
        groups=fittings.access.places_of("telegram:group-admins"),
        describe=describe,
        lease=fittings.lease,
    )


def _web(chats: ChatsConfig, fittings: PlatformParts) -> ChatPlatform | None:
    if chats.web is None:
        return None
    token = chats.web.token
    return Web(
        host=chats.web.host,
        port=chats.web.port,
        names=chats.web.all_names(),
        proxies=chats.web.proxies,
        live=fittings.live,
        token=token.get_secret_value() if token else None,
        people=fittings.web_people,
        log=fittings.chat_log,
        overview=fittings.overview,
        is_admin=fittings.access.is_admin,
        originals=fittings.originals,
        results=fittings.results,
        operator=fittings.operator() if fittings.operator is not None else None,
        clock=fittings.clock,
        lease=fittings.lease,
    )


PLATFORMS: Mapping[str, Callable[[ChatsConfig, PlatformParts], ChatPlatform | None]] = {
    "discord": _discord,
    "telegram": _telegram,
    "web": _web,
}


def import_libraries(chats: ChatsConfig) -> None:
    """Import now what the configured chats need, not when this process takes one over."""
    if chats.discord is not None:
        importlib.import_module("bot.platforms.discord.platform")
    if chats.telegram is not None:
        importlib.import_module("bot.platforms.telegram.platform")


def platforms(chats: ChatsConfig, fittings: PlatformParts) -> tuple[ChatPlatform, ...]:
    """Return the platforms that are configured, none of them connected yet."""
    made = (make(chats, fittings) for make in PLATFORMS.values())
    return tuple(platform for platform in made if platform is not None)


def platform_of(post: str, chats: ChatsConfig, fittings: PlatformParts) -> ChatPlatform:
    """Return the platform that a post's holder runs.

    Raises `ValueError` for a post that is no configured chat's.
    """
    make = PLATFORMS.get(post)
    platform = make(chats, fittings) if make is not None else None
    if platform is None:
        raise ValueError(f"no configured chat has the post {post}")
    return platform
