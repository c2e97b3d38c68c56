"""The bot: composes queue, backends and chats. The only package that knows chats."""
