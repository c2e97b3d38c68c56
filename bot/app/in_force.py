"""The configuration in force: what a reload replaces while the parts that read it go on."""

from bot.config.config import Config
from bot.core.chat_settings import ChatSettings, ChatSettingsTable
from bot.requests.styles import Style


class InForce:
    """Keeps the configuration of a process, and what parts hold of it for as long as they live."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.access = config.access()
        self.styles: dict[str, Style] = {}
        self._rooms: dict[str, ChatSettings] = {}
        self.chat_settings = ChatSettingsTable(by_key=self._rooms)
        self.take(config)

    def take(self, config: Config) -> None:
        """Hold another configuration from now on; every part that asks gets its values."""
        self.config = config
        self.access.adopt(config.access())
        self.styles.clear()
        self.styles.update({name: style.style() for name, style in config.styles.items()})
        self._rooms.clear()
        self._rooms.update({name: room.settings() for name, room in config.rooms.items()})
