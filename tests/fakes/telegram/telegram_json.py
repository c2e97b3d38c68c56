"""The fake Telegram's state in the shapes of the Bot API."""

from tests.fakes.telegram.telegram_state import (
    ANONYMOUS_ADMIN,
    BOT_ID,
    BOT_NAME,
    FakeChat,
    FakeFile,
    FakeMessage,
    Json,
)

GIFTS = (
    "unlimited_gifts",
    "limited_gifts",
    "unique_gifts",
    "premium_subscription",
    "gifts_from_channels",
)
RESTRICTED = dict.fromkeys(
    (
        "can_send_messages",
        "can_send_audios",
        "can_send_documents",
        "can_send_photos",
        "can_send_videos",
        "can_send_video_notes",
        "can_send_voice_notes",
        "can_send_polls",
        "can_send_other_messages",
        "can_add_web_page_previews",
        "can_react_to_messages",
        "can_edit_tag",
        "can_change_info",
        "can_invite_users",
        "can_pin_messages",
        "can_manage_topics",
    ),
    False,
)


def me() -> Json:
    return {
        "id": BOT_ID,
        "is_bot": True,
        "first_name": "Usher",
        "username": BOT_NAME,
        "can_join_groups": True,
        "can_read_all_group_messages": False,
        "supports_inline_queries": False,
    }


def user(person_id: int, name: str, language: str | None) -> Json:
    made: Json = {"id": person_id, "is_bot": False, "first_name": name}
    return made | ({"language_code": language} if language else {})


def chat(each: FakeChat) -> Json:
    made: Json = {"id": each.id, "type": each.kind}
    if each.kind == "private":
        return made | {"first_name": each.title}
    return made | {"title": each.title} | ({"is_forum": True} if each.forum else {})


def own_membership(each: FakeChat) -> Json:
    """Return what the bot is in a group."""
    about = {"user": {key: me()[key] for key in ("id", "is_bot", "first_name", "username")}}
    if each.muted != "bot":
        return {"status": "member"} | about
    return {"status": "restricted", "is_member": True, "until_date": 0} | about | RESTRICTED


def message(
    each: FakeMessage, within: FakeChat, author: Json, *, reply: Json | None = None
) -> Json:
    made: Json = {
        "message_id": each.id,
        "date": each.date,
        "chat": chat(within),
        "from": author,
    }
    if each.anonymous:
        made["from"] = {"id": ANONYMOUS_ADMIN, "is_bot": True, "first_name": "Group"}
        made["sender_chat"] = chat(within)
    if each.thread is not None:
        made |= {"message_thread_id": each.thread, "is_topic_message": True}
    if each.album is not None:
        made["media_group_id"] = each.album
    if each.keyboard:
        made["reply_markup"] = {"inline_keyboard": each.keyboard}
    if reply is not None:
        made["reply_to_message"] = reply
    return made | _contents(each)


def _contents(each: FakeMessage) -> Json:
    if each.carries:
        return each.carries | ({"caption": each.text} if each.text else {})
    if each.file is None:
        return {"text": each.text} | ({"entities": each.entities} if each.entities else {})
    made: Json = photo(each.file) if each.file.photo else document(each.file)
    if each.file.video:
        made = video(each.file)
    if each.text:
        made["caption"] = each.text
    if each.entities:
        made["caption_entities"] = each.entities
    if each.spoiler:
        made["has_media_spoiler"] = True
    return made


def photo(file: FakeFile) -> Json:
    """Return a photo as Telegram offers it: in several sizes, the original one among them."""
    width, height = file.dimensions
    small = {
        "file_id": f"{file.id}-small",
        "file_unique_id": f"u{file.id}-small",
        "width": max(1, width // 4),
        "height": max(1, height // 4),
        "file_size": 100,
    }
    large = {
        "file_id": file.id,
        "file_unique_id": f"u{file.id}",
        "width": width,
        "height": height,
        "file_size": file.size,
    }
    return {"photo": [small, large]}


def video(file: FakeFile) -> Json:
    """Return a video, an animation or a sound as Telegram offers it."""
    made = document(file)["document"]
    size = (
        {} if file.video in {"audio", "voice"} else {"width": 320, "height": 320}
    )  # where no one says it
    known = {
        "duration": 0,
        **size,
        **{key: file.about[key] for key in file.about if key != "still"},
    }
    if file.video == "voice":  # which has no name
        made = {key: value for key, value in made.items() if key != "file_name"}
    shown = {file.video: made | known}
    return shown | ({"document": made} if file.video == "animation" else {})


def document(file: FakeFile) -> Json:
    return {
        "document": {
            "file_id": file.id,
            "file_unique_id": f"u{file.id}",
            "file_name": file.name,
            "mime_type": file.mime,
            "file_size": file.size,
        }
    }
