"""Forms as Discord's modals, and submitted forms as calls."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import discord

from bot.core.content import Form

FORM_LABEL_MOST = 45  # of a form's title and of a field's label
FORM_VALUE_MOST = 4000

_FORM_ID = re.compile(
    r"form:(?P<command>[-_\w]{1,32})(?::(?P<id>\d{1,18}))?(?::(?P<number>\d{1,2}))?", re.ASCII
)


def modal_of(form: Form) -> discord.ui.Modal:
    """Return a form as a Discord modal. It is stopped, like a view, and recognised by its id."""
    about = "".join(f":{each}" for each in (form.job_id, form.number) if each is not None)
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


def filled_in(
    data: Mapping[str, Any], state: Any = None
) -> tuple[str, dict[str, str | int | discord.Attachment]] | None:
    """Return a submitted form's command and values, or None for an unknown form.

    Fields are wrapped in a label or, from older clients, in a row. Further files of a field are
    numbered from 2. `state` is discord.py's.
    """
    found = _FORM_ID.fullmatch(str(data.get("custom_id", "")))
    if found is None:
        return None
    rows = data.get("components")
    lines = [line for row in rows for line in _lines_in(row)] if isinstance(rows, list) else []
    files = _files_in(data, state)
    values: dict[str, str | int | discord.Attachment] = {}
    for line in lines:
        name, chosen = str(line["custom_id"]), _chosen_in(line)
        if line.get("type") == discord.ComponentType.file_upload.value:
            given = [files[each] for each in chosen if each in files]
            values |= {name if n == 1 else f"{name}{n}": each for n, each in enumerate(given, 1)}
        else:
            values[name] = str(line.get("value") or "".join(chosen))
    about = {name: int(found[name]) for name in ("id", "number") if found[name]}
    return found["command"], values | about


def _chosen_in(line: Mapping[str, Any]) -> Sequence[str]:
    chosen = line.get("values")
    return [str(each) for each in chosen] if isinstance(chosen, list) else []


def _files_in(data: Mapping[str, Any], state: Any) -> Mapping[str, discord.Attachment]:
    """Return the files that were uploaded with a form, by their ids."""
    resolved = data.get("resolved")
    described = resolved.get("attachments") if isinstance(resolved, Mapping) else None
    found = {}
    for key, each in described.items() if isinstance(described, Mapping) else ():
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            found[str(key)] = discord.Attachment(data=each, state=state)
    return found


def _lines_in(row: Any) -> Sequence[Mapping[str, Any]]:
    """Return the named fields of a row."""
    if not isinstance(row, Mapping):
        return ()
    parts = [row["component"]] if "component" in row else row.get("components")
    named = parts if isinstance(parts, list) else ()
    return [part for part in named if isinstance(part, Mapping) and "custom_id" in part]
