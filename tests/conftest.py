"""Every test starts in the same state as the one before."""

import gc
import logging
import os
import shutil
import ssl
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from backends.demo import painting as demo_art
from backends.media import videos
from backends.media.helper import process as helper
from bot.app import logs
from bot.http import clients
from queueing.engine import health_checker, program_watcher, scheduler
from tests.fakes.media_helper import CANVAS, EAGER, here
from tests.samples import QUICK_PROFILE, THOROUGH_PROFILE

# Begun first, so that no worker is left alone with one of them while the others have nothing to do.
LONG = (
    "chaos/test_chaos.py",
    "processes/cluster/test_cluster.py",
    "contracts/backend/test_backend.py",
    "fuzz/test_media.py",
    "processes/test_killed.py",
    "processes/test_reload.py",
    "bot/api/test_schemathesis.py",
    "chaos/test_cluster_chaos.py",
    "processes/cluster/test_joining.py",
    "fuzz/test_servers.py",
    "bot/platforms/web/test_web_page.py",
    "bot/platforms/web/dashboard/test_operator_page.py",
    "simulation/test_random_scenarios.py",
    "simulation/test_soak.py",
    "test_tasks.py",
    "test_wheel.py",
    "benchmarks/test_schedule.py",
    "benchmarks/test_edits.py",
    "bot/api/routes/test_audio.py",
    "queueing/engine/fleet/test_gpu_failover.py",
    "bot/platforms/telegram/test_telegram_albums.py",
    "bot/api/runs/test_repeats.py",
    "security/test_invited_people.py",
    "queueing/service/test_deadlines.py",
    "bot/api/runs/test_two_gateways.py",
    "queueing/store/test_fence.py",
    "contracts/chat/test_chat_order.py",
    "bot/cli/test_cli.py",
    "security/test_hostile_servers.py",
    "contracts/queue/test_whose_models_leave.py",
    "contracts/queue/test_queue_service.py",
    "wild/test_markdown.py",
    "wild/test_streams.py",
    "wild/test_crowds.py",
    "security/test_stopping.py",
    "security/test_secrets.py",
    "bot/platforms/web/test_web_files.py",
)
TESTS = Path(__file__).parent
# What `tasks.py check` leaves to `tasks.py check --thorough`, in addition to tests that are marked
# as thorough and to those that need a browser.
THOROUGH = ("benchmarks", "chaos", "fuzz", "processes")
QUICK = "not thorough"  # as in tasks.py
MEMORY = Path("/dev/shm")  # the machine's, as a folder
ROOM_BYTES = 4 * 2**30  # databases and files of a run are a tenth of that
pytest_plugins = ["tests.left_open", "tests.postgres"]
# An extra, which has no build for every machine; its tests cannot even be read without it.
NEED_PSYCOPG = (
    "contracts/queue/test_leases.py",
    "queueing/store/test_fence.py",
    "queueing/store/test_postgres_*.py",
    "benchmarks/test_store.py",
)
collect_ignore_glob = [] if find_spec("psycopg") else list(NEED_PSYCOPG)

# The machine may be busy: a slow example is no failure. A failure prints how to repeat it. The same
# source is tried with the same examples each time; with USHER_RANDOM, with others.
IS_REPEATABLE = "USHER_RANDOM" not in os.environ
settings.register_profile(
    THOROUGH_PROFILE, deadline=None, print_blob=True, derandomize=IS_REPEATABLE
)
settings.register_profile(QUICK_PROFILE, settings.get_profile(THOROUGH_PROFILE))


