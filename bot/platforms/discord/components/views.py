"""Buttons and galleries as discord.py's views, and pressed buttons as calls. Pure functions."""

import re
from collections.abc import Sequence
from typing import Any

import discord

from backends.common.file_types import is_image, is_video
from bot.core.content import Button, Content
from queueing.core.requests import File

LABEL_MOST = 80
ROWS_MOST = 5  # of buttons, in a message that is no layout
COMPONENTS_MOST = 40  # of a layout, each button included

_BUTTON_ID = re.compile(
    r"job:(?P<id>\d{1,18}):(?P<command>[-_\w]{1,32})(?::(?P<number>\d{1,2}))?", re.ASCII
)


def view_of(rows: Sequence[Sequence[Button]]) -> discord.ui.View | None:
    """Return the buttons, or None if there are none.

    The view is stopped, so that discord.py does not keep one in memory for every message. A press
    is recognised by the button's id, even after a restart. Of more rows than fit, those of single
    images are left out, which are not shown then.
    """
    if not any(rows):
        return None
    if len(rows) > ROWS_MOST:
        rows = [row for row in rows if image_of(row) is None]
    view = discord.ui.View(timeout=None)
    for index, row in enumerate(rows):
        for button in row:
            view.add_item(_pressable(button, row=index))
    view.stop()
    return view


def image_of(row: Sequence[Button]) -> int | None:
    """Return the number of the image that a row of buttons belongs to; None if it belongs to all."""
    numbers = {button.number for button in row}
    return numbers.pop() if len(numbers) == 1 else None


def is_gallery(content: Content) -> bool:
    """Return whether a message shows several images, each with its own buttons."""
    images = sum(is_image(file.mime) for file in content.files)
    return images > 1 and any(image_of(row) is not None for row in content.buttons)


def layout_of(content: Content, text: str, files: Sequence[discord.File]) -> discord.ui.LayoutView:
    """Return a message as components: its text, each image above its buttons, the other buttons.

    If there are too many images for all their buttons, each keeps its first ones.
    """
    view = discord.ui.LayoutView(timeout=None)
    if text:
        view.add_item(discord.ui.TextDisplay(text))
    own = {image_of(row): row for row in content.buttons if image_of(row) is not None}
    shared = [row for row in content.buttons if row and image_of(row) is None]
    left = COMPONENTS_MOST - len(view.children) - len(files) - sum(1 + len(row) for row in shared)
    each_most = left // len(own) - 1 if own else 0
    images = 0
    for file, upload in zip(content.files, files, strict=True):
        view.add_item(_media(file, upload))
        images += is_image(file.mime)
        if is_image(file.mime) and (row := own.get(images, ())[: max(0, each_most)]):
            view.add_item(_row(row))
    for row in shared:
        view.add_item(_row(row))
    view.stop()
    return view


def _media(
    file: File, upload: discord.File
) -> "discord.ui.MediaGallery[discord.ui.LayoutView] | discord.ui.File[discord.ui.LayoutView]":
    if is_image(file.mime) or is_video(file.mime):
        return discord.ui.MediaGallery(discord.MediaGalleryItem(upload))
    return discord.ui.File(upload)


def _row(buttons: Sequence[Button]) -> "discord.ui.ActionRow[discord.ui.LayoutView]":
    return discord.ui.ActionRow(*(_pressable(button) for button in buttons))


def _pressable(button: Button, *, row: int | None = None) -> "discord.ui.Button[Any]":
    return discord.ui.Button(
        row=row,
        label=button.label[:LABEL_MOST],
        custom_id=_button_id(button),
        style=discord.ButtonStyle.danger if button.danger else discord.ButtonStyle.secondary,
    )


def _button_id(button: Button) -> str:
    number = "" if button.number is None else f":{button.number}"
    return f"job:{button.job_id}:{button.command}{number}"


def pressed(custom_id: str) -> tuple[str, dict[str, int]] | None:
    """Return a button's command and values, or None for an id the bot did not create."""
    found = _BUTTON_ID.fullmatch(custom_id)
    if found is None:
        return None
    values = {"id": int(found["id"])}
    return found["command"], values | ({"number": int(found["number"])} if found["number"] else {})
