"""The call meant by a line that names no command, the same on every platform."""

import re
from collections.abc import Callable, Collection
from dataclasses import replace

from bot.core.attachments import SPOKEN, AttachmentKind
from bot.core.platform import Invocation

_SLIP = re.compile(r"/[/\s]+([A-Za-z][\w-]*)|/([A-Za-z][\w-]*)@\w+(?=[\s=]|$)")


def meant(
    invocation: Invocation,
    commands: Collection[str],
    is_model: Callable[[str], bool] = lambda _: False,
) -> Invocation:
    """Return the call that was meant; `commands` are the names people may type.

    Pictures without a word ask what is in them; a recording, alone or with a model's name, is a
    question itself. "//image cat" and "/ image cat" are slips, and "/image@usher cat" is Telegram's
    way to write it, not questions for a model: they are answered with the help about that command.
    """
    if invocation.command != "ask" or invocation.options:
        return invocation
    text = invocation.text.strip()
    kinds = {file.kind for file in invocation.files}
    if not text and kinds == {AttachmentKind.PICTURE}:
        return replace(invocation, command="describe")
    if kinds & SPOKEN and (not text or is_model(text)):
        return replace(invocation, command="listen")
    slip = _SLIP.match(text)
    named = (slip[1] or slip[2]) if slip is not None else ""
    if named.lower() in commands:
        return replace(invocation, command="help", text=named, files=())
    return invocation
