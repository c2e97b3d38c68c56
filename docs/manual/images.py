"""Makes the images of the documentation from the running demo: `python -m docs.manual.images`.

The demo runs with a crowd, and a real Chromium types and looks; so the images show what is so.
`docs/screenshot.png` is the chat page, `docs/life-of-a-job.gif` one job from its place in line to its
image. Signs such as 🎞️ need a font, on Debian that of `fonts-noto-color-emoji`.
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
SHOT = (500, 900)  # pixels of the page, before they are doubled
LIFE = (390, 690)
LOOK_EVERY_S = 0.5
AT_MOST_S = 300.0
LAST_FOR_MS = 4000
COLOURS = 160
QUESTION = "/ask why is the sky blue?"
IMAGE = "/image flux a lighthouse at dusk"
OTHER = "/image sdxl a fox in snow"


async def main() -> int:
    """Make all images."""
    with tempfile.TemporaryDirectory() as folder, running_chromium(Path(folder) / "chromium") as it:
        async with demo(Path(folder)) as url, it.page() as page:
            await _screen(page, *SHOT)
            await page.goto(url)
            await page.wait_text("Connected")
            await _say(page, QUESTION)
            await _until(page, "document.body.innerText.includes('Read aloud')")
            await _say(page, IMAGE)
            await _until(page, "document.querySelector('#messages img')?.naturalWidth > 0")
            await _say(page, OTHER)
            await page.wait_text("in line", "#messages")
            await page.screenshot(DOCS / "screenshot.png")
        async with demo(Path(folder)) as url, it.page() as page:
            await _screen(page, *LIFE)
            await page.goto(url)
            await page.wait_text("Connected")
            await _say(page, IMAGE)
            write_video(DOCS / "life-of-a-job.gif", await _life(page, Path(folder) / "look.png"))
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


async def _until(page: Page, condition: str) -> None:
    """Wait until a condition holds, for as long as the crowd's requests may take."""
    async with asyncio.timeout(AT_MOST_S):
        while not await page.evaluate(f"Boolean({condition})"):  # noqa: ASYNC110  # a page only shows
            await asyncio.sleep(LOOK_EVERY_S)


async def _life(page: Page, file: Path) -> list[bytes]:
    """Look at the page until the image is there; return what it showed each time."""
    looks: list[bytes] = []
    for _ in range(int(AT_MOST_S / LOOK_EVERY_S)):
        done = await page.evaluate(
            "document.querySelector('#messages')?.innerText.includes('seed')"
        )
        await page.screenshot(file)
        looks.append(await asyncio.to_thread(file.read_bytes))
        if done:
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


def _beside(frames: Sequence[Image.Image]) -> Image.Image:
    """Return some frames side by side: all colours that any of them needs."""
    width, height = frames[0].size
    sheet = Image.new("RGB", (width * len(frames), height))
    for place, frame in enumerate(frames):
        sheet.paste(frame, (place * width, 0))
    return sheet


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
