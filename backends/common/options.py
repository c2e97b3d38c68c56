"""Validates the options of a backend or model and reports wrong settings.

Each kind of backend defines its own record.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

from pydantic import JsonValue, ValidationError
from pydantic_core import ErrorDetails

from queueing.core.catalog import near
from queueing.core.errors import BadModel
from queueing.core.requests import Record

_WORDS = {
    "missing": "is missing",
    "string_type": "must be text (put a number in quotes)",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a number",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "tuple_type": "must be a list, such as [one, two]",
    "frozen_set_type": "must be a list, such as [one, two]",
    "dict_type": "must be a group of settings",
    "model_type": "must be a group of settings",
    "model_attributes_type": "must be a group of settings",
    "string_pattern_mismatch": "must be a name without spaces and =, not beginning with - or /",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must not be empty",
    "value_error": "{error}",
    "path_type": "must be a path",
}
"""pydantic's error types in words for an operator; other types keep pydantic's text."""


def in_words(fault: ErrorDetails) -> str:
    """Describe a pydantic error in words.

    Never quotes the value, which may be a secret. A "did you mean …?" hint only quotes allowed
    choices.
    """
    words = _WORDS.get(fault["type"])
    if words is None:
        return fault["msg"]
    told = words.format(**fault.get("ctx", {}))
    if fault["type"] in {"literal_error", "enum"}:
        meant = near(str(fault["input"]), re.findall(r"'([^']*)'", fault["ctx"]["expected"]))
        return f"{told}; did you mean {meant[0]}?" if meant else told
    return told


NO_SETTING = "unknown setting"

Options = TypeVar("Options", bound=Record)


def read_options(record: type[Options], options: Mapping[str, JsonValue], where: str) -> Options:
    """Parse the options into a record.

    Raises `BadModel`, which names each wrong setting under `where` ("models.qwen"). The message
    contains no values, because one of them may be a token.
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
