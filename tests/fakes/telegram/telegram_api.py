"""The fake Telegram's Bot API: the methods the bot uses, with Telegram's refusals.

Every request and every answer is checked against the Bot API as data; deviations are kept in
`mismatches` and fail the test at its end.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aiohttp import BodyPartReader, web
from PIL import Image
from telegram.constants import ChatAction, ReactionEmoji

from tests.fakes.telegram import telegram_json as shapes
from tests.fakes.telegram.telegram_markup import worded
from tests.fakes.telegram.telegram_state import (
    BOT_ID,
    Counters,
    FakeChat,
    FakeFile,
    FakeMessage,
    FakePress,
    Fault,
    Json,
    Limits,
    Refusal,
    units,
)
from tests.specs.telegram_spec import SpecMismatch, check_answer, check_request, parse

PHOTO_MOST, UPLOAD_MOST, DOWNLOAD_MOST = 10 * 2**20, 50 * 2**20, 20 * 2**20
QUERY_LIFE_S = 30.0  # undocumented; "some seconds"
DELETE_WITHIN_S = 48 * 3600
GENERAL_TOPIC = 1
ATTACHED = "attach://"
ASKED_FOR_ONLY = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
ACTIONS = frozenset(each.value for each in ChatAction)
EMOJI = frozenset(each.value for each in ReactionEmoji)
SENDING = frozenset(
    {
        "sendMessage",
        "sendPhoto",
        "sendDocument",
        "sendVideo",
        "sendAnimation",
        "sendAudio",
        "sendVoice",
        "sendMediaGroup",
        "editMessageText",
        "editMessageCaption",
        "editMessageMedia",
        "editMessageReplyMarkup",
    }
)


@dataclass(kw_only=True)
class Seen:
    """A request as it arrived: its parameters, typed, and the files sent along."""

    method: str
    form: dict[str, str]
    files: dict[str, FakeFile]
    values: Json = field(default_factory=dict)


@dataclass(kw_only=True)
class Api:
    """Carries out requests on the fake's state."""

    token: str
    now: Callable[[], float]
    counters: Counters
    limits: Limits | None
    on_change: Callable[[], None]
    chats: dict[int, FakeChat] = field(default_factory=dict)
    files: dict[str, FakeFile] = field(default_factory=dict)
    presses: dict[str, FakePress] = field(default_factory=dict)
    updates: list[Json] = field(default_factory=list)
    menus: dict[tuple[str, str], list[Json]] = field(default_factory=dict)
    webhook: str = ""
    requests: list[Seen] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    answers_429: int = 0
    allowed: frozenset[str] = frozenset()  # kinds of updates asked for last; empty: the usual ones
    polls: int = 0
    called_from: Callable[[str, str], None] = lambda _address, _method: None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    # ------------------------------------------------------------ requests

    async def handle(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        if request.match_info["token"] != self.token:
            return _answer(401, {"ok": False, "error_code": 401, "description": "Unauthorized"})
        self.called_from(request.remote or "", method)
        seen = await _read(request, method, self.counters)
        self.requests.append(seen)
        fault = next((each for each in self.faults if each.method == method and each.times), None)
        if fault is not None:
            return await self._fail(fault, seen, request)
        return await self._act(seen)

    async def _fail(self, fault: Fault, seen: Seen, request: web.Request) -> web.Response:
        fault.times -= 1
        if fault.acting:
            await self._act(seen)
        if fault.hang_s:
            await asyncio.sleep(fault.hang_s)
        if fault.until is not None:
            await fault.until.wait()
            return await self._act(seen)
        if fault.drop and request.transport is not None:
            request.transport.close()
        if fault.page is not None:
            return web.Response(status=fault.status, text=fault.page, content_type="text/html")
        return self._refuse(Refusal(fault.text, status=fault.status, parameters=fault.parameters))

    async def _act(self, seen: Seen) -> web.Response:
        try:
            check_request(seen.method, seen.form, seen.files)
            seen.values = parse(seen.method, seen.form)
        except SpecMismatch as mismatch:
            self.mismatches.append(str(mismatch))
            return self._refuse(Refusal(f"Bad Request: {mismatch}"))
        try:
            result = await self._do(seen)
        except Refusal as refusal:
            return self._refuse(refusal)
        try:
            check_answer(seen.method, result)
        except SpecMismatch as mismatch:
            self.mismatches.append(str(mismatch))
        self.on_change()
        return _answer(200, {"ok": True, "result": result})

    def _refuse(self, refusal: Refusal) -> web.Response:
        if refusal.status == 429:
            self.answers_429 += 1
        body: Json = {"ok": False, "error_code": refusal.status, "description": str(refusal)}
        if refusal.parameters:
            body["parameters"] = refusal.parameters
        self.on_change()
        return _answer(refusal.status, body)

    async def _do(self, seen: Seen) -> Any:
        if seen.method == "getUpdates":
            return await self._get_updates(seen.values)
        handlers: dict[str, Callable[[Seen], Any]] = {
            "getMe": lambda _: shapes.me(),
            "getWebhookInfo": self._webhook_info,
            "deleteWebhook": self._delete_webhook,
            "setMyCommands": self._set_my_commands,
            "sendMessage": self._send_message,
            "sendPhoto": self._send_photo,
            "sendDocument": self._send_document,
            "sendVideo": partial(self._send_video, "video"),
            "sendAnimation": partial(self._send_video, "animation"),
            "sendAudio": partial(self._send_video, "audio"),
            "sendVoice": partial(self._send_video, "voice"),
            "sendMediaGroup": self._send_media_group,
            "sendMessageDraft": self._send_draft,
            "sendChatAction": self._send_action,
            "setMessageReaction": self._react,
            "editMessageText": self._edit_text,
            "editMessageCaption": self._edit_caption,
            "editMessageMedia": self._edit_media,
            "editMessageReplyMarkup": self._edit_markup,
            "deleteMessage": self._delete,
            "answerCallbackQuery": self._answer_press,
            "getFile": self._get_file,
            "getChatAdministrators": self._get_admins,
            "getChatMember": self._get_member,
            "getChat": self._get_chat,
        }
        if seen.method not in handlers:
            raise Refusal(f"Not Found: the fake has no {seen.method}", status=404)
        if seen.method in SENDING and self.limits is not None:
            self.limits.check(int(seen.values["chat_id"]), self.now())
        return handlers[seen.method](seen)

    # ------------------------------------------------------------ updates

    def add_update(self, kind: str, what: Json) -> None:
        """Let an update reach the bot, at its next request for updates."""
        update = {"update_id": next(self.counters.updates), kind: what}
        try:
            check_answer("getUpdates", [update])
        except SpecMismatch as mismatch:
            self.mismatches.append(str(mismatch))
        self.updates.append(update)
        self._wake()

    def _wake(self) -> None:
        self._arrived.set()
        self._arrived = asyncio.Event()

    async def _get_updates(self, values: Json) -> list[Json]:
        if self.webhook:
            raise Refusal(
                "Conflict: can't use getUpdates method while webhook is active", status=409
            )
        offset = values.get("offset")
        if offset is not None:
            self.updates = [each for each in self.updates if each["update_id"] >= offset]
        self.polls += 1
        mine = self.polls
        self._wake()  # an older request that still waits is refused
        self.on_change()
        try:
            async with asyncio.timeout(min(values.get("timeout", 0), 50)):
                while not self._wanted(values) and mine == self.polls:
                    await self._arrived.wait()
        except TimeoutError:
            pass
        if mine != self.polls:
            raise Refusal("Conflict: terminated by other getUpdates request", status=409)
        return self._wanted(values)[: values.get("limit", 100)]

    def _wanted(self, values: Json) -> list[Json]:
        """Return the updates of the kinds asked for: now, at an earlier request, or by default."""
        if "allowed_updates" in values:
            self.allowed = frozenset(values["allowed_updates"])
        kinds = ({*each} - {"update_id"} for each in self.updates)
        return [
            update
            for update, kind in zip(self.updates, kinds, strict=True)
            if (kind <= self.allowed if self.allowed else not kind & ASKED_FOR_ONLY)
        ]

    # ------------------------------------------------------------ start

    def _webhook_info(self, _seen: Seen) -> Json:
        return {
            "url": self.webhook,
            "has_custom_certificate": False,
            "pending_update_count": len(self.updates),
        }

    def _delete_webhook(self, seen: Seen) -> bool:
        self.webhook = ""
        if seen.values.get("drop_pending_updates"):
            self.updates.clear()
        return True

    def _set_my_commands(self, seen: Seen) -> bool:
        scope = seen.values.get("scope", {"type": "default"})
        if scope["type"] == "chat":
            self.chat(int(scope["chat_id"]))
        key = (str(scope.get("chat_id", scope["type"])), seen.values.get("language_code", ""))
        self.menus[key] = seen.values["commands"]
        return True

    def _get_admins(self, seen: Seen) -> list[Json]:
        return [
            {"status": "creator", "user": shapes.user(each, "Admin", None), "is_anonymous": False}
            for each in self.chat(int(seen.values["chat_id"])).admins
        ]

    def _get_member(self, seen: Seen) -> Json:
        chat, person = self.chat(int(seen.values["chat_id"])), int(seen.values["user_id"])
        about = shapes.user(person, f"Person{person}", None)
        if person in chat.admins:
            return {"status": "creator", "user": about, "is_anonymous": False}
        if person == BOT_ID:
            return shapes.own_membership(chat)
        wrote = any(each.sender == person for each in chat.messages)
        return {"status": "member" if wrote and person not in chat.left else "left", "user": about}

    def _get_chat(self, seen: Seen) -> Json:
        chat = self.chat(int(seen.values["chat_id"]))
        gifts = dict.fromkeys(shapes.GIFTS, False)
        about = {"accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": gifts}
        permissions = {"can_send_messages": chat.muted != "everyone"}
        return shapes.chat(chat) | about | {"permissions": permissions}

    # ------------------------------------------------------------ sending

    def chat(self, chat_id: int) -> FakeChat:
        chat = self.chats.get(chat_id)
        if chat is None:
            raise Refusal("Bad Request: chat not found")
        if chat.refusal is not None:
            status, text, parameters = chat.refusal
            raise Refusal(text, status=status, parameters=parameters)
        return chat

    def _send_message(self, seen: Seen) -> Json:
        return self._send(seen, *worded(seen.values))

    def _send_photo(self, seen: Seen) -> Json:
        return self._send_file(seen, _as_photo(self._uploaded(seen, "photo")))

    def _send_document(self, seen: Seen) -> Json:
        return self._send_file(seen, _as_document(self._uploaded(seen, "document")))

    def _send_video(self, kind: str, seen: Seen) -> Json:
        return self._send_file(
            seen, self._as_video(seen, self._uploaded(seen, kind), kind, seen.values)
        )

    def _as_video(self, seen: Seen, file: FakeFile, kind: str, said: Json) -> FakeFile:
        file.photo, file.video = False, kind
        sound = kind in {"audio", "voice"}
        known = ("duration",) if sound else ("duration", "width", "height")
        file.about = {name: int(said[name]) for name in known if name in said}
        if "title" in said:
            file.about["title"] = said["title"]
        if "thumbnail" in said:
            still = self._uploaded(seen, str(said["thumbnail"]).removeprefix(ATTACHED))
            file.about["still"] = still.dimensions
        return file

    def _send_file(self, seen: Seen, file: FakeFile) -> Json:
        return self._send(seen, *worded(seen.values), file)

    def _send(
        self, seen: Seen, text: str, entities: list[Json] | None, file: FakeFile | None = None
    ) -> Json:
        message = self._new(seen.values, file)
        self._change(message, text, entities, seen.values.get("reply_markup"))
        self.chats[message.chat_id].messages.append(message)
        return self.shape(message)

    def _send_media_group(self, seen: Seen) -> list[Json]:
        items = seen.values["media"]
        if len({each["type"] == "document" for each in items}) > 1:
            raise Refusal("Bad Request: DOCUMENT_TYPE_MIXED")
        album = self.counters.name("album")
        made = []
        for item in items:
            message = self._new(seen.values, self._file_of(seen, item))
            self._change(message, *worded(item), None)
            message.album = album
            message.spoiler = item.get("has_spoiler", False)
            made.append(message)
        self.chats[made[0].chat_id].messages += made
        return [self.shape(each) for each in made]

    def _new(self, values: Json, file: FakeFile | None = None) -> FakeMessage:
        chat = self.chat(int(values["chat_id"]))
        if chat.muted:
            raise Refusal("Bad Request: not enough rights to send text messages to the chat")
        thread = values.get("message_thread_id")
        if thread is not None and (not chat.forum or thread == GENERAL_TOPIC):
            raise Refusal("Bad Request: message thread not found")
        reply = values.get("reply_parameters", {})
        reply_to = reply.get("message_id")
        if reply_to is not None and chat.find(reply_to) is None:
            if not reply.get("allow_sending_without_reply"):
                raise Refusal("Bad Request: message to be replied not found")
            reply_to = None
        return FakeMessage(
            id=next(self.counters.messages),
            chat_id=chat.id,
            sender=BOT_ID,
            date=int(self.now()),
            thread=thread,
            reply_to=reply_to,
            file=file,
            spoiler=values.get("has_spoiler", False),
            preview=not values.get("link_preview_options", {}).get("is_disabled", False),
        )

    def _send_draft(self, seen: Seen) -> bool:
        chat = self.chat(seen.values["chat_id"])
        if chat.kind != "private":
            raise Refusal("Bad Request: TEXTDRAFT_PEER_INVALID")
        text, entities = worded(seen.values)
        if not seen.values["draft_id"]:
            raise Refusal("Bad Request: draft_id must be non-zero")
        if units(text) > 4096:
            raise Refusal("Bad Request: message is too long")
        self._check_entities(text, entities or [])
        chat.drafts.setdefault(seen.values["draft_id"], []).append(text)
        return True

    def _send_action(self, seen: Seen) -> bool:
        if seen.values["action"] not in ACTIONS:
            raise Refusal("Bad Request: wrong parameter action in request")
        chat = self.chat(int(seen.values["chat_id"]))
        if seen.values.get("message_thread_id") is not None and not chat.forum:
            raise Refusal("Bad Request: message thread not found")
        chat.actions.append(seen.values["action"])
        return True

    def _react(self, seen: Seen) -> bool:
        chat = self.chat(int(seen.values["chat_id"]))
        message = chat.find(seen.values["message_id"])
        if message is None:
            raise Refusal("Bad Request: message to react not found")
        reactions = [each.get("emoji", "") for each in seen.values.get("reaction", [])]
        allowed = EMOJI if chat.reactions is None else EMOJI & chat.reactions
        if not allowed.issuperset(reactions):
            raise Refusal("Bad Request: REACTION_INVALID")
        if len(reactions) > 1:
            raise Refusal("Bad Request: REACTIONS_TOO_MANY")
        message.reaction = "".join(reactions)
        return True

    # ------------------------------------------------------------ files

    def _uploaded(self, seen: Seen, name: str) -> FakeFile:
        """Return the file of a field, or the one that the field says is attached."""
        told = str(seen.values.get(name, ""))
        name = told.removeprefix(ATTACHED) if told.startswith(ATTACHED) else name
        if name not in seen.files:
            raise Refusal("Bad Request: there is no file in the request")
        return self._keep(seen.files[name])

    def _file_of(self, seen: Seen, media: Json) -> FakeFile:
        file = self._uploaded(seen, media["media"].removeprefix(ATTACHED))
        if media["type"] in {"video", "animation", "audio"}:
            return self._as_video(seen, file, media["type"], media)
        return _as_photo(file) if media["type"] == "photo" else _as_document(file)

    def _keep(self, file: FakeFile) -> FakeFile:
        if len(file.data) > UPLOAD_MOST:
            raise Refusal("Request Entity Too Large", status=413)
        self.files[file.id] = file
        return file

    def _get_file(self, seen: Seen) -> Json:
        file = self.files.get(seen.values["file_id"])
        if file is None:
            raise Refusal("Bad Request: wrong file_id or the file is temporarily unavailable")
        if (file.size or 0) > DOWNLOAD_MOST:
            raise Refusal("Bad Request: file is too big")
        return {
            "file_id": file.id,
            "file_unique_id": f"u{file.id}",
            "file_size": file.size,
            "file_path": f"files/{file.id}",
        }

    # ------------------------------------------------------------ edits

    def _mine(self, values: Json) -> FakeMessage:
        message = self.chat(int(values["chat_id"])).find(values["message_id"])
        if message is None:
            raise Refusal("Bad Request: message to edit not found")
        if message.sender != BOT_ID:
            raise Refusal("Bad Request: message can't be edited")
        return message

    def _edit_text(self, seen: Seen) -> Json:
        message = self._mine(seen.values)
        if message.file is not None:
            raise Refusal("Bad Request: there is no text in the message to edit")
        return self._edit(message, seen, *worded(seen.values))

    def _edit_caption(self, seen: Seen) -> Json:
        message = self._mine(seen.values)
        if message.file is None:
            raise Refusal("Bad Request: there is no caption in the message to edit")
        return self._edit(message, seen, *worded(seen.values))

    def _edit_media(self, seen: Seen) -> Json:
        message, media = self._mine(seen.values), seen.values["media"]
        if message.album is not None:
            raise Refusal("Bad Request: message can't be edited")
        file = self._file_of(seen, media)
        self._change(message, *worded(media), seen.values.get("reply_markup"), file=file)
        message.file = file
        message.spoiler = media.get("has_spoiler", False)
        message.edits += 1
        return self.shape(message)

    def _edit_markup(self, seen: Seen) -> Json:
        message = self._mine(seen.values)
        return self._edit(message, seen, message.text, message.entities)

    def _edit(
        self, message: FakeMessage, seen: Seen, text: str, entities: list[Json] | None
    ) -> Json:
        before = (message.text, message.entities, message.keyboard)
        self._change(message, text, entities, seen.values.get("reply_markup"), file=message.file)
        if before == (message.text, message.entities, message.keyboard):
            raise Refusal(
                "Bad Request: message is not modified: specified new message content and reply"
                " markup are exactly the same as a current content and reply markup of the message"
            )
        message.edits += 1
        return self.shape(message)

    def _change(
        self,
        message: FakeMessage,
        text: str,
        entities: list[Json] | None,
        markup: Json | None,
        *,
        file: FakeFile | None = None,
    ) -> None:
        """Make a message show a text with buttons, or refuse it as Telegram does."""
        has_file = file is not None or message.file is not None
        if not text.strip() and not has_file:
            raise Refusal("Bad Request: message text is empty")
        if units(text) > (1024 if has_file else 4096):
            raise Refusal(f"Bad Request: message {'caption ' if has_file else ''}is too long")
        self._check_entities(text, entities or [])
        message.awaits = (markup or {}).get("force_reply", False)
        message.text, message.entities = text, (entities or [])[:100]
        message.keyboard = (markup or {}).get("inline_keyboard", [])
        if not message.history or message.history[-1] != message.shown:
            message.history.append(message.shown)

    def _check_entities(self, text: str, entities: list[Json]) -> None:
        raw = text.encode("utf-16-le")
        for each in entities:
            start, end = each["offset"], each["offset"] + each["length"]
            if not 0 <= start < end <= len(raw) // 2:
                raise Refusal("Bad Request: can't parse entities: out of the text's bounds")
            try:
                raw[start * 2 : end * 2].decode("utf-16-le")
            except UnicodeDecodeError:
                self.mismatches.append(f"an entity splits a character: {each}")
        for one in entities:
            for other in entities:
                if one["offset"] < other["offset"] < one["offset"] + one["length"]:
                    self._check_nested(one, other)

    def _check_nested(self, outer: Json, inner: Json) -> None:
        crossing = inner["offset"] + inner["length"] > outer["offset"] + outer["length"]
        if crossing or outer["type"] in {"code", "pre"} or inner["type"] in {"code", "pre"}:
            self.mismatches.append(f"entities must not overlap so: {outer} {inner}")

    def _delete(self, seen: Seen) -> bool:
        chat = self.chat(int(seen.values["chat_id"]))
        message = chat.find(seen.values["message_id"])
        if message is None:
            raise Refusal("Bad Request: message to delete not found")
        if self.now() - message.date > DELETE_WITHIN_S:
            raise Refusal("Bad Request: message can't be deleted for everyone")
        chat.messages.remove(message)
        return True

    # ------------------------------------------------------------ buttons

    def _answer_press(self, seen: Seen) -> bool:
        press = self.presses.get(seen.values["callback_query_id"])
        late = press is not None and self.now() - press.at > QUERY_LIFE_S
        if press is None or late or press.answered:
            raise Refusal(
                "Bad Request: query is too old and response timeout expired or query ID is invalid"
            )
        press.answered = True
        press.alert = seen.values.get("text")
        return True

    def shape(self, message: FakeMessage) -> Json:
        """Return a message of the bot as the API returns it."""
        return shapes.message(message, self.chats[message.chat_id], _author())


def _author() -> Json:
    return {key: shapes.me()[key] for key in ("id", "is_bot", "first_name", "username")}


def _as_photo(file: FakeFile) -> FakeFile:
    if len(file.data) > PHOTO_MOST:
        raise Refusal("Bad Request: file is too big")
    file.photo, file.video = True, ""
    try:
        width, height = file.dimensions
    except (OSError, Image.DecompressionBombError):
        raise Refusal("Bad Request: IMAGE_PROCESS_FAILED") from None
    if width + height > 10_000 or max(width, height) > 20 * min(width, height):
        raise Refusal("Bad Request: PHOTO_INVALID_DIMENSIONS")
    return file


def _as_document(file: FakeFile) -> FakeFile:
    file.photo, file.video = False, ""
    return file


def _answer(status: int, body: Json) -> web.Response:
    return web.Response(status=status, text=json.dumps(body), content_type="application/json")


async def _read(request: web.Request, method: str, counters: Counters) -> Seen:
    form: dict[str, str] = {}
    files: dict[str, FakeFile] = {}
    if request.content_type == "multipart/form-data":
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader) or part.name is None:
                continue
            data = bytes(await part.read(decode=False))
            if part.filename is None:
                form[part.name] = data.decode()
            else:
                mime = part.headers.get("Content-Type", "application/octet-stream")
                files[part.name] = FakeFile(
                    id=counters.name("file"), name=part.filename, data=data, mime=mime
                )
    elif request.content_type == "application/json":
        given = await request.json() if request.can_read_body else {}
        form = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in given.items()
            if value is not None
        }
    elif request.can_read_body:
        form = {name: str(value) for name, value in (await request.post()).items()}
    return Seen(method=method, form=form, files=files)
