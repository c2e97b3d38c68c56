"""Each field of a message in the services' own documents is used, named or listed as harmless.

If a service adds a field, these tests fail until it is decided what becomes of it.
"""

from typing import TYPE_CHECKING, Any

from bot.core.attachments import AttachmentKind
from bot.platforms.telegram import attachments as on_telegram
from bot.platforms.telegram.updates import ALLOWED_UPDATES
from tests.bot.platforms.discord.discord_bot import RecordingHandler
from tests.bot.platforms.discord.discord_bot import running as discord_running
from tests.bot.platforms.telegram.telegram_bot import running as telegram_running
from tests.fakes.discord.discord import FakeDiscord
from tests.fakes.discord.discord_json import message as message_shape
from tests.fakes.telegram.telegram import FakeTelegram
from tests.specs import discord_spec, telegram_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

# ---------------------------------------------------------------- Telegram

WORDS = {"text", "caption", "photo", "quote"}  # read as they are, or a kind of its own
ABOUT = [
    "message_id", "message_thread_id", "direct_messages_topic", "from", "sender_chat",
    "sender_boost_count", "sender_business_bot", "sender_tag", "date", "guest_query_id",
    "business_connection_id", "chat", "forward_origin", "is_topic_message",
    "is_automatic_forward", "reply_to_message", "external_reply", "reply_to_story",
    "reply_to_checklist_task_id", "reply_to_poll_option_id", "via_bot", "guest_bot_caller_user",
    "guest_bot_caller_chat", "edit_date", "has_protected_content", "is_from_offline",
    "is_paid_post", "media_group_id", "author_signature", "paid_star_count", "entities",
    "link_preview_options", "suggested_post_info", "effect_id", "caption_entities",
    "show_caption_above_media", "has_media_spoiler", "reply_markup", "origin",
]  # fmt: skip
"""Whose message it is, where, and how it is shown."""
HAPPENED = [
    "new_chat_members", "left_chat_member", "chat_owner_left", "chat_owner_changed",
    "new_chat_title", "new_chat_photo", "delete_chat_photo", "group_chat_created",
    "supergroup_chat_created", "channel_chat_created", "message_auto_delete_timer_changed",
    "migrate_to_chat_id", "migrate_from_chat_id", "pinned_message", "successful_payment",
    "refunded_payment", "users_shared", "chat_shared", "gift_upgrade_sent", "connected_website",
    "write_access_allowed", "passport_data", "proximity_alert_triggered", "boost_added",
    "chat_background_set", "checklist_tasks_done", "checklist_tasks_added",
    "direct_message_price_changed", "forum_topic_created", "forum_topic_edited",
    "forum_topic_closed", "forum_topic_reopened", "general_forum_topic_hidden",
    "general_forum_topic_unhidden", "giveaway_created", "giveaway_completed",
    "managed_bot_created", "paid_message_price_changed", "poll_option_added",
    "poll_option_deleted", "suggested_post_approved", "suggested_post_approval_failed",
    "suggested_post_declined", "suggested_post_paid", "suggested_post_refunded",
    "video_chat_scheduled", "video_chat_started", "video_chat_ended",
    "video_chat_participants_invited", "web_app_data",
]  # fmt: skip
"""What happened in a chat, told by the service: no person says it to the bot."""
NOT_ASKED_FOR = [
    "edited_message", "channel_post", "edited_channel_post", "business_connection",
    "business_message", "edited_business_message", "deleted_business_messages", "guest_message",
    "message_reaction", "message_reaction_count", "inline_query", "chosen_inline_result",
    "shipping_query", "pre_checkout_query", "purchased_paid_media", "poll", "poll_answer",
    "my_chat_member", "chat_member", "chat_join_request", "chat_boost", "removed_chat_boost",
    "managed_bot",
]  # fmt: skip
"""Updates that are never delivered, because they are not in the list that is asked for."""


def fields_of(kind: str) -> set[str]:
    return {field["name"] for field in telegram_spec.document()["types"][kind]["fields"]}


def test_telegram_every_field_of_a_message_is_used_named_or_no_word_of_a_person() -> None:
    """A person who sends something of a new kind would get no answer."""
    for kind in ("Message", "ExternalReplyInfo"):
        carried = set(on_telegram._KINDS)
        assert not carried & {*ABOUT, *HAPPENED}, kind
        assert fields_of(kind) - carried - WORDS - {*ABOUT, *HAPPENED} == set(), kind
        if kind == "Message":
            assert (carried | WORDS | {*ABOUT, *HAPPENED}) - fields_of(kind) <= {"origin"}, kind


def test_telegram_every_update_is_handled_or_not_asked_for() -> None:
    """Unused kinds of updates would count towards the number delivered at once."""
    assert fields_of("Update") == {"update_id", *ALLOWED_UPDATES, *NOT_ASKED_FOR}


async def test_telegram_names_words_in_a_form_that_cannot_be_read_yet() -> None:
    """A rich message has no plain text, and would get no answer."""
    handler = RecordingHandler()
    async with FakeTelegram() as fake, telegram_running(fake, handler):
        fake.person(7).says("", carries={"rich_message": {"blocks": []}})
        call = await handler.called()
    assert (call.command, [file.kind for file in call.files]) == ("ask", [AttachmentKind.OTHER])


# ---------------------------------------------------------------- Discord

USED = {
    "content", "attachments", "stickers", "sticker_items", "poll", "activity",
    "message_snapshots", "embeds", "components",
}  # fmt: skip
SHOWN = [
    "type", "mentions", "mention_roles", "timestamp", "edited_timestamp", "flags",
    "id", "channel_id", "author", "pinned", "mention_everyone", "tts", "call",
    "application", "application_id", "interaction", "nonce", "webhook_id", "message_reference",
    "thread", "mention_channels", "role_subscription_data", "purchase_notification", "position",
    "resolved", "shared_client_theme", "interaction_metadata", "lobby_member", "reactions",
    "referenced_message",
]  # fmt: skip
"""Where it is, who wrote it, and what only programs put into messages."""


def test_discord_every_field_of_a_message_is_used_named_or_no_word_of_a_person() -> None:
    """A person who sends something of a new kind would be answered with the help."""
    schema: Mapping[str, Any] = discord_spec.document()["components"]["schemas"]["MessageResponse"]
    assert set(schema["properties"]) == USED | set(SHOWN)


async def test_discord_names_what_has_no_words() -> None:
    """An invitation to a game, or forwarded buttons, would be answered with the help."""
    handler = RecordingHandler()
    async with FakeDiscord(check_specs=False) as fake, discord_running(fake, handler):
        person = fake.person(7)
        pressed = {"type": 2, "style": 1, "label": "Go", "custom_id": "go"}
        row = {"type": 1, "components": [pressed]}
        buttons = message_shape(person.write(""), fake.url) | {"components": [row]}
        reference = {"type": 1, "message_id": "1", "channel_id": str(person.direct.id)}
        for carries in (
            {"activity": {"type": 1, "party_id": "x"}},
            {"message_snapshots": [{"message": buttons}], "message_reference": reference},
        ):
            await person.says("", in_channel=person.direct, **carries)
        await handler.called(2)
    told = [(call.command, [file.kind for file in call.files]) for call in handler.calls]
    assert told == [("ask", [AttachmentKind.OTHER])] * 2


# ---------------------------------------------------------------- all three
