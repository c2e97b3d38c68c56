"""The fake Discord's REST API: the routes the bot uses, with Discord's refusals.

Every request and every answer is checked against Discord's own document; deviations are kept in
`mismatches` and fail the test at its end.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import BodyPartReader, web

from tests.fakes.clock import kept_waiting_s
from tests.fakes.discord import discord_json as shapes
from tests.fakes.discord.discord_json import Json
from tests.fakes.discord.discord_layouts import LAYOUT, becomes_layout, check_layout, words
from tests.fakes.discord.discord_state import (
    EPHEMERAL,
    NONCE_S,
    Channel,
    FakeFile,
    FakeInteraction,
    FakeMessage,
    Fault,
    Ids,
    Limits,
    Refusal,
    TooMany,
    check_form,
    check_rows,
    created_at,
    notified,
)
from tests.specs.discord_spec import SpecMismatch, check_answer, check_request, template_of

COMPONENT = 3
MODAL_SUBMIT = 5
FIRST_ANSWER_S = 3.0
TOKEN_LIFE_S = 900.0
TEXT_MOST = 2000
ALT_MOST = 1024
COMMAND_NAME = re.compile(r"[-_'\w]{1,32}")
UPLOAD_MOST = (10 * 2**20, 10 * 2**20, 50 * 2**20, 100 * 2**20)  # by how far a server is boosted
THINKING = 128  # the LOADING flag of a message
SUPPRESS_EMBEDS = 4


@dataclass(kw_only=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    body: Any
    files: dict[str, FakeFile]
    token: str | None
    multipart: bool


@dataclass(kw_only=True)
class Rest:
    """Carries out requests on the fake's state."""

    token: str
    now: Callable[[], float]
    ids: Ids
    limits: Limits | None
    announce_limits: bool
    check_specs: bool
    base_url: str = ""
    endpoint_url: str | None = None
    channels: dict[int, Channel] = field(default_factory=dict)
    members: dict[int, str] = field(default_factory=dict)  # names of the server's people
    roles: Callable[[int], Sequence[int]] = lambda _: ()  # of one of them
    interactions: dict[str, FakeInteraction] = field(default_factory=dict)
    commands: list[Json] = field(default_factory=list)
    tier: int = 0  # how far the server is boosted
    shards: int = 1  # how many connections a bot is told to open
    at_once: int = 1  # and how many may begin together
    syncs: int = 0
    requests: list[Seen] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    answers_429: int = 0
    on_change: Callable[[], None] = lambda: None
    called_from: Callable[[str, str], None] = lambda _address, _what: None

    async def handle(self, request: web.Request) -> web.Response:
        seen = await _read(request)
        self.called_from(request.remote or "", f"{seen.method} {seen.path}")
        self.requests.append(seen)
        try:
            status, answer, headers = await self._answer(seen)
        except ConnectionResetError:
            if request.transport is not None:
                request.transport.close()  # the bot sees its connection end without an answer
            return web.Response()
        if self.check_specs and not isinstance(answer, str):
            self._check(lambda: check_answer(seen.method, seen.path, status, answer))
        self.on_change()
        if status == 429:
            self.answers_429 += 1
        if isinstance(answer, str):
            return web.Response(status=status, text=answer, content_type="text/html")
        if answer is None:
            return web.Response(status=status, headers=headers)
        # discord.py reads a body as JSON only when the type is exactly this, without a charset.
        headers["Content-Type"] = "application/json"
        return web.Response(status=status, body=json.dumps(answer).encode(), headers=headers)

    def _check(self, check: Callable[[], None]) -> None:
        try:
            check()
        except SpecMismatch as error:
            self.mismatches.append(str(error))

    async def _answer(self, seen: Seen) -> tuple[int, Any, dict[str, str]]:
        if self.check_specs:
            self._check(
                lambda: check_request(seen.method, seen.path, seen.body, multipart=seen.multipart)
            )
        fault = next((each for each in self.faults if each.matches(seen.method, seen.path)), None)
        if fault is not None:
            fault.times -= 1
            if fault.until is not None:
                await fault.until.wait()
                return await self._act(seen)
            if fault.acting:
                await self._act(seen)
            if fault.drop:
                raise ConnectionResetError
            return _failure(fault)
        return await self._act(seen)

    async def _act(self, seen: Seen) -> tuple[int, Any, dict[str, str]]:
        try:
            status, answer = await self._route(seen)
        except Refusal as refusal:
            body = {"code": refusal.code, "message": str(refusal)}
            if refusal.errors:
                body["errors"] = refusal.errors
            return refusal.status, body, {}
        except TooMany as limit:
            return _too_many(limit)
        return status, answer, self._announced(seen)

    def _announced(self, seen: Seen) -> dict[str, str]:
        if self.limits is None or not self.announce_limits:
            return {}
        parts = seen.path.split("/")
        if parts[1] != "channels" or "messages" not in parts:
            return {}
        window = self.limits.window(seen.method, int(parts[2]))
        if window is None:
            return {}
        left, reset_s = window.left(self.now())
        return {
            "X-RateLimit-Limit": str(window.most),
            "X-RateLimit-Remaining": str(left),
            "X-RateLimit-Reset-After": f"{reset_s:.3f}",
            "X-RateLimit-Reset": f"{self.now() + reset_s:.3f}",
            "X-RateLimit-Bucket": f"bucket-{seen.method}",
        }

    async def _route(self, seen: Seen) -> tuple[int, Any]:
        template = template_of(seen.method, seen.path)
        by_token = "{interaction_token}" in template or "{webhook_token}" in template
        if not by_token and seen.token != f"Bot {self.token}":
            raise Refusal(401, 0, "401: Unauthorized")
        routes: dict[tuple[str, str], Callable[[Seen, list[str]], tuple[int, Any]]] = {
            ("GET", "/users/@me"): lambda _seen, _parts: (200, shapes.me()),
            ("GET", "/oauth2/applications/@me"): self._application,
            ("GET", "/gateway"): lambda _seen, _parts: (200, {"url": self._gateway_url}),
            ("GET", "/gateway/bot"): self._gateway_bot,
            ("GET", "/applications/{application_id}/commands"): self._known,
            ("PUT", "/applications/{application_id}/commands"): self._sync,
            ("POST", "/users/@me/channels"): self._open_direct,
            ("GET", "/channels/{channel_id}"): self._get_channel,
            ("PATCH", "/channels/{channel_id}"): self._patch_channel,
            ("GET", "/guilds/{guild_id}/members/{user_id}"): self._member,
            ("POST", "/channels/{channel_id}/messages"): self._post,
            ("PATCH", "/channels/{channel_id}/messages/{message_id}"): self._patch,
            ("DELETE", "/channels/{channel_id}/messages/{message_id}"): self._delete,
            (
                "POST",
                "/interactions/{interaction_id}/{interaction_token}/callback",
            ): self._callback,
            ("POST", "/webhooks/{webhook_id}/{webhook_token}"): self._follow_up,
            ("GET", "/webhooks/{webhook_id}/{webhook_token}/messages/@original"): self._original,
            ("PATCH", "/webhooks/{webhook_id}/{webhook_token}/messages/@original"): self._original,
            ("DELETE", "/webhooks/{webhook_id}/{webhook_token}/messages/@original"): self._original,
            ("PATCH", "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}"): self._later,
            ("DELETE", "/webhooks/{webhook_id}/{webhook_token}/messages/{message_id}"): self._later,
        }
        handler = routes.get((seen.method, template))
        if handler is None:
            raise Refusal(404, 0, f"the fake has no {seen.method} {template}")
        return handler(seen, seen.path.split("/"))

    # ------------------------------------------------------------ start

    def _application(self, _seen: Seen, _parts: list[str]) -> tuple[int, Any]:
        return 200, shapes.application(self.endpoint_url)

    @property
    def _gateway_url(self) -> str:
        return f"{self.base_url}/gateway".replace("http", "ws", 1)

    def _gateway_bot(self, _seen: Seen, _parts: list[str]) -> tuple[int, Any]:
        starts = {"total": 1000, "remaining": 999, "reset_after": 86_400_000}
        starts["max_concurrency"] = self.at_once
        return 200, {"url": self._gateway_url, "shards": self.shards, "session_start_limit": starts}

    def _known(self, _seen: Seen, _parts: list[str]) -> tuple[int, Any]:
        return 200, self.commands

    def _sync(self, seen: Seen, _parts: list[str]) -> tuple[int, Any]:
        self.syncs += 1
        for locale in {""} | {each for body in seen.body for each in _names(body)}:
            names = [(body["type"], _names(body).get(locale, body["name"])) for body in seen.body]
            slashes = [name for kind, name in names if kind == 1]
            fit = all(COMMAND_NAME.fullmatch(name) and name.islower() for name in slashes)
            if not fit or len(set(names)) < len(names):
                raise Refusal(400, 50035, f"Invalid Form Body: names of commands in {locale}")
        self.commands = [shapes.command(self.ids.new(), body) for body in seen.body]
        return 200, self.commands

    # ------------------------------------------------------------ channels

    def channel(self, channel_id: int) -> Channel:
        channel = self.channels.get(channel_id)
        if channel is None:
            raise Refusal(404, 10003, "Unknown Channel")
        if channel.away:
            raise Refusal(403, 50001, "Missing Access")
        if channel.refusal is not None:
            raise Refusal(*channel.refusal)
        return channel

    def direct(self, person_id: int) -> Channel:
        """Return the direct-message channel with a person, made at its first use."""
        for channel in self.channels.values():
            if channel.owner == person_id:
                return channel
        made = Channel(id=self.ids.new(), owner=person_id)
        self.channels[made.id] = made
        return made

    def _open_direct(self, seen: Seen, _parts: list[str]) -> tuple[int, Any]:
        return 200, shapes.channel(self.direct(int(seen.body["recipient_id"])))

    def _get_channel(self, _seen: Seen, parts: list[str]) -> tuple[int, Any]:
        return 200, shapes.channel(self.channel(int(parts[2])))

    def _patch_channel(self, seen: Seen, parts: list[str]) -> tuple[int, Any]:
        channel = self.channel(int(parts[2]))
        channel.archived = bool(seen.body.get("archived", channel.archived))
        return 200, shapes.channel(channel)

    def _member(self, _seen: Seen, parts: list[str]) -> tuple[int, Any]:
        name = self.members.get(int(parts[4]))
        if name is None:
            raise Refusal(404, 10007, "Unknown Member")
        roles = [str(each) for each in self.roles(int(parts[4]))]
        return 200, shapes.member(int(parts[4]), name) | {"roles": roles}

    # ------------------------------------------------------------ messages

    def _limit(self, seen: Seen, channel: Channel, message: FakeMessage | None = None) -> None:
        if self.limits is not None:
            self.limits.check(seen.method, channel.id, message, self.now())

    def _post(self, seen: Seen, parts: list[str]) -> tuple[int, Any]:
        channel = self.channel(int(parts[2]))
        self._limit(seen, channel)
        nonce = seen.body.get("nonce")
        if seen.body.get("enforce_nonce"):
            earlier = channel.by_nonce.get(nonce)
            if earlier is not None and self.now() - created_at(earlier.id) < NONCE_S:
                return 200, shapes.message(earlier, self.base_url)
        message = self._new_message(channel, seen)
        if nonce is not None:
            message.nonce = nonce
            channel.by_nonce[nonce] = message
        reference = seen.body.get("message_reference") or {}
        message.reply_to = int(reference["message_id"]) if reference else None
        return 200, shapes.message(message, self.base_url)

    def _patch(self, seen: Seen, parts: list[str]) -> tuple[int, Any]:
        channel, message = self._find(parts)
        self._limit(seen, channel, message)
        if channel.archived:
            raise Refusal(400, 50083, "Thread is archived")
        self._change(message, seen)
        message.edited_by_bot += 1
        return 200, shapes.message(message, self.base_url)

    def _delete(self, seen: Seen, parts: list[str]) -> tuple[int, Any]:
        channel, message = self._find(parts)
        self._limit(seen, channel, message)
        channel.all_messages.remove(message)
        return 204, None

    def _find(self, parts: list[str]) -> tuple[Channel, FakeMessage]:
        channel = self.channel(int(parts[2]))
        message = channel.find(int(parts[4]))
        if message is None or message.seen_only_by is not None:
            raise Refusal(404, 10008, "Unknown Message")
        return channel, message

    def _new_message(
        self, channel: Channel, seen: Seen, *, seen_only_by: int | None = None, flags: int = 0
    ) -> FakeMessage:
        message = FakeMessage(
            id=self.ids.new(),
            channel_id=channel.id,
            content="",
            flags=flags,
            seen_only_by=seen_only_by,
        )
        self._change(message, seen)
        body = _data(seen)
        message.flags |= int(body.get("flags") or 0)
        message.notified = notified(message.content, body.get("allowed_mentions"))
        channel.all_messages.append(message)
        return message

    def _change(self, message: FakeMessage, seen: Seen) -> None:
        """Make a message show what a body says, or refuse it as Discord does."""
        body = _data(seen)
        layout = becomes_layout(message, body)
        components = body.get("components", message.components) or []
        content = words(components) if layout else body.get("content", message.content) or ""
        if len(content) > TEXT_MOST and not layout:
            raise Refusal(400, 50035, "Invalid Form Body")
        most = UPLOAD_MOST[self.tier]
        if any(len(file.data) > most for file in seen.files.values()):
            raise Refusal(413, 40005, "Request entity too large")
        files = message.files
        if "attachments" in body or seen.files:
            files = self._files(message, body, seen)
        if not content and not files:
            raise Refusal(400, 50006, "Cannot send an empty message")
        if layout:
            check_layout(components, files)
            message.flags |= LAYOUT
        else:
            check_rows(components)
        message.content, message.files = content, files
        message.components = components
        message.thinking = False
        message.flags &= ~THINKING
        if "flags" in body:
            message.flags = message.flags & ~SUPPRESS_EMBEDS | int(body["flags"]) & SUPPRESS_EMBEDS
        if not message.history or message.history[-1] != content:
            message.history.append(content)

    def _files(self, message: FakeMessage, body: Json, seen: Seen) -> list[FakeFile]:
        """Return the complete list: an id of the bot's keeps a file; a number names an upload."""
        kept = {file.id: file for file in message.files}
        files: list[FakeFile] = []
        for listed in body.get("attachments", []):
            number = int(listed["id"])
            uploaded = seen.files.get(f"files[{number}]")
            if number in kept:
                files.append(kept[number])
            elif uploaded is not None:
                uploaded.id = self.ids.new()
                uploaded.alt = listed.get("description") or ""
                if len(uploaded.alt) > ALT_MOST:
                    raise Refusal(400, 50035, "Invalid Form Body: description")
                files.append(uploaded)
            else:
                raise Refusal(400, 50035, "Invalid Form Body: attachment is not there")
        return files

    # ------------------------------------------------------------ interactions

    def _too_late(self, interaction: FakeInteraction) -> bool:
        waited_s = self.now() - interaction.created_at
        return waited_s - (kept_waiting_s() - interaction.kept_waiting_s) > FIRST_ANSWER_S

    def _callback(self, seen: Seen, parts: list[str]) -> tuple[int, Any]:
        interaction = self.interactions.get(parts[3])
        if interaction is None or self._too_late(interaction):
            raise Refusal(404, 10062, "Unknown interaction")
        if interaction.response_type is not None:
            raise Refusal(400, 40060, "Interaction has already been acknowledged.")
        kind = seen.body["type"]
        data = seen.body.get("data") or {}
        only = interaction.person_id if int(data.get("flags") or 0) & EPHEMERAL else None
        match kind:
            case 4:
                channel = self.channels[interaction.channel_id]
                interaction.message = self._new_message(channel, seen, seen_only_by=only)
                interaction.message.made_by = interaction
            case 5:
                interaction.message = self._think(interaction, only)
            case 6 if interaction.kind not in {COMPONENT, MODAL_SUBMIT}:
                raise Refusal(400, 50035, "only a press or a form can be answered so")
            case 6:
                interaction.message = interaction.source
            case 9:
                if interaction.kind == MODAL_SUBMIT:
                    raise Refusal(400, 50035, "a form cannot be answered with a form")
                check_form(data)
                interaction.form = data
            case 8:
                interaction.choices = [choice["value"] for choice in data["choices"]]
            case _:
                raise Refusal(400, 50035, f"the fake has no response of type {kind}")
        interaction.response_type = kind
        return 200, shapes.callback(interaction, self.base_url)

    def _think(self, interaction: FakeInteraction, only: int | None) -> FakeMessage:
        message = FakeMessage(
            id=self.ids.new(),
            channel_id=interaction.channel_id,
            content="",
            flags=THINKING | (EPHEMERAL if only is not None else 0),
            seen_only_by=only,
            thinking=True,
            made_by=interaction,
        )
        self.channels[interaction.channel_id].all_messages.append(message)
        return message

    def _by_token(self, token: str) -> FakeInteraction:
        interaction = self.interactions.get(token)
        if interaction is None or interaction.response_type is None:
            raise Refusal(404, 10015, "Unknown Webhook")
        if self.now() - interaction.created_at > TOKEN_LIFE_S:
            raise Refusal(401, 50027, "Invalid Webhook Token")
        return interaction

    def _follow_up(self, seen: Seen, parts: list[str]) -> tuple[int, Any]:
        interaction = self._by_token(parts[3])
        message = interaction.message
        if message is not None and message.thinking:
            # Discord's old habit: the first follow-up fills the "thinking…" and keeps its audience.
            self._change(message, seen)
            return 200, shapes.message(message, self.base_url)
        private = int(seen.body.get("flags") or 0) & EPHEMERAL
        if self.channels[interaction.channel_id].away and len(interaction.followups) >= 5:
            raise Refusal(400, 40094, "Follow-up messages limit reached")
        made = self._new_message(
            self.channels[interaction.channel_id],
            seen,
            seen_only_by=interaction.person_id if private else None,
        )
        made.made_by = interaction
        interaction.followups.append(made)
        return 200, shapes.message(made, self.base_url)

    def _original(self, seen: Seen, parts: list[str]) -> tuple[int, Any]:
        interaction = self._by_token(parts[3])
        message = interaction.message
        if message is None:
            raise Refusal(404, 10008, "Unknown Message")
        match seen.method:
            case "DELETE":
                self.channels[interaction.channel_id].all_messages.remove(message)
                interaction.message = None
                return 204, None
            case "PATCH":
                self._change(message, seen)
                message.edited_by_token += 1
            case _:
                pass
        return 200, shapes.message(message, self.base_url)

    def _later(self, seen: Seen, parts: list[str]) -> tuple[int, Any]:
        """Change or delete one of an interaction's answers by its number."""
        interaction = self._by_token(parts[3])
        answers = [each for each in (interaction.message, *interaction.followups) if each]
        message = next((each for each in answers if each.id == int(parts[5])), None)
        channel = self.channels[interaction.channel_id]
        if message is None or message not in channel.all_messages:
            raise Refusal(404, 10008, "Unknown Message")
        if seen.method == "DELETE":
            channel.all_messages.remove(message)
            return 204, None
        self._change(message, seen)
        message.edited_by_token += 1
        return 200, shapes.message(message, self.base_url)


