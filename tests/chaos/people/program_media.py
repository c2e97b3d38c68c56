"""What programs have video_scene, spoken and written down, by stand-ins that say the same each time."""

from typing import Any

import aiohttp

from backends.common.file_types import is_video, mime_of
from backends.demo.audio import played, spoken
from tests.chaos.people.program_calls import STOPPING, Given, ProgramCall, Refusal
from tests.chaos.people.program_jobs import NativeJob
from tests.chaos.servers import answer_words

VIDEOS, SPEAKS, WRITES = "videos", "speaks", "writes"
STAND_INS = frozenset({VIDEOS, SPEAKS, WRITES})
MODELS = """
  videos:
    {backends: [stand-ins], capabilities: [text-to-video], vram: 9GB, parallel: 1, load_s: 1, service_s: 1}
  speaks:
    {backends: [stand-ins], capabilities: [text-to-speech], vram: 1GB, parallel: 2, load_s: 0.2, service_s: 0.5}
  writes:
    {backends: [stand-ins], capabilities: [speech-to-text], vram: 1GB, parallel: 2, load_s: 0.2, service_s: 0.5}
"""


def known(number: int) -> Given:
    """Return what an answer gives that was found to be right: the words that others have."""
    return Given(text=" ".join(answer_words(number)))


class VideoJob(NativeJob):
    """A video as a job."""

    def _body(self) -> dict[str, Any]:
        size = {"width": 64, "height": 64, "seconds": 0.5, "steps": 4}
        return {"kind": "video", "model": self.wish.model, "prompt": self.wish.prompt, **size}

    async def _fetched(self, view: Any) -> Given:
        given = await super()._fetched(view)
        kinds = [mime_of(file) for file in given.images]
        if len(kinds) != 1 or not (is_video(kinds[0]) or kinds[0] == "image/webp"):
            self.faults.append(f"call {self.wish.number} got {kinds} instead of a video")
        return known(self.wish.number)


class SpokenCall(ProgramCall):
    """A text read aloud by OpenAI's path; the sound is known by its text."""

    async def once(self) -> Given | None:
        text = self.wish.prompt
        body = {"model": self.wish.model, "input": text, "response_format": "wav"}
        async with self.session.post(
            f"{self.url}/audio/speech", json=body, headers=self._headers
        ) as response:
            if await self._refused(response):
                return None
            sound = await response.read()
        if sound != spoken(text):
            self.faults.append(f"call {self.wish.number} got the sound of something else")
        return known(self.wish.number)


class WrittenCall(ProgramCall):
    """A recording written down by OpenAI's path; the text says how long the recording was."""

    async def once(self) -> Given | None:
        seconds = 0.5 + self.wish.number % 40 / 10
        form = aiohttp.FormData()
        form.add_field("model", self.wish.model)
        form.add_field("prompt", self.wish.prompt)
        form.add_field("file", played("x", 1, seconds), filename="voice.wav")
        async with self.session.post(
            f"{self.url}/audio/transcriptions", data=form, headers=self._headers
        ) as response:
            if await self._refused(response):
                return None
            answer = await response.json()
        if "error" in answer:  # after white space: the status was sent before
            if answer["error"]["code"] != STOPPING:
                raise Refusal("{code} {message}".format_map(answer["error"]))
            await self._pause()
            return None
        text = answer["text"]
        if f"{seconds:.1f} seconds" not in text:
            self.faults.append(f"call {self.wish.number} was told of another recording: {text}")
        return known(self.wish.number)
