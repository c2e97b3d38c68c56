"""A bot's account on Discord, asked for while it is set up; needs its token and nothing else."""

import discord

from bot.core.account import ChatAccount, ChatPerson
from bot.core.errors import ChatRefused
from bot.platforms.discord.errors import chat_errors

SCOPES = ("bot", "applications.commands")
PERMISSIONS = discord.Permissions(
    view_channel=True,
    send_messages=True,
    send_messages_in_threads=True,
    attach_files=True,
    read_message_history=True,
)
"""What the bot needs on a server; docs/discord.md says what for."""


async def discord_account(token: str) -> ChatAccount:
    """Return the account of a token. Raises `ChatError`."""
    async with discord.Client(intents=discord.Intents.none()) as client:
        try:
            with chat_errors():
                await client.login(token)
                about = await client.application_info()
        except discord.LoginFailure:
            raise ChatRefused(
                "Discord does not accept this token: Bot, Reset Token in the developer portal"
                " makes another"
            ) from None
    return ChatAccount(
        name=str(client.user),
        invite=discord.utils.oauth_url(about.id, permissions=PERMISSIONS, scopes=SCOPES),
        owner=_owner(about),
    )


def _owner(about: discord.AppInfo) -> ChatPerson | None:
    """Return the person who made the application; of a team, the person who owns the team."""
    person = about.team.owner if about.team is not None else about.owner
    return None if person is None else ChatPerson(id=f"discord:{person.id}", name=str(person))
