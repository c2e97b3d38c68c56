"""Programs' videos, speech and transcripts, by demo servers that always give the same result."""

from typing import Any

import aiohttp

from backends.common.file_types import is_video, mime_of
from backends.demo.audio import played, spoken
from tests.chaos.people.program_calls import Given, WholeCall
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
    """Return the content of an answer found to be right: the words that others have."""
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


class SpokenCall(WholeCall):
    """A text read aloud through OpenAI's API; the sound is recognised by its text."""

    path = "audio/speech"

    def body(self) -> dict[str, Any]:
        return {"model": self.wish.model, "input": self.wish.prompt, "response_format": "wav"}

    async def received(self, response: aiohttp.ClientResponse) -> Any:
        return {"sound": await response.read()}

    def read(self, answer: Any) -> Given:
        if answer["sound"] != spoken(self.wish.prompt):
            self.faults.append(f"call {self.wish.number} got the sound of something else")
        return known(self.wish.number)


class WrittenCall(WholeCall):
    """A recording transcribed through OpenAI's API; the text states the recording's length."""

    path = "audio/transcriptions"

    @property
    def _seconds(self) -> float:
        return 0.5 + self.wish.number % 40 / 10

    def sent(self) -> dict[str, Any]:
        form = aiohttp.FormData()
        form.add_field("model", self.wish.model)
        form.add_field("prompt", self.wish.prompt)
        form.add_field("file", played("x", 1, self._seconds), filename="voice.wav")
        return {"data": form}

    def read(self, answer: Any) -> Given:
        if f"{self._seconds:.1f} seconds" not in answer["text"]:
            self.faults.append(f"call {self.wish.number} was told of another recording: {answer}")
        return known(self.wish.number)
