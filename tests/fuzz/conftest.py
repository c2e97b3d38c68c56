"""Gives each test of this folder the time that its examples need."""

from pathlib import Path

import pytest

from tests.fuzz.hostile_input import EXAMPLES

FOLDER = Path(__file__).parent
EXAMPLE_S = 6.0  # as much as each of the 50 has under the limit of other tests


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let ten thousand examples end: a test stopped by its time limit would look like a failure."""
    for item in items:
        if item.path.parent == FOLDER:
            item.add_marker(pytest.mark.timeout(max(300.0, EXAMPLES * EXAMPLE_S)))
