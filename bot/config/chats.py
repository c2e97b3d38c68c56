"""The settings of chats, rooms and styles: their types, bounds and defaults."""

from typing import Annotated, Any, ClassVar, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidationInfo,
    field_validator,
)

from bot.config.reading.forms import BaseUrl, BotApiUrl, HostName, OwnHost, Word
from bot.config.reading.tokens import DiscordToken, Secret, TelegramToken, long_enough, whole
from bot.config.reading.values import (
    ChatId,
    Network,
    Section,
)
from bot.core.live_settings import ChatSettings
from bot.http.addresses import opened_by
from bot.people.names import IdForm, NameForms
from bot.requests.options import PLACE, Style, loras_in, size
from queueing.core.requests import CHOICE_MOST

DISCORD_URL = "https://discord.com"
TELEGRAM_URL = "https://api.telegram.org"


class ChatConfig(Section):
    """A chat's settings. Any setting named `allow` or `allow_roles` is enforced.

    `naming` defines how the chat names people, and the rights it reports with a call.
    """

    naming: ClassVar[NameForms]


class DiscordConfig(ChatConfig):
    """The Discord bot. `allow` lists the places and people it listens to; empty for all.

    With `allow_roles`, only people with one of these rights may use it. With `user_install`, people
    may install it for themselves and call it anywhere.
    """

    naming = NameForms(
        person=IdForm(pattern=r"discord:[1-9][0-9]{0,19}", example="discord:80351110224678912"),
        rights=(
            IdForm(
                pattern=r"discord-role:[1-9][0-9]{0,19}", example="discord-role:165511591545143296"
            ),
            IdForm(
                pattern=r"discord:(administrator|manage-guild|kick-members|ban-members"
                r"|moderate-members)@[1-9][0-9]{0,19}",
                example="discord:manage-guild@41771983423143937",
            ),
        ),
        place=IdForm(pattern=r"discord:[1-9][0-9]{0,19}", example="discord:165511591545143296"),
    )

    token: DiscordToken
    allow: tuple[ChatId, ...] = ()
    allow_roles: tuple[str, ...] = ()
    user_install: bool = False


class TelegramConfig(ChatConfig):
    """The Telegram bot. `api_url` names a self-hosted Bot API server.

    `allow` lists the groups and people it listens to; empty for all. With `allow_roles`, only
    people with one of these rights may use it.
    """

    naming = NameForms(
        person=IdForm(pattern=r"telegram:[1-9][0-9]{0,15}", example="telegram:42"),
        rights=(
            IdForm(
                pattern=r"telegram:group-admins@-[1-9][0-9]{0,19}",
                example="telegram:group-admins@-1001234567890",
            ),
        ),
        members=IdForm(
            pattern=r"telegram:group-members@-[1-9][0-9]{0,19}",
            example="telegram:group-members@-1001234567890",
        ),
        shared=IdForm(
            pattern=r"telegram:anonymous-?[1-9][0-9]{0,19}", example="telegram:anonymous-1001"
        ),
        place=IdForm(
            pattern=r"telegram:-?[1-9][0-9]{0,19}(/[1-9][0-9]{0,19})?", example="telegram:-100123"
        ),
    )

    api_url: BotApiUrl | None = None
    token: TelegramToken
    allow: tuple[ChatId, ...] = ()
    allow_roles: tuple[str, ...] = ()

    @field_validator("token")
    @classmethod
    def _whole(cls, token: SecretStr, info: ValidationInfo) -> SecretStr:
        return whole(token) if info.data.get("api_url", "") is None else token


_OF_PAGE = IdForm(pattern=r"web:[a-z0-9][a-z0-9-]{0,63}", example="web:local")
"""A person of the page, who has one chat of the same name."""


