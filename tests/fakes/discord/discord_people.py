"""People on the fake Discord: they type commands, complete options and press buttons.

They can only do what Discord's own client lets them do: an unknown command, a missing option or a
value of the wrong type fails the test that tried it.
"""

import asyncio
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.fakes.discord import discord_json as shapes
from tests.fakes.discord.discord_json import Json
from tests.fakes.discord.discord_state import (
    APPLICATION_ID,
    Channel,
    FakeFile,
    FakeInteraction,
    FakeMessage,
)

if TYPE_CHECKING:
    from tests.fakes.discord.discord import FakeDiscord

SLASH, COMPONENT, AUTOCOMPLETE, MODAL_SUBMIT = 2, 3, 4, 5
_PYTHON_TYPES: Mapping[int, tuple[type, ...]] = {
    3: (str,),
    4: (int,),
    5: (bool,),
    10: (int, float),
    11: (FakeFile,),
}


@dataclass(kw_only=True, eq=False)
class Person:
    """A person with an account; `direct` is the chat with only the bot."""

    fake: "FakeDiscord"
    id: int
    name: str
    roles: list[int] = field(default_factory=list)
    locale: str = "en-US"

    @property
    def direct(self) -> Channel:
        return self.fake.rest.direct(self.id)

    def sees(self) -> list[FakeMessage]:
        """Return what this person sees in the channel, private answers included."""
        return self.fake.channel().seen_by(self.id)

    async def slash(
        self, command: str, /, *, in_channel: Channel | None = None, **options: Any
    ) -> FakeInteraction:
        """Type a slash command and send it; returns as soon as the bot was told."""
        known = self._command(command)
        if in_channel is not None and in_channel.away and 1 not in known["integration_types"]:
            raise AssertionError(f"/{command} cannot be called from elsewhere")
        given = _checked(known, options)
        data: Json = {
            "id": known["id"],
            "name": command,
            "type": 1,
            "options": [_sent(option, value) for option, value in given],
        }
        files = [value for _option, value in given if isinstance(value, FakeFile)]
        if files:
            data["resolved"] = {
                "attachments": {
                    str(each.id): shapes.attachment(each, self.fake.url) for each in files
                }
            }
        return await self._interact(SLASH, data, in_channel or self.fake.channel())

    async def complete(
        self, command: str, option: str, typed: str, /, *, in_channel: Channel | None = None
    ) -> list[str]:
        """Type into an option and return what is offered."""
        call = await self.start_typing(command, option, typed, in_channel=in_channel)
        await self.fake.wait_for(lambda: call.choices is not None)
        return call.choices or []

    async def start_typing(
        self, command: str, option: str, typed: str, /, *, in_channel: Channel | None = None
    ) -> FakeInteraction:
        """Type into an option without waiting for what is offered."""
        known = self._command(command)
        described = next(each for each in known["options"] if each["name"] == option)
        if not described.get("autocomplete"):
            raise AssertionError(f"/{command} {option} is not completed")
        sent = {"name": option, "type": described["type"], "value": typed, "focused": True}
        data = {"id": known["id"], "name": command, "type": 1, "options": [sent]}
        return await self._interact(AUTOCOMPLETE, data, in_channel or self.fake.channel())

    async def click(self, message: FakeMessage, label: str, /) -> FakeInteraction:
        """Press the button of that label on a message this person sees."""
        button = next((each for each in message.buttons if each.label == label), None)
        if button is None:
            raise AssertionError(f"no button {label!r} among {message.buttons}")
        return await self.press(message, button.custom_id)

    async def press(self, message: FakeMessage, custom_id: str, /) -> FakeInteraction:
        """Press a button by its id, also one that a message no longer shows."""
        data = {"custom_id": custom_id, "component_type": 2}
        channel = self.fake.rest.channels[message.channel_id]
        return await self._interact(COMPONENT, data, channel, source=message)

    def write(self, text: str, *files: FakeFile) -> FakeMessage:
        """Write a message into the channel; the bot is not told of it."""
        channel = self.fake.channel()
        message = FakeMessage(
            id=self.fake.ids.new(),
            channel_id=channel.id,
            content=text,
            author=(self.id, self.name),
            files=list(files),
        )
        channel.all_messages.append(message)
        return message

    async def says(
        self,
        text: str,
        *files: FakeFile,
        in_channel: Channel | None = None,
        reply_to: FakeMessage | None = None,
        **carries: Any,
    ) -> FakeMessage:
        """Write a message and let the gateway tell the bot as much of it as it may know."""
        channel = in_channel or self.fake.channel()
        message = FakeMessage(
            id=self.fake.ids.new(),
            channel_id=channel.id,
            content=text,
            author=(self.id, self.name),
            files=list(files),
            reply_to=reply_to.id if reply_to else None,
            carries=carries,
        )
        channel.all_messages.append(message)
        event = self._spoken(message, channel, reply_to)
        await asyncio.wait_for(self.fake.gateway.connected.wait(), 60)
        await self.fake.gateway.deliver("MESSAGE_CREATE", event)
        return message

    def _spoken(self, message: FakeMessage, channel: Channel, reply_to: FakeMessage | None) -> Json:
        """Return the event of a message; its text only where no privileged intent is needed.

        A reply mentions the person it replies to, but not if that is a bot's answer to a slash
        command.
        """
        event = shapes.message(message, self.fake.url) | {"type": 19 if reply_to else 0}
        mentions = f"<@{APPLICATION_ID}>" in message.content
        if reply_to is not None:
            shown = shapes.message(reply_to, self.fake.url)
            event["message_reference"] = {
                "message_id": str(reply_to.id),
                "channel_id": str(channel.id),
            }
            event["referenced_message"] = shown
            if reply_to.author is not None and channel.owner is None:
                shown |= {"content": "", "attachments": []}
            answers_slash = any(
                reply_to in (each.message, *each.followups)
                for each in self.fake.rest.interactions.values()
            )
            mentions = mentions or (reply_to.author is None and not answers_slash)
        if mentions:
            event["mentions"] = [shapes.bot_user()]
        event["mention_roles"] = re.findall(r"<@&(\d+)>", message.content)
        if channel.owner is None:
            event |= {"guild_id": str(channel.guild), "member": self._member()}
            if not mentions:
                event |= {"content": "", "attachments": []}
        return event

    async def open_menu(self, message: FakeMessage, label: str, /) -> FakeInteraction:
        """Choose an entry of a message's menu."""
        known = self._command(label)
        if known["type"] != 3:
            raise AssertionError(f"{label!r} is in no message's menu")
        shown = shapes.message(message, self.fake.url)
        data = {
            "id": known["id"],
            "name": label,
            "type": 3,
            "target_id": str(message.id),
            "resolved": {"messages": {str(message.id): shown}},
        }
        return await self._interact(SLASH, data, self.fake.rest.channels[message.channel_id])

    async def send_off(
        self, opened: FakeInteraction, /, **values: str | FakeFile
    ) -> FakeInteraction:
        """Complete the form an interaction was answered with, keeping its values, and send it."""
        if opened.form is None:
            raise AssertionError("there is no form")
        filled = opened.fields | values
        if filled.keys() != opened.fields.keys():
            raise AssertionError(f"the form has only {sorted(opened.fields)}")
        for name, choices in opened.selects.items():
            if filled[name] and filled[name] not in choices:
                raise AssertionError(f"{filled[name]!r} is not among {choices}")
        rows = [
            {"type": 18, "id": n, "component": _filled_in(opened, name, value) | {"id": 100 + n}}
            for n, (name, value) in enumerate(filled.items(), start=1)
        ]
        data = {"custom_id": opened.form["custom_id"], "components": rows}
        files = [each for each in filled.values() if isinstance(each, FakeFile)]
        if files:
            shown = {str(each.id): shapes.attachment(each, self.fake.url) for each in files}
            data["resolved"] = {"attachments": shown}
        channel = self.fake.rest.channels[opened.channel_id]
        return await self._interact(MODAL_SUBMIT, data, channel, source=opened.source)

    def file(self, name: str, data: bytes, mime: str = "image/png") -> FakeFile:
        """Attach a file, to be given as an option's value."""
        return self.fake.keep_file(
            FakeFile(id=self.fake.ids.new(), name=name, data=data, mime=mime)
        )

    def _command(self, name: str) -> Json:
        found = next((each for each in self.fake.rest.commands if each["name"] == name), None)
        if found is None:
            raise AssertionError(f"/{name} is not in the client's menu")
        return found

    async def _interact(
        self, kind: int, data: Json, channel: Channel, *, source: FakeMessage | None = None
    ) -> FakeInteraction:
        interaction = FakeInteraction(
            id=self.fake.ids.new(),
            token=secrets.token_urlsafe(24),
            kind=kind,
            person_id=self.id,
            channel_id=channel.id,
            created_at=self.fake.now(),
            source=source,
        )
        self.fake.rest.interactions[interaction.token] = interaction
        event = self._event(interaction, data, channel)
        await asyncio.wait_for(self.fake.gateway.connected.wait(), 60)
        await self.fake.gateway.deliver("INTERACTION_CREATE", event)
        return interaction

    def _event(self, interaction: FakeInteraction, data: Json, channel: Channel) -> Json:
        event: Json = {
            "id": str(interaction.id),
            "application_id": str(APPLICATION_ID),
            "type": interaction.kind,
            "token": interaction.token,
            "version": 1,
            "channel": shapes.channel(channel),
            "channel_id": str(channel.id),
            "data": data,
            "locale": self.locale,
            "attachment_size_limit": 10 * 2**20,
            "entitlements": [],
            "app_permissions": str(channel.permissions),
            "authorizing_integration_owners": (
                {"1": str(self.id)}
                if channel.away
                else {"0": str(channel.guild if channel.owner is None else 0)}
            ),
            "context": 0 if channel.owner is None else 1,
        }
        if interaction.source is not None:
            event["message"] = shapes.message(interaction.source, self.fake.url)
        user = shapes.user(self.id, self.name)
        if channel.owner is not None:
            return event | {"user": user}
        member = self._member() | {"user": user, "permissions": str(self._permissions())}
        guild = {"id": str(channel.guild), "locale": "en-US", "features": []}
        return event | {"guild_id": str(channel.guild), "guild": guild, "member": member}

    def _permissions(self) -> int:
        """Return the permissions that Discord states for a call: those of all roles together."""
        held = 0
        for role in self.roles:
            held |= self.fake.permissions.get(role, 0)
        return held

    def _member(self) -> Json:
        return {
            "nick": None,
            "roles": [str(role) for role in self.roles],
            "joined_at": "2024-01-01T00:00:00+00:00",
            "deaf": False,
            "mute": False,
            "flags": 0,
        }


