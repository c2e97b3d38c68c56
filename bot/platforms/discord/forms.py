"""Forms as Discord's modals, and submitted forms as calls."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import discord

from bot.core.content import Form

FORM_LABEL_MOST = 45  # of a form's title and of a field's label
FORM_VALUE_MOST = 4000

_FORM_ID = re.compile(r"form:(?P<command>[-_\w]{1,32})(?::(?P<id>\d{1,18}))?", re.ASCII)


def modal_of(form: Form) -> discord.ui.Modal:
    """Return a form as a Discord modal. It is stopped, like a view, and recognised by its id."""
    about = "" if form.job_id is None else f":{form.job_id}"
    modal = discord.ui.Modal(
        title=form.title[:FORM_LABEL_MOST], custom_id=f"form:{form.command}{about}"
    )
    for field in form.fields:
        style = discord.TextStyle.paragraph if field.long else discord.TextStyle.short
        line: discord.ui.TextInput[discord.ui.Modal] = discord.ui.TextInput(
            custom_id=field.name,
            style=style,
            default=field.value[:FORM_VALUE_MOST] or None,
            required=field.required,
            max_length=FORM_VALUE_MOST,
        )
        modal.add_item(discord.ui.Label(text=field.label[:FORM_LABEL_MOST], component=line))
    modal.stop()
    return modal


def filled_in(data: Mapping[str, Any]) -> tuple[str, dict[str, str | int]] | None:
    """Return a submitted form's command and values, or None for an unknown form.

    Fields are wrapped in a label or, from older clients, in a row.
    """
    found = _FORM_ID.fullmatch(str(data.get("custom_id", "")))
    if found is None:
        return None
    rows = data.get("components")
    lines = [line for row in rows for line in _lines_in(row)] if isinstance(rows, list) else []
    values: dict[str, str | int] = {
        str(line["custom_id"]): str(line.get("value") or "".join(line.get("values") or ()))
        for line in lines
    }
    return found["command"], values | ({"id": int(found["id"])} if found["id"] else {})


def _lines_in(row: Any) -> Sequence[Mapping[str, Any]]:
    """Return the named fields of a row."""
    if not isinstance(row, Mapping):
        return ()
    parts = [row["component"]] if "component" in row else row.get("components")
    named = parts if isinstance(parts, list) else ()
    return [part for part in named if isinstance(part, Mapping) and "custom_id" in part]
