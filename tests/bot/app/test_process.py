"""What the process takes from the system, and what it loads before it needs it."""

import logging
import subprocess
import sys

import pytest

from bot.app import process

resource = pytest.importorskip("resource")

LATE = """
import sys
from bot.app import process
process.settle()
before = set(sys.modules)
import io
from PIL import Image
for kind in ("PNG", "JPEG", "WEBP", "GIF", "AVIF"):
    out = io.BytesIO()
    Image.new("RGB", (8, 8)).save(out, kind)
    Image.open(out, formats=(kind,)).load()
"\\ud83d".encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
print(*sorted(set(sys.modules) - before))
"""


def test_no_module_is_imported_in_the_middle_of_the_work() -> None:
    """With no file handle left, an image or a message failed because a codec could not be read."""
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, check=True, timeout=60
    )
    late = [name for name in done.stdout.split() if name.startswith(("PIL.", "encodings."))]
    assert late == []


CHATS = """
import sys
from bot.config.chats import ChatsConfig
from bot.app import process, runner as running
from bot.platforms.registry import import_libraries
chats = {"web": {"port": 0}}
for more in ({}, {"telegram": {"token": "1:a", "api_url": "http://127.0.0.1:9"}}, {"discord": {"token": "a.b.c"}}):
    chats |= more
    import_libraries(ChatsConfig.model_validate(chats))
    print(*sorted({"bot.app.console", "discord", "telegram"} & set(sys.modules)))
"""


@pytest.mark.thorough
def test_the_libraries_of_the_configured_chats_are_imported_and_no_others() -> None:
    """A bot with one chat would start as slowly as one with all, or a takeover wait for imports."""
    done = subprocess.run(
        [sys.executable, "-c", CHATS], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split("\n") == ["", "telegram", "discord telegram", ""]


def test_as_many_files_as_the_system_allows_may_be_open(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The usual limit of 256 would allow few visitors of the page though the system allows more."""
    limits = {"now": (256, 4096)}
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: limits.update(now=both))
    process.allow_open_files()
    assert limits["now"] == (4096, 4096)
    assert not caplog.records

    limits["now"] = (64, 64)
    with caplog.at_level(logging.WARNING):
        process.allow_open_files()
    assert "only 64 files" in caplog.text


COLLECTING = """
import gc
from bot.app import process
process.settle()
looks = [0, 0, 0]
gc.callbacks.append(lambda phase, info: looks.__setitem__(info["generation"], 1))
waiting = [[{}] for _ in range(500_000)]
print(*looks, gc.get_freeze_count() > 10_000)
"""


def test_a_line_that_grows_stops_no_one_to_look_for_garbage() -> None:
    """The longer the queue, the longer the bot was blocked: half a second, again and again."""
    done = subprocess.run(
        [sys.executable, "-c", COLLECTING], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["1", "1", "0", "True"]


FREED = """
import asyncio, re, sys
from pathlib import Path
from bot.app import process

size = int(sys.argv[1])

def held_mb():
    return int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024

async def until_small():
    much = [bytearray(b"x" * size) for _ in range(200_000_000 // size)]
    process._TRIM_EVERY_S, before = 0.0, held_mb()
    much[:] = much[::20]  # in between nothing is used any more
    small = asyncio.create_task(process.stay_small())
    while held_mb() > before - 100:
        await asyncio.sleep(0)
    small.cancel()

process.settle()
asyncio.run(until_small())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator alone")
@pytest.mark.parametrize("size", [100_000, 5_000_000, 40_000_000])
def test_memory_between_what_is_used_goes_back_to_the_system(size: int) -> None:
    """After a busy hour a third of the process was memory that held nothing."""
    subprocess.run([sys.executable, "-c", FREED, str(size)], check=True, timeout=60)
