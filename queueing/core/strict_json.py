"""Writes JSON that every reader takes. Pure."""

import json
from typing import Any


def written(value: Any, *, raw: bool = False, spaced: bool = False) -> str:
    """Return JSON on one line: with `raw` letters as they are, `spaced` as Python writes it.

    NaN and infinities, which Python reads and writes and JSON does not have, become null as in
    JavaScript: what a server or a caller sent may hold them.
    """
    encoder = json.JSONEncoder(
        ensure_ascii=not raw, allow_nan=False, separators=None if spaced else (",", ":")
    )
    try:
        return encoder.encode(value)
    except ValueError:
        return encoder.encode(json.loads(json.dumps(value), parse_constant=_null))


def _null(_name: str) -> None:
    return None
