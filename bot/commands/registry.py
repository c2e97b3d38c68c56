"""The command table. A command listed here exists on every platform."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from bot.commands.admin import limit, pause, people, preload
from bot.commands.admin import queue as admin_queue
from bot.commands.call.context import Call, Context
from bot.commands.jobs import cancel, edit, history, queue
from bot.commands.make import ask, audio, describe, image, vary, video
from bot.commands.me import conversation, key, models, settings, status
from bot.commands.me import help as help_command
from bot.core.answers import Answer, Task
from bot.core.command import Command
from bot.core.content import Content
from bot.core.panels import Panel
from bot.requests.rules import EVERYTHING

Handler = Callable[[Context, Call], Awaitable[Answer]]

_TABLE: Sequence[tuple[Command, Handler]] = (
    (image.COMMAND, image.handle),
    (ask.ASK, ask.handle_ask),
    (describe.DESCRIBE, describe.handle_describe),
    (video.COMMAND, video.handle),
    (audio.MUSIC, audio.handle_music),
    (audio.SPEAK, audio.handle_speak),
    (describe.TRANSCRIBE, describe.handle_transcribe),
    (conversation.NEW, conversation.handle_new),
    (queue.COMMAND, queue.handle),
    (cancel.CANCEL, cancel.handle_cancel),
    (edit.AGAIN, edit.handle_again),
    (history.HISTORY, history.handle_history),
    (history.SHOW, history.handle_show),
    (history.COPY, history.handle_copy),
    (edit.EDIT, edit.handle_edit),
    (edit.EDIT_IMAGE, edit.handle_edit_image),
    (vary.VARY, vary.handle_vary),
    (vary.VARY_SUBTLE, vary.handle_vary_subtle),
    (vary.UPSCALE, vary.handle_upscale),
    (cancel.DELETE, cancel.handle_delete),
    (models.STYLES, models.handle_styles),
    (models.LORAS, models.handle_loras),
    (ask.ASK_ABOUT, ask.handle_ask_about),
    (ask.LISTEN, ask.handle_listen),
    (conversation.NEW_TOPIC, conversation.handle_new_topic),
    (models.MODELS, models.handle_models),
    (status.COMMAND, status.handle),
    (settings.COMMAND, settings.handle),
    (key.COMMAND, key.handle),
    (conversation.FORGET, conversation.handle_forget),
    (conversation.FORGET_ME, conversation.handle_forget_me),
    (help_command.COMMAND, help_command.handle),
    (preload.PRELOAD, preload.handle_preload),
    (preload.UNLOAD, preload.handle_unload),
    (pause.PAUSE, pause.handle_pause),
    (pause.RESUME, pause.handle_resume),
    (pause.DRAIN, pause.handle_drain),
    (admin_queue.CLEAR, admin_queue.handle_clear),
    (admin_queue.MOVE, admin_queue.handle_move),
    (limit.COMMAND, limit.handle),
    (people.BAN, people.handle_ban),
    (people.UNBAN, people.handle_unban),
    (people.INVITE, people.handle_invite),
    (people.UNINVITE, people.handle_uninvite),
    (people.AUDIT, people.handle_audit),
)

COMMANDS: Sequence[Command] = tuple(command for command, _ in _TABLE)
HANDLERS: Mapping[str, Handler] = {command.name: handler for command, handler in _TABLE}

PANELS: Mapping[str, Callable[[Context, Call], Awaitable[Panel]]] = {
    models.MODELS.name: models.panel_models,
    settings.COMMAND.name: settings.panel,
    status.COMMAND.name: status.panel,
    history.HISTORY.name: history.panel_history,
}
"""The commands that the web page also shows as panels."""

_WORK: Mapping[str, Callable[[Context, Task], Awaitable[Content]]] = {
    preload.PRELOAD.name: preload.work_preload,
    preload.UNLOAD.name: preload.work_unload,
    pause.DRAIN.name: pause.work_drain,
    models.LORAS.name: models.work_loras,
}


async def work(context: Context, task: Task) -> Content:
    """Run the part of a command that outlives its call. It may run again after a restart."""
    asker = task.asker
    rule = EVERYTHING if asker is None else context.admission.rules.of(asker)
    return await _WORK[task.command](context.under(rule), task)
