"""The command table: a command listed here exists on every platform at once."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from bot.commands.admin import (
    audit,
    clear,
    drain,
    invite,
    limit,
    pause,
    people,
    preload,
    resume,
    unban,
    uninvite,
    unload,
)
from bot.commands.admin import (
    queue as move,
)
from bot.commands.call.context import Call, Context
from bot.commands.jobs import again, cancel, delete, edit, edit_picture, history, queue, show
from bot.commands.make import (
    ask,
    ask_about,
    audio,
    describe,
    image,
    listen,
    music,
    transcribe,
    upscale,
    vary,
    vary_subtle,
    video,
)
from bot.commands.me import (
    conversation,
    key,
    loras,
    models,
    new,
    new_topic,
    settings,
    status,
    styles,
)
from bot.commands.me import help as help_command
from bot.core.answers import Answer, Task
from bot.core.command import Command
from bot.core.content import Content

Handler = Callable[[Context, Call], Awaitable[Answer]]

_MODULES = (
    image,
    ask,
    describe,
    video,
    music,
    audio,
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
    conversation,
    help_command,
    preload,
    unload,
    pause,
    resume,
    drain,
    clear,
    move,
    limit,
    people,
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
