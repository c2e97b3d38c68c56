"""The command table: a command listed here exists on every platform at once."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from bot.chat.api.answers import Answer, Task
from bot.chat.api.content import Content
from bot.chat.api.table import Command
from bot.chat.commands import (
    again,
    ask,
    ask_about,
    audit,
    ban,
    cancel,
    clear,
    delete,
    describe,
    drain,
    edit,
    edit_picture,
    film,
    forget,
    history,
    image,
    invite,
    key,
    limit,
    listen,
    loras,
    models,
    move,
    music,
    new,
    new_topic,
    pause,
    preload,
    queue,
    resume,
    settings,
    show,
    speak,
    status,
    styles,
    transcribe,
    unban,
    uninvite,
    unload,
    upscale,
    vary,
    vary_subtle,
)
from bot.chat.commands import help as help_command
from bot.chat.commands.context import Call, Context

Handler = Callable[[Context, Call], Awaitable[Answer]]

_MODULES = (
    image,
    ask,
    describe,
    film,
    music,
    speak,
    transcribe,
    new,
    queue,
    cancel,
    again,
    history,
    show,
    edit,
    edit_picture,
    vary,
    vary_subtle,
    upscale,
    delete,
    styles,
    loras,
    ask_about,
    listen,
    new_topic,
    models,
    status,
    settings,
    key,
    forget,
    help_command,
    preload,
    unload,
    pause,
    resume,
    drain,
    clear,
    move,
    limit,
    ban,
    unban,
    invite,
    uninvite,
    audit,
)

COMMANDS: Sequence[Command] = tuple(module.COMMAND for module in _MODULES)
HANDLERS: Mapping[str, Handler] = {module.COMMAND.name: module.handle for module in _MODULES}

_WORK: Mapping[str, Callable[[Context, Task], Awaitable[Content]]] = {
    module.COMMAND.name: module.work for module in (preload, unload, drain, loras)
}


async def work(context: Context, task: Task) -> Content:
    """Do the part of a command that outlasts its call, perhaps once more after a restart."""
    return await _WORK[task.command](context, task)
