"""What every test finds as the one before it found it."""

import logging
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import settings

from bot import logs

# The machine may be busy: a slow example is no failure. A failure prints how to repeat it.
settings.register_profile("usher", deadline=None, print_blob=True)
settings.load_profile("usher")


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Undo what a test that starts the program in this process did to its logging."""
    root = logging.getLogger()
    hooks = (sys.excepthook, threading.excepthook)
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in logs.CHATTY}
    yield
    sys.excepthook, threading.excepthook = hooks
    root.handlers = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
