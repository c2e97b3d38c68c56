"""The one way in which a test lets a time limit of the program pass in real time."""

from types import ModuleType

import pytest

AT_ONCE_S = 0.05


def runs_out(patch: pytest.MonkeyPatch, of: ModuleType | object, name: str) -> None:
    """Let a time limit pass almost at once, from here on.

    Only for a wait that is certain to be in vain, and once all that must succeed has succeeded: a
    busy machine may need seconds for what takes a millisecond here.
    """
    assert getattr(of, name) > AT_ONCE_S
    patch.setattr(of, name, AT_ONCE_S)
