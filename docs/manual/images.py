"""Makes the images of the documentation from the running demo: `python -m docs.manual.images`.

The demo runs with a crowd, and a real Chromium types and looks. `docs/life-of-a-job.gif` shows one
job from its place in the queue to its image; `docs/screenshot.png` shows three moments of it side by side.
Emoji need a font, such as `fonts-noto-color-emoji` on Debian.
"""

import asyncio
import io
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from PIL import Image

from tests.fakes.programs.chromium import Page, running_chromium

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
CROWD = 6
CROWD_FIRST_S = 45.0  # so that there is a queue to join, of a model whose times are known
SIZE = (390, 844)  # pixels of the page, before they are doubled
LOOK_EVERY_S = 0.5
AT_MOST_S = 300.0
LAST_FOR_MS = 4000
COLOURS = 160
IMAGE = "/image flux a cat in a boat by a lighthouse at dusk"
WAITS, RUNS, DONE = "in line", "step ", "seed"  # what the page shows at the three moments


async def main() -> int:
    """Make all images."""
    with tempfile.TemporaryDirectory() as folder, running_chromium(Path(folder) / "chromium") as it:
        async with demo(Path(folder)) as url, it.page() as page:
            await _screen(page, *SIZE)
            await page.goto(url)
            await page.wait_text("Connected")
            await asyncio.sleep(CROWD_FIRST_S)
            await _say(page, IMAGE)
            looks = await _life(page, Path(folder) / "look.png")
            write_video(DOCS / "life-of-a-job.gif", [look for _, look in looks])
            write_moments(DOCS / "screenshot.png", looks)
    return 0


@asynccontextmanager
async def demo(folder: Path) -> AsyncIterator[str]:
    """Run `usher demo` with a crowd and yield the address of its page."""
    command = ["-P", "-m", "bot", "demo", "--port", "0", "--crowd", str(CROWD), "--fresh"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command, "--database", str(folder / "demo.sqlite")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    try:
        yield await _address(process.stdout)
    finally:
        process.terminate()
        await process.communicate()


async def _address(printed: asyncio.StreamReader) -> str:
    async for line in printed:
        for word in line.decode().split():
            if word.startswith("http://"):
                return word.rstrip(".,")
    raise RuntimeError("the demo ended without saying where its page is")


async def _screen(page: Page, width: int, height: int) -> None:
    await page.call(
        "Emulation.setDeviceMetricsOverride",
        width=width,
        height=height,
        deviceScaleFactor=2,
        mobile=False,
    )


async def _say(page: Page, line: str) -> None:
    await page.click("#text")
    await page.type(line)
    await page.press("Enter")


async def _life(page: Page, file: Path) -> list[tuple[str, bytes]]:
    """Look at the page until the image is there; return its text and its screenshots."""
    looks: list[tuple[str, bytes]] = []
    for _ in range(int(AT_MOST_S / LOOK_EVERY_S)):
        text = await page.text("#messages")
        await page.screenshot(file)
        looks.append((text, await asyncio.to_thread(file.read_bytes)))
        if DONE in text:
            return looks
        await asyncio.sleep(LOOK_EVERY_S)
    raise RuntimeError("the image did not come")


def write_video(file: Path, looks: Sequence[bytes]) -> None:
    """Write an animated GIF; equal looks become one that is shown for longer."""
    frames: list[Image.Image] = []
    lasts_ms: list[int] = []
    before: bytes | None = None
    for look in looks:
        if look == before:
            lasts_ms[-1] += int(LOOK_EVERY_S * 1000)
            continue
        before = look
        shown = Image.open(io.BytesIO(look)).convert("RGB")
        shown = shown.resize((shown.width // 2, shown.height // 2), Image.Resampling.LANCZOS)
        frames.append(shown)
        lasts_ms.append(int(LOOK_EVERY_S * 1000))
    lasts_ms[-1] = LAST_FOR_MS
    palette = _beside(frames[:: max(1, len(frames) // 6)] + frames[-1:]).quantize(COLOURS)
    first, *others = [each.quantize(palette=palette, dither=Image.Dither.NONE) for each in frames]
    first.save(file, save_all=True, append_images=others, duration=lasts_ms, loop=0, optimize=True)


def write_moments(file: Path, looks: Sequence[tuple[str, bytes]]) -> None:
    """Write one wide image: the job waits, runs and is done."""
    waits = [look for text, look in looks if WAITS in text]
    runs = [look for text, look in looks if RUNS in text]
    moments = [waits[len(waits) // 2], runs[len(runs) * 3 // 4], looks[-1][1]]
    frames = [Image.open(io.BytesIO(each)).convert("RGB") for each in moments]
    _beside(frames).quantize(256).save(file, optimize=True)


def _beside(frames: Sequence[Image.Image]) -> Image.Image:
    """Return some frames side by side: all colours that any of them needs."""
    width, height = frames[0].size
    sheet = Image.new("RGB", (width * len(frames), height))
    for place, frame in enumerate(frames):
        sheet.paste(frame, (place * width, 0))
    return sheet


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