class WebConfig(ChatConfig):
    """The web chat. It needs a token if other machines can reach it.

    `url` is the address people reach it by. `names` are further host names, such as a proxy's.
    `proxies` are the proxies in front of it that are trusted to name the client.
    """

    naming = NameForms(person=_OF_PAGE, place=_OF_PAGE)

    host: OwnHost = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    url: BaseUrl | None = None
    names: tuple[HostName, ...] = ()
    proxies: tuple[Network, ...] = ()
    token: Annotated[Secret, AfterValidator(long_enough)] = None

    def all_names(self) -> tuple[str, ...]:
        """Return every host name it is reached by."""
        own = urlsplit(self.url).hostname if self.url else None
        return (*self.names, own) if own else self.names

    def path(self) -> str:
        """Return the path below which a proxy serves it, such as "/usher", or ""."""
        return urlsplit(self.url or "").path

    def opened_by(self) -> str | None:
        """Return the setting that lets other machines reach it; None if none does."""
        return opened_by(self.host, url=self.url, names=self.names, proxies=self.proxies)

    def page(self) -> str:
        """Return the page's address, as far as it is known."""
        if self.url:
            return f"{self.url}/"
        host = self.names[0] if self.names else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"


class ChatsConfig(Section):
    """The chats the bot takes part in; those left out are off.

    To add a chat, add a field here. Its `allow`, secrets, people and rooms are then handled too.
    """

    discord: DiscordConfig | None = None
    telegram: TelegramConfig | None = None
    web: WebConfig | None = None

    def any(self) -> bool:
        """Return whether any chat is configured."""
        return any(chat is not None for _, chat in self)

    def roles(self) -> tuple[str, ...]:
        """Return the lease names of all configured chats. A chat's lease has the chat's name."""
        return tuple(name for name, chat in self if chat is not None)

    def given(self, setting: str) -> dict[str, tuple[str, ...]]:
        """Return the values of a setting, from every configured chat that has it."""
        found = ((name, getattr(chat, setting, ())) for name, chat in self if chat is not None)
        return {name: value for name, value in found if value}

    @classmethod
    def naming(cls) -> dict[str, NameForms]:
        """Return how each platform names people, whether it is configured or not."""
        kinds = ((name, get_args(field.annotation)) for name, field in cls.model_fields.items())
        return {
            name: next(kind.naming for kind in kind_or_none if issubclass(kind, ChatConfig))
            for name, kind_or_none in kinds
        }


_OPTIONS = ("steps", "count", "guidance", "sampler", "scheduler", "strength", "lora")


def _a_size(value: str) -> str:
    if size(value) is None:
        raise ValueError("must be a size such as 768x1024 or 3:2, 64 to 4096 each way")
    return value


def _loras(value: str) -> str:
    loras_in(value)
    return value


class StyleConfig(Section):
    """A named preset of prompt and options. The person's prompt replaces `{prompt}`."""

    prompt: str = Field(default=PLACE, max_length=2000)
    negative: str | None = Field(default=None, max_length=2000)
    size: Annotated[str, AfterValidator(_a_size)] | None = None
    model: str | None = None
    steps: Annotated[int, Field(ge=1, le=200)] | None = None
    count: Annotated[int, Field(ge=1, le=4)] | None = None
    guidance: Annotated[float, Field(ge=0, le=100)] | None = None
    sampler: Annotated[str, Field(min_length=1, max_length=CHOICE_MOST)] | None = None
    scheduler: Annotated[str, Field(min_length=1, max_length=CHOICE_MOST)] | None = None
    strength: Annotated[float, Field(ge=0, le=1)] | None = None
    lora: Annotated[str, AfterValidator(_loras)] | None = None

    def style(self) -> Style:
        """Return the style."""
        given: dict[str, Any] = self.model_dump(include=set(_OPTIONS), exclude_none=True)
        if self.lora:
            given["lora"] = loras_in(self.lora)
        return Style(
            prompt=self.prompt,
            negative=self.negative,
            size=self.size,
            model=self.model,
            options=given,
        )


class RoomConfig(Section):
    """The settings of a chat."""

    system: str = Field(default="", max_length=8000)
    words: tuple[Word, ...] = ()
    spoiler: bool = False

    def settings(self) -> ChatSettings:
        """Return the chat's settings."""
        return ChatSettings(system=self.system, words=self.words, spoiler=self.spoiler)
