"""The settings of styles and of single chats: each one's type, bounds and default."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from bot.config.values import Section
from bot.core.chat_settings import ChatSettings
from bot.requests.loras import loras_in
from bot.requests.options import size
from bot.requests.styles import PLACE, Style

_OPTIONS = ("steps", "count", "guidance", "strength", "lora")


def _a_size(value: str) -> str:
    if size(value) is None:
        raise ValueError("must be a size such as 768x1024 or 3:2, 64 to 4096 each way")
    return value


def _loras(value: str) -> str:
    loras_in(value)
    return value


class StyleConfig(Section):
    """A named preset of prompt and options; the person's words replace `{prompt}`."""

    prompt: str = Field(default=PLACE, max_length=2000)
    negative: str | None = Field(default=None, max_length=2000)
    size: Annotated[str, AfterValidator(_a_size)] | None = None
    model: str | None = None
    steps: Annotated[int, Field(ge=1, le=200)] | None = None
    count: Annotated[int, Field(ge=1, le=4)] | None = None
    guidance: Annotated[float, Field(ge=0, le=100)] | None = None
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
    words: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = ()
    spoiler: bool = False

    def settings(self) -> ChatSettings:
        """Return the chat's settings."""
        return ChatSettings(system=self.system, words=self.words, spoiler=self.spoiler)
