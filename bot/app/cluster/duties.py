"""The posts there are under a configuration: what its processes share out among themselves."""

from bot.config.config import Config

QUEUE = "queue"
"""The post of the process that schedules."""


def posts_of(config: Config) -> tuple[str, ...]:
    """Return the posts there are: the queue's, and that of every chat that is configured."""
    return (QUEUE, *config.chats.posts())
