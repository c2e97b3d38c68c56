"""Reads the options of a backend or model into a validated record and reports wrong settings.

It knows no server; every kind of backend defines its own record.
"""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from queueing.core.errors import BadModel
from queueing.core.requests import Record

_WORDS = {"missing": "is missing", "extra_forbidden": "is no setting"}

Options = TypeVar("Options", bound=Record)


def read_options(record: type[Options], options: Mapping[str, JsonValue], where: str) -> Options:
    """Return the options as a record.

    Raises `BadModel` naming each wrong setting under `where` ("models.qwen"). Values never appear
    in the text, because one of them is a token.
    """
    try:
        return record.model_validate(dict(options))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        known = ", ".join(sorted(record.model_fields))
        raise BadModel(
            "; ".join(
                f"{'.'.join([where, *map(str, fault['loc'])])}: {_WORDS.get(fault['type'], fault['msg'])}"
                + (f" (known: {known})" if fault["type"] == "extra_forbidden" else "")
                for fault in faults
            )
        ) from None
