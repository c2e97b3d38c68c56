"""The discord.py client: registers commands and passes interactions to `InteractionReply`."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import discord
import discord.backoff
from discord import app_commands

from bot.core.arrivals import Arrival
from bot.core.command import ParamKind
from bot.core.errors import ChatError
from bot.core.platform import ChatLease, ChatPlatform, CommandHandler, Notes
from bot.platforms.discord.attachments import Downloads
from bot.platforms.discord.away import AwayCalls, from_away
from bot.platforms.discord.channels import asker_of, is_astray
from bot.platforms.discord.commands import (
    Describe,
    HelpTexts,
    command_tree,
    digest,
    has_form,
    missing_commands,
    options_form,
)
from bot.platforms.discord.components.forms import filled_in
from bot.platforms.discord.components.views import pressed
from bot.platforms.discord.errors import chat_errors, pass_over_unreadable, refuse_to_wait
from bot.platforms.discord.forwards import Forwards, WaitingForward
from bot.platforms.discord.interactions import InteractionReply
from bot.platforms.discord.messages import DiscordMessageCall
from bot.platforms.discord.names import PeopleSeen, channels_seen, commands_by_id, people_of
from bot.platforms.discord.rush import Rush
from queueing.core.concurrency import TaskGroup

GOODBYE_S = 2.0  # a longer goodbye would delay the process that takes over the lease
EVERY_S = 5.0  # Discord allows a bot only `at_once` new sessions in this time
LONGEST_RECONNECT_S = 30.0  # after an outage, people cannot call the bot for this long
RARELY_S = 300.0  # between sessions after many in a day
LONGEST_SLEEP_S = 30.0  # the minimum discord.py accepts; `refuse_to_wait` is the stricter guard

_DAY_S = 24 * 3600.0

_log = logging.getLogger(__name__)

# Without this, discord.py warns at every start about missing packages for voice calls.
discord.VoiceClient.warn_nacl = False
discord.VoiceClient.warn_dave = False


class _Backoff(discord.backoff.ExponentialBackoff[Literal[False]]):
    """The pauses of discord.py before it connects again, without those of up to 17 minutes."""

    def delay(self) -> float:
        """Return the next pause in seconds."""
        return min(super().delay(), LONGEST_RECONNECT_S)


discord.shard.ExponentialBackoff = _Backoff  # type: ignore[attr-defined, assignment]


class Starts:
    """Spaces out new sessions with Discord: `at_once` of them per five seconds, by shard number.

    After many sessions in a day, as a broken network may cause, further ones start rarely. Counts
    only this process's sessions. If another process has just started one, Discord ends the
    later session at once ("invalid session"), and discord.py retries it five seconds later.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.at_once = 1
        self.many = 500  # in a day; Discord resets the token of a bot that starts twice as many
        self._clock = clock
        self._free_from: dict[int, float] = {}  # by shard number modulo `at_once`
        self._begun: deque[float] = deque()  # the starts of the last day

    async def turn(self, shard: int) -> None:
        """Wait until this shard's session may begin."""
        await asyncio.sleep(self.reserve(shard))

    def reserve(self, shard: int) -> float:
        """Reserve the next free slot for a shard's session. Returns the wait in seconds."""
        now, lane = self._clock(), shard % max(1, self.at_once)
        at = max(now, self._free_from.get(lane, now))
        while self._begun and self._begun[0] < now - _DAY_S:
            self._begun.popleft()
        if len(self._begun) >= self.many:
            at = max(at, self._begun[-1] + RARELY_S)
        self._begun.append(at)
        self._free_from[lane] = at + EVERY_S
        return at - now