def _names(command: Json) -> dict[str, str]:
    return command.get("name_localizations") or {}


def _data(seen: Seen) -> Json:
    """Return a message's fields, which a callback carries one level deeper."""
    body: Json = seen.body
    return body["data"] if seen.path.startswith("/interactions/") else body


def _failure(fault: Fault) -> tuple[int, Any, dict[str, str]]:
    if fault.page is not None:
        return fault.status, fault.page, {}
    if fault.status == 429:
        return _too_many(TooMany(fault.retry_after or 0.0, scope="scripted", code=fault.code))
    return fault.status, {"code": fault.code, "message": "scripted"}, {}


def _too_many(limit: TooMany) -> tuple[int, Any, dict[str, str]]:
    everywhere = limit.scope == "overall"
    body = {
        "message": "You are being rate limited.",
        "retry_after": limit.retry_after,
        "global": everywhere,
        "code": limit.code,
    }
    headers = {"Via": "1.1 fake", "Retry-After": str(max(1, round(limit.retry_after)))}
    if everywhere:
        headers["X-RateLimit-Global"] = "true"
    return 429, body, headers


async def _read(request: web.Request) -> Seen:
    body: Any = None
    files: dict[str, FakeFile] = {}
    multipart = request.content_type == "multipart/form-data"
    if multipart:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader):
                continue
            data = bytes(await part.read(decode=False))
            if part.name == "payload_json":
                body = json.loads(data)
            elif part.name is not None:
                files[part.name] = FakeFile(id=0, name=part.filename or "", data=data)
    elif request.can_read_body:
        body = await request.json()
    return Seen(
        method=request.method,
        path="/" + request.match_info["path"],
        body=body,
        files=files,
        token=request.headers.get("Authorization"),
        multipart=multipart,
    )
