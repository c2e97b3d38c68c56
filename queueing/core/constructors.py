"""Creates frozen dataclasses as fast as ordinary ones.

The `__init__` of a frozen dataclass stores every field with a call to `object.__setattr__`. For a
job of twenty fields, that is most of what an event costs in Python. Here the fields are stored in a
mutable twin with the same slots, whose class is then changed to the frozen one.
"""

from collections.abc import Callable
from dataclasses import MISSING, field, fields, make_dataclass
from operator import attrgetter
from typing import Any, ParamSpec, Protocol, TypeVar

Fields = ParamSpec("Fields")
Frozen = TypeVar("Frozen")


class Altered(Protocol[Frozen]):
    """Returns a value with some of its fields changed, as `dataclasses.replace` does."""

    def __call__(self, value: Frozen, /, **changes: Any) -> Frozen:
        """Return a changed copy of a value."""


def quick(frozen: Callable[Fields, Frozen]) -> Callable[Fields, Frozen]:
    """Return a faster constructor for a frozen, slotted, keyword-only dataclass.

    Dataclasses with a `__post_init__` are not supported. Fields with a default factory must be
    given.
    """
    own: Any = frozen
    twin: Any = make_dataclass(
        f"Open{own.__name__}",
        [(each.name, each.type, _like(each.default)) for each in fields(own)],
        kw_only=True,
        slots=True,
    )

    def make(*_: Fields.args, **values: Fields.kwargs) -> Frozen:
        made: Any = twin(**values)
        made.__class__ = frozen
        return made  # type: ignore[no-any-return]

    return make


def altering(frozen: type[Frozen]) -> Altered[Frozen]:
    """Return a faster `dataclasses.replace` for a frozen, slotted dataclass.

    Dataclasses with a `__post_init__` or with a single field are not supported.
    """
    own: Any = frozen
    names = [each.name for each in fields(own)]
    twin: Any = make_dataclass(
        f"Altered{own.__name__}", [(name, Any) for name in names], slots=True
    )
    values = attrgetter(*names)

    def alter(value: Frozen, /, **changes: Any) -> Frozen:
        made: Any = twin(*values(value))
        for name, changed in changes.items():
            setattr(made, name, changed)
        made.__class__ = frozen
        return made  # type: ignore[no-any-return]

    return alter


def _like(default: object) -> Any:
    return field() if default is MISSING else field(default=default)
