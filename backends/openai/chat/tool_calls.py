"""Renumbers the tool calls of one answer as OpenAI does. Pure.

Servers send the same index for all calls or none at all, omit ids, or send arguments as an object.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from queueing.core.bounded_json import written

Object = dict[str, Any]
CALLS_MOST = 128
"""Most tool calls in one answer; the API accepts no more in a request."""


NAME_LIMIT = 256  # characters of a name or an id; the API accepts no longer ones


@dataclass(kw_only=True, slots=True)
class ToolCallMade:
    """A tool call being received; `told` once its first piece has been returned."""

    index: int
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    told: bool = False

    def first(self) -> Object:
        """Return its first piece, with everything known so far."""
        self.told = True
        self.id = self.id or f"call_{secrets.token_hex(12)}"
        return {"index": self.index, **self.whole()}

    def whole(self) -> Object:
        """Return the call in the form of a whole answer."""
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, "type": "function", "function": function}


class ToolCalls:
    """The calls of an answer in order of appearance.

    `length` counts the characters of their pieces. `full` means that no more calls are accepted.
    """

    def __init__(self) -> None:
        self.calls: list[ToolCallMade] = []
        self.length = 0
        self.full = False
        self._latest: dict[int, ToolCallMade] = {}  # by the server's index, or position in its list
        self._by_id: dict[tuple[int | None, str], ToolCallMade] = {}

    def take(self, pieces: Sequence[Mapping[str, Any]]) -> list[Object]:
        """Convert pieces of calls to OpenAI's form, without empty ones."""
        taken = [self._one(at, piece, len(pieces) == 1) for at, piece in enumerate(pieces)]
        return [piece for piece in taken if piece is not None]

    def end(self) -> list[Object]:
        """Return the pieces that are still missing: calls without a name, and absent arguments."""
        made = []
        for call in self.calls:
            if not "".join(call.arguments).strip():
                call.arguments = ["{}"]
                made.append(_more(call, "{}") if call.told else call.first())
            elif not call.told:
                made.append(call.first())
        return made

    def _one(self, at: int, piece: Mapping[str, Any], alone: bool) -> Object | None:
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else piece
        name, text = _text(function.get("name")), _arguments(function.get("arguments"))
        self.length += len(text) + len(name) + len(_text(piece.get("id")))
        name = name.partition("<|")[0][:NAME_LIMIT]  # gpt-oss: some leave its marks in names
        call = self._of(at, piece, name, text, alone)
        if call is None:
            return None
        call.name = call.name or name
        call.arguments += [text] if text else []
        if call.told:
            return _more(call, text) if text else None
        return call.first() if call.name else None

    def _of(
        self, at: int, piece: Mapping[str, Any], name: str, text: str, alone: bool
    ) -> ToolCallMade | None:
        """Return the call that a piece belongs to; None if there are too many."""
        index, call_id = place_of(piece)
        if call_id and (known := self._by_id.get((index, call_id))) is not None:
            return known
        place = at if index is None else index
        continues = index is None and alone and not (call_id or name)
        call = self.calls[-1] if continues and self.calls else self._latest.get(place)
        if call is None or _is_another(call, call_id, name, text):
            if len(self.calls) >= CALLS_MOST:
                self.full = True
                return None
            call = ToolCallMade(index=len(self.calls))
            self.calls.append(call)
        self._latest[place] = call
        if call_id:
            if not call.id and all(other.id != call_id for other in self.calls):
                call.id = call_id  # a duplicate gets a generated id
            self._by_id[index, call_id] = self._by_id[None, call_id] = call
        return call


def calls_in(said: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the pieces of tool calls, including OpenAI's older `function_call`."""
    listed = said.get("tool_calls")
    if not listed and isinstance(legacy := said.get("function_call"), Mapping):
        listed = [{"function": legacy}]
    if isinstance(listed, Mapping):
        listed = [listed]
    pieces = listed if isinstance(listed, list) else ()
    return [piece for piece in pieces if isinstance(piece, Mapping)]


def place_of(piece: Mapping[str, Any]) -> tuple[int | None, str]:
    """Return the index and id of a piece, None and "" where absent."""
    return _number(piece.get("index")), _text(piece.get("id"))[:NAME_LIMIT]


def _is_another(call: ToolCallMade, call_id: str, name: str, text: str) -> bool:
    """Return whether a piece begins another call with the same index."""
    if not name or not call.name:
        return False
    if call_id and call.id:
        return call_id != call.id
    if name != call.name:
        return True
    return text.lstrip().startswith("{") and _is_whole("".join(call.arguments))


def _is_whole(arguments: str) -> bool:
    try:
        json.loads(arguments)
    except (ValueError, RecursionError):
        return False
    return True


def _more(call: ToolCallMade, text: str) -> Object:
    return {"index": call.index, "function": {"arguments": text}}


def _arguments(value: Any) -> str:
    """Return a call's arguments as text; some servers send an object."""
    if isinstance(value, Mapping | list):
        return written(value, raw=True, spaced=True)
    return _text(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int | None:
    """Return an index; some servers send it as text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value[:9])
    return value if isinstance(value, int) and not isinstance(value, bool) else None
