"""What a request may hold and no server here does: fields to refuse, and tools to leave out. Pure.

A field that decides what the answer is must not be dropped in silence. A tool is only an offer to
the model: one of a kind that no local server has is left out, and the answer says so.
"""

from collections.abc import Collection, Iterable
from typing import Any

from pydantic import AfterValidator, JsonValue

KINDS_TOLD = 500  # characters; OpenAI's limit of a value in `metadata` is 512
NAME_TOLD = 80  # characters
LEFT_OUT = "usher_left_out_tools"


def refused(way: str, *but: JsonValue) -> AfterValidator:
    """Return the mark of a field that is refused unless it is empty or one of `but`."""

    def check(value: JsonValue) -> JsonValue:
        if value and value not in but:
            raise ValueError(f"is not served here: {way}")
        return value

    return AfterValidator(check)


def kind_alone(value: Any) -> Any:
    """Return a tool that is no function as its kind alone, whatever else it holds."""
    kind = value.get("type") if isinstance(value, dict) else None
    return value if kind is None or kind == "function" else {"type": kind}


def left_out(kinds: Iterable[str]) -> dict[str, str]:
    """Return the `metadata` of an answer that name the kinds of tools which were left out."""
    told = ", ".join(dict.fromkeys(kind for kind in kinds if kind != "function"))
    return {LEFT_OUT: told[:KINDS_TOLD]} if told else {}


def require_tool(choice: object, named: str | None, offered: Collection[str | None]) -> None:
    """Refuse to require a call that no function is left for. Raises `ValueError`.

    `offered` are the names of the functions that a server gets; `named` is the one that the choice
    names.
    """
    if choice == "required" and not offered:
        raise ValueError("is “required”, but there is no function to call")
    if named is not None and named not in offered:
        raise ValueError(f"names the function “{named[:NAME_TOLD]}”, which is not among the tools")
