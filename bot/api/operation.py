"""The record of what a route takes and returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bot.api.parameters import Parameter

JSON = "application/json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Operation:
    """A route: its request and its answer as types, with the statuses it may have besides.

    `answers` holds the type of the answer for each content type, None if its form is OpenAI's or
    that of a file. `form` are the fields of a request in multipart form. `items` is the type of each event
    of a stream, and `empty` says when there is none, a 204. An `absent` route has errors only.
    """

    summary: str
    tag: str = "OpenAI"
    status: int = 200
    request: Any = None
    answers: Mapping[str, Any] = field(default_factory=lambda: {JSON: None})
    form: Mapping[str, Any] = field(default_factory=dict)
    items: Any = None
    empty: str = ""
    parameters: tuple[Parameter, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    public: bool = False
    absent: bool = False
