"""Reads the options of a backend or model into a validated record and reports wrong settings.

It knows no server; every kind of backend defines its own record.
"""

from collections.abc import Mapping
from typing import TypeVar

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from backends.common.setting_faults import in_words
from queueing.core.errors import BadModel
from queueing.core.requests import Record

NO_SETTING = "is no setting"

Options = TypeVar("Options", bound=Record)


def read_options(record: type[Options], options: Mapping[str, JsonValue], where: str) -> Options:
    """Return the options as a record.

    Raises `BadModel` naming each wrong setting under `where` ("models.qwen"). Values never appear
    in the text, because one of them is a token.
    """
    try:
        return record.model_validate(dict(options))
    except ValidationError as error:
        known = ", ".join(sorted(record.model_fields))
        raise BadModel(
            "; ".join(
                f"{'.'.join([where, *map(str, fault['loc'])])}: "
                + (f"{NO_SETTING} (known: {known})" if _is_unknown(fault) else in_words(fault))
                for fault in error.errors(include_url=False)
            )
        ) from None


def _is_unknown(fault: ErrorDetails) -> bool:
    return fault["type"] == "extra_forbidden"