class Client(discord.AutoShardedClient):
    """Receives interactions and messages that are meant for the bot.

    Opens as many connections (shards) as Discord asks for.
    """

    def __init__(
        self,
        *,
        platform: ChatPlatform,
        handler: CommandHandler,
        calls: TaskGroup,
        describe: Describe,
        notes: Notes | None,
        starts: Starts,
        lease: ChatLease,
        proxy: str | None = None,
        aways: AwayCalls,
        anywhere: bool = False,
    ) -> None:
        super().__init__(
            intents=discord.Intents(guilds=True, guild_messages=True, dm_messages=True),
            allowed_mentions=discord.AllowedMentions.none(),
            max_messages=None,
            max_ratelimit_timeout=LONGEST_SLEEP_S,
            http_trace=refuse_to_wait(lease),
            proxy=proxy,
        )
        pass_over_unreadable(self._connection.parsers)
        self._starts = starts
        self._aways = aways
        self._anywhere = anywhere
        self._lease = lease
        self._platform = platform
        self._handler = handler
        self._calls = calls
        self._notes = notes
        self._describe = describe
        self._texts = HelpTexts(describe)
        self._by_id = commands_by_id(handler.commands)
        self._seen = PeopleSeen()
        self._downloads = Downloads(platform.limits.download, proxy)
        self._forwards = Forwards()
        self._rush = Rush()
        self.tree = command_tree(
            self, platform.name, handler, describe, self._take, anywhere=anywhere
        )
        self.tree.error(self._on_outdated_command)

    async def setup_hook(self) -> None:
        """Register the commands before the first connection.

        The bot is already logged in at this point, so messages can be sent.
        """
        self._platform.connected.set()
        if self.application is not None and self.application.interactions_endpoint_url:
            _log.error(
                "%s: the application has an interactions endpoint URL, so no command reaches this"
                " bot: remove it in the developer portal",
                self._platform.name,
            )
        await self.tree.set_translator(self._texts)
        await self._register()

    async def connect(self, *, reconnect: bool = True) -> None:
        """Open all connections, as many at a time as Discord allows this bot."""
        limits = await self.fetch_session_start_limits()
        self._starts.at_once, self._starts.many = limits.max_concurrency, limits.total // 2
        await super().connect(reconnect=reconnect)

    async def _register(self) -> None:
        """Register the commands if Discord does not have them. Discord allows 200 changes a day.

        A refusal is only logged, because the previous commands still work. An outage raises, and
        the whole connection is retried.
        """
        name = f"{self._platform.name}.commands.{self.application_id}"
        wanted = await digest(self.tree, self._texts)
        noted = await self._notes.noted(name) if self._notes is not None else None
        try:
            known = await self.tree.fetch_commands()
            missing = missing_commands(self._handler.commands, self._describe, known)
            if noted == wanted and not missing:
                return
            if noted == wanted:
                _log.warning(
                    "%s: Discord lost commands: %s", self._platform.name, ", ".join(missing)
                )
            await self.tree.sync()
        except discord.DiscordServerError:
            raise
        except (app_commands.AppCommandError, discord.HTTPException, discord.RateLimited) as error:
            _log.error("%s: could not register the commands: %s", self._platform.name, error)
            return
        if self._notes is not None:
            await self._notes.note(name, wanted)

    async def close(self) -> None:
        """Close every connection cleanly, but abandon unresponsive ones after two seconds.

        discord.py may wait half a minute for Discord to confirm the close.
        """
        closing = asyncio.ensure_future(super().close())
        if not (await asyncio.wait({closing}, timeout=GOODBYE_S))[0]:
            await self.http.close()  # closes the connections that `closing` waits for
        await closing

    async def before_identify_hook(
        self,
        shard_id: int | None,
        *,
        initial: bool = False,  # noqa: ARG002  # the library's
    ) -> None:
        """Wait until a session may start; Discord limits how many may start within five seconds."""
        await self._starts.turn(shard_id or 0)
        self._lease.require()

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """Drop events that arrive after the client is closed.

        discord.py reports readiness up to two seconds late, even if the client is closed by then.
        """
        if not self.is_closed():
            super().dispatch(event, *args, **kwargs)

    async def on_ready(self) -> None:
        """Log the connection. Discord repeats this event after every reconnect."""
        _log.info("%s: connected as %s", self._platform.name, self.user)
        self._handler.answered(self._platform.name)

    async def on_shard_resumed(self, _shard_id: int) -> None:
        """Deliver at once what an outage has delayed."""
        self._handler.answered(self._platform.name)

    async def on_interaction(self, interaction: "discord.Interaction[Any]") -> None:
        """Handle a pressed button or submitted form.

        Slash commands arrive through the command tree.
        """
        came: tuple[str, Mapping[str, Any]] | None
        match interaction.type:
            case discord.InteractionType.component:
                came = pressed(interaction.custom_id or "")
            case discord.InteractionType.modal_submit:
                came = filled_in(interaction.data or {}, self._connection)
            case _:
                return
        if came is None:
            await interaction.response.defer()  # a button of an earlier installation
            return
        command, values = came
        await self._take(interaction, command, values, None)

    async def on_message(self, message: discord.Message) -> None:
        """Handle a mention, a reply to the bot, or a direct message."""
        if self.user is None or not self._may_act():
            return
        self._seen.note(message.guild.id if message.guild else None, people_of(message))
        spoken = DiscordMessageCall(
            message=message,
            platform=self._platform,
            me=self.user.id,
            by_id=self._by_id,
            seen=self._seen,
            downloads=self._downloads,
            place=self._place,
        )
        spoken = replace(spoken, forward=self._forwards.before(message))
        waiting = self._forwards.wait(message)
        if spoken.invocation() is not None:
            arrival = self._arrived(message.author.id, message.channel.id)
            self._calls.create_task(self._handle_message(spoken, arrival, waiting))

    def _place(self, channel_id: int) -> str | None:
        """Return the name of a server's channel."""
        name: str | None = getattr(self.get_channel(channel_id), "name", None)
        return name

    def _may_act(self) -> bool:
        """Return whether to act on an event. A connection may outlive this process's lease.

        Discord sends each session only the events that occur while it is open. So an event that
        reaches a frozen process after its lease is lost: the caller reads "The application did not
        respond", and nothing is started. Events after the next holder has connected reach that
        process too.
        """
        if self._lease.held:
            return True
        _log.warning(
            "%s: ignored a call that arrived after this process lost its lease", self._platform.name
        )
        return False

    def _arrived(self, person_id: int, channel_id: int) -> Arrival:
        """Reserve a call's place in the order.

        The channel's id is final even if its details are unknown.
        """
        return self._handler.arrived(f"{self._platform.name}:{person_id}", f"{channel_id}")

    async def _handle_message(
        self, spoken: DiscordMessageCall, arrival: Arrival, waiting: WaitingForward | None
    ) -> None:
        try:
            with arrival:
                if waiting is not None and await waiting.is_commented():
                    return
                if is_astray(spoken.message):
                    await self._find(spoken.message)
                if spoken.message.guild is None:
                    person = spoken.message.author.id
                    seen = await channels_seen(self, person, spoken.texts())
                    spoken = replace(spoken, channels=seen)
                invocation = spoken.invocation()
                if invocation is not None:
                    await self._handler.call(replace(invocation, arrival=arrival))
        except ChatError as error:
            _log.warning(
                "%s: could not look up the channel of a message: %s", self._platform.name, error
            )
        except Exception:  # noqa: BLE001 - one broken call must not end the connection
            _log.exception("%s: message %s failed", self._platform.name, spoken.message.id)

    async def _find(self, message: Any) -> None:
        """Fetch a message's channel from Discord, so that rules for its parents apply.

        Raises `ChatError`.
        """
        with chat_errors():
            message.channel = await self.fetch_channel(message.channel.id)
        message.guild = message.channel.guild

    async def _on_outdated_command(
        self, interaction: "discord.Interaction[Any]", error: app_commands.AppCommandError
    ) -> None:
        """Let the handler refuse, with an explanation, a command from an outdated menu."""
        if interaction.type is not discord.InteractionType.application_command:
            return  # completion in such a menu is not a call
        if isinstance(error, app_commands.CommandNotFound | app_commands.CommandSignatureMismatch):
            data: Mapping[str, Any] = interaction.data or {}
            # Not dict(): it would look up `keys`, which a namespace resolves as an option.
            values = {name: value for name, value in interaction.namespace}  # noqa: C416
            await self._take(interaction, str(data.get("name")), values, None)
        else:
            _log.error(
                "%s: interaction %s failed", self._platform.name, interaction.id, exc_info=error
            )

    async def _take(
        self,
        interaction: "discord.Interaction[Any]",
        command: str,
        values: Mapping[str, Any],
        about: discord.Message | None,
    ) -> None:
        if interaction.channel_id is None:
            _log.warning("%s: ignored a call from an unknown kind of channel", self._platform.name)
            return
        if not self._may_act():
            return
        if await self._opens_options(interaction, command, values, about):
            return
        far = from_away(interaction)
        if far and not self._anywhere:
            _log.warning("%s: ignored a call from outside its chats", self._platform.name)
            return
        self._seen.note(interaction.guild_id, {interaction.user.id: interaction.user.display_name})
        call = InteractionReply(
            interaction,
            platform=self._platform.name,
            post=self._platform.send,
            about=about,
            seen=self._seen,
            rush=self._rush,
            aways=self._aways,
            far=far,
        )
        arrival = self._arrived(interaction.user.id, interaction.channel_id)
        self._calls.create_task(self._serve(call, command, values, arrival))

    async def _opens_options(
        self,
        interaction: "discord.Interaction[Any]",
        command: str,
        values: Mapping[str, Any],
        about: discord.Message | None,
    ) -> bool:
        """Open the form of a slash command that was sent without values, if it has one."""
        typed = interaction.type is discord.InteractionType.application_command and about is None
        called = next((each for each in self._handler.commands if each.name == command), None)
        given = any(value is not None for value in values.values())
        if not typed or given or called is None or not has_form(called):
            return False
        asker = asker_of(interaction, self._platform.name)
        models = [each for each in called.params if each.kind is ParamKind.MODEL]
        if not all(self._handler.suggest(each, "", asker) for each in models):
            return False  # the call is refused, and nobody has filled in a form for that
        chosen = await self._handler.language_of(asker.user)
        language = chosen or interaction.locale.value
        form = options_form(called, self._handler, self._describe, language, asker)
        try:
            with chat_errors():
                await interaction.response.send_modal(form)
        except ChatError as error:
            _log.warning("%s: could not open a form: %s", self._platform.name, error)
        return True

    async def _serve(
        self, call: InteractionReply, command: str, values: Mapping[str, Any], arrival: Arrival
    ) -> None:
        try:
            with arrival:
                await call.serve(self._handler, command, values, arrival, downloads=self._downloads)
        except Exception:  # noqa: BLE001 - one broken call must not end the connection
            _log.exception("%s: /%s failed", self._platform.name, command)
