"""The table of chat platforms, and how each is created from its settings.

A platform's library is imported only if that chat is configured, because the import takes a large
part of the startup time.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from backends.common.proxies import NO_PROXIES, Proxies
from bot.config.chats import ChatsConfig
from bot.core.command import Command
from bot.core.live_settings import LiveSettings
from bot.core.platform import ALONE, ChatLease, ChatPlatform, Notes
from bot.core.queue import ResultFiles
from bot.http.signed_links import LinkReader
from bot.people.access import Access
from bot.people.web_people import WebPeople
from bot.platforms.web.chat.chat_log import ChatLog
from bot.platforms.web.chat.protocol import ReadOverview
from bot.platforms.web.operator.dashboard import DashboardData
from bot.platforms.web.platform import Web
from bot.platforms.web.routes.choices import Choices
from bot.platforms.web.routes.gallery_store import GalleryStore
from bot.requests.dictation import Dictation
from bot.requests.rules import RuleTable
from bot.texts.catalogue import describe
from queueing.core.catalog import Catalog
from queueing.core.ports import Clock


@dataclass(frozen=True, kw_only=True, slots=True)
class PlatformParts:
    """The services of the bot that platforms may need.

    `operator` builds the data of the operator's page. This process may send and act only while it
    holds the `lease`.
    """

    commands: Sequence[Command]
    notes: Notes
    access: Access
    clock: Clock
    chat_log: ChatLog
    overview: ReadOverview
    web_people: WebPeople | None = None
    originals: LinkReader | None = None
    results: ResultFiles | None = None
    gallery: GalleryStore | None = None
    catalog: Callable[[], Catalog] | None = None
    operator: Callable[[], DashboardData] | None = None
    rules: RuleTable | None = None
    choices: Choices | None = None
    dictation: Dictation | None = None
    live: LiveSettings | None = None
    lease: ChatLease = ALONE
    proxies: Proxies = NO_PROXIES


def _discord(chats: ChatsConfig, parts: PlatformParts) -> ChatPlatform | None:
    if chats.discord is None:
        return None
    from bot.platforms.discord.platform import Discord  # noqa: PLC0415  # see above

    token = chats.discord.token.get_secret_value()
    return Discord(
        token,
        describe=describe,
        notes=parts.notes,
        commands=parts.commands,
        lease=parts.lease,
        proxies=parts.proxies,
        anywhere=chats.discord.user_install,
    )


def _telegram(chats: ChatsConfig, parts: PlatformParts) -> ChatPlatform | None:
    if chats.telegram is None:
        return None
    from bot.platforms.telegram.platform import Telegram  # noqa: PLC0415  # see above

    api_url = chats.telegram.api_url
    return Telegram(
        chats.telegram.token.get_secret_value(),
        base_url=f"{api_url}/bot" if api_url else None,
        base_file_url=f"{api_url}/file/bot" if api_url else None,
        admins=parts.access.admin_ids("telegram"),
        groups=partial(parts.access.places_of, "telegram:group-admins"),
        describe=describe,
        lease=parts.lease,
        proxies=parts.proxies,
    )


def _web(chats: ChatsConfig, parts: PlatformParts) -> ChatPlatform | None:
    if chats.web is None:
        return None
    token = chats.web.token
    return Web(
        host=chats.web.host,
        port=chats.web.port,
        names=chats.web.all_names(),
        path=chats.web.path(),
        proxies=chats.web.proxies,
        live=parts.live,
        token=token.get_secret_value() if token else None,
        people=parts.web_people,
        log=parts.chat_log,
        overview=parts.overview,
        is_admin=parts.access.is_admin,
        originals=parts.originals,
        results=parts.results,
        gallery=parts.gallery,
        catalog=parts.catalog,
        rules=parts.rules,
        operator=parts.operator() if parts.operator is not None else None,
        choices=parts.choices,
        dictation=parts.dictation,
        clock=parts.clock,
        lease=parts.lease,
    )


PLATFORMS: Mapping[str, Callable[[ChatsConfig, PlatformParts], ChatPlatform | None]] = {
    "discord": _discord,
    "telegram": _telegram,
    "web": _web,
}


def import_libraries(chats: ChatsConfig) -> None:
    """Import the libraries of the configured chats, so that taking over a chat is not delayed."""
    if chats.discord is not None:
        importlib.import_module("bot.platforms.discord.platform")
    if chats.telegram is not None:
        importlib.import_module("bot.platforms.telegram.platform")


def platforms(chats: ChatsConfig, parts: PlatformParts) -> tuple[ChatPlatform, ...]:
    """Return the configured platforms, not yet connected."""
    made = (make(chats, parts) for make in PLATFORMS.values())
    return tuple(platform for platform in made if platform is not None)


def platform_of(role: str, chats: ChatsConfig, parts: PlatformParts) -> ChatPlatform:
    """Return the platform that the holder of a role runs.

    Raises `ValueError` if `role` is not a configured chat.
    """
    make = PLATFORMS.get(role)
    platform = make(chats, parts) if make is not None else None
    if platform is None:
        raise ValueError(f"{role} is not a configured chat")
    return platform