def _filled_in(opened: FakeInteraction, name: str, value: str | FakeFile) -> Json:
    if name in opened.uploads or isinstance(value, FakeFile):
        if value and not (name in opened.uploads and isinstance(value, FakeFile)):
            raise AssertionError(f"the client does not send {name}={value!r:.60}")
        given = [str(value.id)] if isinstance(value, FakeFile) else []
        return {"type": 19, "custom_id": name, "values": given}
    if name in opened.selects:
        return {"type": 3, "custom_id": name, "values": [value] if value else []}
    return {"type": 4, "custom_id": name, "value": value}


def _checked(command: Json, options: Mapping[str, Any]) -> list[tuple[Json, Any]]:
    """Return the options with their descriptions, as Discord's client would send them."""
    described = {option["name"]: option for option in command["options"]}
    for name in options:
        if name not in described:
            raise AssertionError(f"/{command['name']} has no option {name!r}")
    for name, option in described.items():
        if option.get("required") and name not in options:
            raise AssertionError(f"/{command['name']} needs {name!r}")
    pairs = [(described[name], value) for name, value in options.items()]
    for option, value in pairs:
        _check_value(option, value)
    return pairs


def _check_value(option: Json, value: Any) -> None:
    wrong = AssertionError(f"the client does not send {option['name']}={value!r:.60}")
    kinds = _PYTHON_TYPES[option["type"]]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise wrong
    if option.get("choices") and value not in [each["value"] for each in option["choices"]]:
        raise wrong
    if isinstance(value, int | float) and not (
        option.get("min_value", value) <= value <= option.get("max_value", value)
    ):
        raise wrong
    if isinstance(value, str) and not (
        option.get("min_length", 0) <= len(value) <= option.get("max_length", 6000)
    ):
        raise wrong


def _sent(option: Json, value: Any) -> Json:
    shown = str(value.id) if isinstance(value, FakeFile) else value
    return {"name": option["name"], "type": option["type"], "value": shown}
