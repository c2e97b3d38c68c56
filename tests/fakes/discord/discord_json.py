"""The fake Discord's objects as the JSON that Discord's document describes."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tests.fakes.discord.discord_layouts import GALLERY, LAYOUT, shown_file
from tests.fakes.discord.discord_state import (
    APPLICATION_ID,
    BOT_ROLE_ID,
    EPHEMERAL,
    GUILD_ID,
    INVITED,
    Channel,
    FakeFile,
    FakeInteraction,
    FakeMessage,
    created_at,
)

Json = dict[str, Any]


def user(user_id: int, name: str, *, bot: bool = False) -> Json:
    return {
        "id": str(user_id),
        "username": name.lower(),
        "global_name": name,
        "avatar": None,
        "discriminator": "0",
        "public_flags": 0,
        "flags": 0,
        "primary_guild": None,
        "bot": bot,
    }


def member(user_id: int, name: str) -> Json:
    """Return a person of the server as REST returns it."""
    return {
        "user": user(user_id, name),
        "nick": None,
        "avatar": None,
        "banner": None,
        "roles": [],
        "joined_at": "2024-01-01T00:00:00+00:00",
        "premium_since": None,
        "communication_disabled_until": None,
        "pending": False,
        "deaf": False,
        "mute": False,
        "flags": 0,
    }


def bot_user() -> Json:
    return user(APPLICATION_ID, "Usher", bot=True)


def me() -> Json:
    return bot_user() | {"mfa_enabled": True, "locale": "en-US"}


def application(endpoint_url: str | None) -> Json:
    return {
        "id": str(APPLICATION_ID),
        "name": "Usher",
        "icon": None,
        "description": "",
        "type": None,
        "verify_key": "0" * 64,
        "flags": 0,
        "flags_new": "0",
        "redirect_uris": [],
        "interactions_endpoint_url": endpoint_url,
        "role_connections_verification_url": None,
        "owner": user(1, "Owner"),
        "approximate_guild_count": 1,
        "approximate_user_install_count": 0,
        "approximate_user_authorization_count": 0,
        "explicit_content_filter": 0,
        "team": None,
        "eligible_oauth2_scopes": [],
        "bot_public": True,
        "bot_require_code_grant": False,
    }


def command(command_id: int, body: Json) -> Json:
    permissions = body.get("default_member_permissions")
    return {
        "description": "",  # an entry of a menu has none of its own
        **body,
        "id": str(command_id),
        "default_member_permissions": None if permissions is None else str(permissions),
        "application_id": str(APPLICATION_ID),
        "version": str(command_id),
        "options": [_option(option) for option in body.get("options", [])],
    }


def _option(option: Json) -> Json:
    return {key: value for key, value in option.items() if value is not None}


def _moment(snowflake: int) -> str:
    return datetime.fromtimestamp(created_at(snowflake), UTC).isoformat()


def attachment(file: FakeFile, base_url: str) -> Json:
    url = f"{base_url}/attachments/{file.id}/{file.name}"
    return {
        "id": str(file.id),
        "filename": file.name,
        "size": len(file.data),
        "url": url,
        "proxy_url": url,
        "content_type": file.mime,
    }


def _component(body: Json, ids: Iterator[int], files: list[FakeFile], base_url: str) -> Json:
    made = body | {"id": next(ids)}
    if "components" in body:
        made["components"] = [_component(each, ids, files, base_url) for each in body["components"]]
    if body["type"] == GALLERY:
        made["items"] = [_item(each, files, base_url) for each in body["items"]]
    return made


def _item(body: Json, files: list[FakeFile], base_url: str) -> Json:
    """Return an image of a gallery, which names the file it was uploaded as."""
    file = shown_file(body, files)
    about = attachment(file, base_url)
    described = {key: about[key] for key in ("id", "url", "proxy_url", "content_type")}
    shown = {"description": body.get("description"), "spoiler": bool(body.get("spoiler"))}
    return shown | {"media": described | {"attachment_id": about["id"]}}


def message(body: FakeMessage, base_url: str) -> Json:
    layout = bool(body.flags & LAYOUT)
    ids = itertools.count(1)
    made: Json = {
        "type": 20,
        "id": str(body.id),
        "channel_id": str(body.channel_id),
        "content": "" if layout else body.content,
        "author": user(*body.author) if body.author else bot_user(),
        "mentions": [],
        "mention_roles": [],
        "mention_everyone": False,
        "attachments": [] if layout else [attachment(file, base_url) for file in body.files],
        "embeds": [],
        "timestamp": _moment(body.id),
        "edited_timestamp": _moment(body.id) if len(body.history) > 1 else None,
        "flags": body.flags,
        "components": [_component(each, ids, body.files, base_url) for each in body.components],
        "pinned": False,
        "tts": False,
    }
    if body.nonce is not None:
        made["nonce"] = body.nonce
    if body.made_by is not None:
        made["interaction_metadata"] = _metadata(body.made_by)
    return made | body.carries


def _metadata(body: FakeInteraction) -> Json:
    """Return which interaction a message answers."""
    made: Json = {
        "id": str(body.id),
        "type": body.kind,
        "user": user(body.person_id, f"person{body.person_id}"),
        "authorizing_integration_owners": {},
    }
    if body.kind == 3 and body.source is not None:
        made["interacted_message_id"] = str(body.source.id)
    if body.kind == 5:
        before = {**made, "type": 2}
        made["triggering_interaction_metadata"] = before
    return made


def callback(interaction: FakeInteraction, base_url: str) -> Json:
    """Return the answer to a first response."""
    shown = interaction.message
    told: Json = {
        "id": str(interaction.id),
        "type": interaction.kind,
        "channel_id": str(interaction.channel_id),
    }
    if shown is None:
        return {"interaction": told}
    told |= {
        "response_message_id": str(shown.id),
        "response_message_loading": shown.thinking,
        "response_message_ephemeral": bool(shown.flags & EPHEMERAL),
    }
    if interaction.response_type != 4:  # the document has a resource for messages only
        return {"interaction": told}
    resource = {"type": interaction.response_type, "message": message(shown, base_url)}
    return {"interaction": told, "resource": resource}


def channel(body: Channel) -> Json:
    """Return a channel as REST returns it."""
    if body.owner is not None:
        person = user(body.owner, f"person{body.owner}")
        return {"id": str(body.id), "type": 1, "flags": 0, "recipients": [person]}
    named: Json = {
        "id": str(body.id),
        "type": 11 if body.thread else 15 if body.forum else 0,
        "flags": 0,
        "guild_id": str(body.guild),
        "name": f"channel-{body.id}",
        "parent_id": None if body.parent is None else str(body.parent),
        "permissions": "0",
        "rate_limit_per_user": 0,
    }
    if body.forum:
        tags: Json = {"available_tags": [], "default_reaction_emoji": None}
        sorting = {"default_sort_order": None, "default_forum_layout": 0}
        named = named | tags | sorting
    if not body.thread:
        denied = {"allow": "0", "deny": str(INVITED & ~body.permissions)}
        own = [{"id": str(BOT_ROLE_ID), "type": 0} | denied]
        return named | {"position": 0, "permission_overwrites": own, "nsfw": False, "topic": None}
    return named | {
        "owner_id": "1",
        "thread_metadata": {
            "archived": body.archived,
            "archive_timestamp": _moment(body.id),
            "auto_archive_duration": 60,
            "locked": False,
        },
        "message_count": 0,
        "member_count": 1,
        "total_message_sent": 0,
        "member_ids_preview": [],
    }


def role(role_id: int, permissions: int = 0) -> Json:
    return {
        "id": str(role_id),
        "name": "@everyone" if role_id == GUILD_ID else f"role-{role_id}",
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "position": 0,
        "permissions": str(permissions),
        "managed": False,
        "mentionable": False,
        "flags": 0,
        "icon": None,
        "unicode_emoji": None,
    }


def own_member() -> Json:
    """Return the bot as a member of the server.

    Discord names it even to bots that see no members.
    """
    return {
        "user": me(),
        "nick": None,
        "roles": [str(BOT_ROLE_ID)],
        "joined_at": "2024-01-01T00:00:00+00:00",
        "deaf": False,
        "mute": False,
        "flags": 0,
    }


def bot_role() -> Json:
    """Return the role that Discord makes for the bot, with the bot's name."""
    tags = {"bot_id": str(APPLICATION_ID)}
    return role(BOT_ROLE_ID, INVITED) | {"name": "Usher", "managed": True, "tags": tags}


def guild(channels: list[Json], threads: list[Json], roles: list[Json], tier: int = 0) -> Json:
    return {
        "id": str(GUILD_ID),
        "name": "Community",
        "owner_id": "1",
        "icon": None,
        "roles": [role(GUILD_ID), bot_role(), *roles],
        "channels": channels,
        "threads": threads,
        "members": [own_member()],
        "member_count": 3,
        "emojis": [],
        "stickers": [],
        "features": [],
        "voice_states": [],
        "presences": [],
        "stage_instances": [],
        "guild_scheduled_events": [],
        "preferred_locale": "en-US",
        "afk_timeout": 0,
        "verification_level": 0,
        "default_message_notifications": 0,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw_level": 0,
        "premium_tier": tier,
        "premium_progress_bar_enabled": False,
        "system_channel_flags": 0,
        "large": False,
        "unavailable": False,
    }