def pytest_configure(config: pytest.Config) -> None:
    """Tell `tests.samples` which check it is, and keep files in memory where there is room.

    Many tests wait only for a disk.
    """
    if IS_REPEATABLE:
        # Hypothesis also tries constants of all imported modules of a project, so that a test's
        # examples would depend on which other tests its process happened to import.
        vars(providers)["is_local_module_file"] = lambda path: False
    is_quick = config.option.markexpr == QUICK
    settings.load_profile(QUICK_PROFILE if is_quick else THOROUGH_PROFILE)
    if "TMPDIR" not in os.environ and _has_room(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it is looked up again


def _has_room(folder: Path) -> bool:
    """Return whether files may be written there, and programs be run there."""
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        return False
    may_run = not os.statvfs(folder).f_flag & os.ST_NOEXEC
    return may_run and shutil.disk_usage(folder).free >= ROOM_BYTES


@settings(max_examples=1, database=None)
@given(st.none())
def _have_random_numbers(_: None) -> None:
    """Have Hypothesis make its random numbers.

    It warns if nothing refers to them, and Python does not show references from frozen objects.
    """


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let Python look for garbage in what tests leave, and not in the tests, which stay."""
    _have_random_numbers()
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)  # what is left is looked for at the end of each file
    gc.enable()


@cache
def _is_thorough(path: Path) -> bool:
    return any(path.is_relative_to(TESTS / folder) for folder in THOROUGH)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no thorough test for the quick check, which would deselect it."""
    if config.option.markexpr == QUICK and _is_thorough(collection_path):
        return True
    return None  # others decide


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark thorough tests, and put the files that take longest first; others keep their order.

    A browser competes for a busy machine, so its tests are repeated once if they fail. The closing
    line counts them. All others have one try: what fails now and then may lose a job.
    """
    for item in items:
        in_browser = item.get_closest_marker("browser")
        if in_browser:
            item.add_marker(pytest.mark.flaky(reruns=1))
        if in_browser or _is_thorough(item.path):
            item.add_marker(pytest.mark.thorough)
    places = {TESTS / name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show the first failures of tests that were repeated, even if they passed then."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"repeated: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture(autouse=True, scope="session")
def videos_have_their_turn() -> Iterator[None]:
    """Let the helper for files run at normal priority."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(helper, "PROGRAM", EAGER)
        yield


@pytest.fixture(autouse=True, scope="session")
def demo_paints_on_small_canvases() -> Iterator[None]:
    """Let an image of the demo take a hundredth of a second instead of one: there are hundreds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_art, "CANVAS", CANVAS)
        yield


@pytest.fixture(autouse=True, scope="session")
def certificates_are_read_once() -> Iterator[None]:
    """Let the clients of all tests share their certificates: none of the tests needs any.

    Reading them takes each client longer than most tests take.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Reset what tests share, and undo what starting the program did to logging.

    It is one fixture, because each takes the time of thousands of tests. A test that uses up its
    worker's turns fails: on a busy machine all after it would starve.
    """
    clients.forget()  # which lines the log had within the last minute
    videos._looks.clear()
    videos._fits.clear()
    root, eager = logging.getLogger(), _niceness()
    hooks = (sys.excepthook, threading.excepthook)
    handlers = list(root.handlers)
    levels = {name: logging.getLogger(name).level for name in (None, *logs.CHATTY)}
    yield
    sys.excepthook, threading.excepthook = hooks
    root.handlers = handlers
    logging.captureWarnings(capture=False)
    for name, before in levels.items():
        if (logger := logging.getLogger(name)).level != before:  # each change costs all loggers
            logger.setLevel(before)
    assert _niceness() == eager


@pytest.fixture
def helper_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do the work of the helper for files without its process, which test_media_helper.py tests.

    Documents keep the process: a PDF is read differently after much else was done in the same
    process.
    """
    for module in ("images", "videos", "sounds"):
        monkeypatch.setattr(f"backends.media.{module}.ask", here)


@pytest.fixture
def rare_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at idle queues and servers only once a minute, so that days take seconds."""
    monkeypatch.setattr(scheduler, "TICK_S", 60.0)
    for watching in (health_checker, program_watcher):
        monkeypatch.setattr(watching, "EVERY_S", 60.0)


def _niceness() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0) if hasattr(os, "getpriority") else 0
