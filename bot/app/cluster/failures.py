"""Failures: the errors of the queue as values, so that a caller elsewhere catches the same class."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from queueing.core import errors
from queueing.core.errors import QueueError
from queueing.core.problems import Problem

_CLASSES: Mapping[str, type[QueueError]] = {
    name: each
    for name, each in inspect.getmembers(errors, inspect.isclass)
    if issubclass(each, QueueError)
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """An error: its class, its text for the log, what people are shown, and its own values."""

    kind: str
    cause: str
    problem: Problem | None
    values: Mapping[str, JsonValue]


def failure_of(error: QueueError) -> Failure:
    """Return an error as a value; an unknown class becomes the nearest known one."""
    kind = next(each.__name__ for each in type(error).__mro__ if each.__name__ in _CLASSES)
    known = inspect.signature(_CLASSES[kind].__init__).parameters
    values = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(error).items()
        if name in known and name != "problem"
    }
    return Failure(kind=kind, cause=str(error), problem=error.problem, values=values)


def error_of(failure: Failure) -> QueueError:
    """Return the error that a failure was made from. Raises `KeyError` for an unknown class."""
    error = _CLASSES[failure.kind].__new__(_CLASSES[failure.kind])
    QueueError.__init__(error, failure.cause, problem=failure.problem)
    for name, value in failure.values.items():
        setattr(error, name, tuple(value) if isinstance(value, list) else value)
    return error
