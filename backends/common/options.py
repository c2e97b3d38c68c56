"""Reads the options of a backend or a model into a validated record; says which setting is wrong.

Owns nothing of any server; every kind of backend brings its own record.
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

    Raises `BadModel` naming each wrong setting under `where` ("models.qwen"). Values are never
    part of the text: a token stands among them.
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
