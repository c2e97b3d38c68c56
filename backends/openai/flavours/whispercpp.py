"""whisper.cpp's server: one model without a name, which writes down one recording at a time.

Its `POST /load` ends the whole process when it fails, so that is never called. Any answer of status
400 has the text "Invalid request".
"""

import re
from dataclasses import replace
from typing import ClassVar

from backends.common.http import Http
from backends.common.http_replies import HttpRefused
from backends.openai.flavours.flavour import Flavour, Served
from backends.openai.flavours.form import AudioForm
from queueing.core.errors import Unavailable, UnreadableAnswer

PAGE_LIMIT = 64 * 1024
TITLE = "Whisper.cpp Server"
_PATH = re.compile(r"<h2>\s*(/[^\s<]*)\s*</h2>")


class WhisperCpp(Flavour):
    """whisper.cpp's `whisper-server`; its page names the path of its one call."""

    name: ClassVar[str] = "whispercpp"
    nameless: ClassVar[bool] = True
    sounds: ClassVar[AudioForm] = AudioForm(
        transcriptions="/inference",
        translations=None,
        speech=None,
        # Word times cut segments at 60 characters; it would go over the recording a second time
        # for the probabilities of all languages; and it takes any language for English.
        always={"token_timestamps": "false", "no_language_probabilities": "true"},
        any_language="auto",
        translate="translate",
        silence=True,
    )
    note: ClassVar[str] = (
        "whisper.cpp keeps its model as long as it runs, and writes down one recording at a time:"
        " set `parallel: 1` for its model."
    )

    async def describe(self, http: Http) -> str | None:
        """Detect it by its page."""
        path = await _path(http)
        return None if path is None else f"whisper.cpp, transcribing at {path}"

    async def served(self, http: Http) -> tuple[Served, ...]:
        """Return its one model, which it does not name."""
        if await _path(http) is None:
            raise Unavailable("the server's page is no longer whisper.cpp's")
        return (
            Served(id="whisper", loaded=True, chats=False, hears=True, speaks=False, parallel=1),
        )

    async def audio(self, http: Http) -> AudioForm:
        """Return its form with the path that `--inference-path` has set."""
        return replace(self.sounds, transcriptions=await _path(http) or self.sounds.transcriptions)


async def _path(http: Http) -> str | None:
    """Return the path of its call relative to the server's address, None if it is another server."""
    try:
        page, _ = await http.get_bytes("/", limit=PAGE_LIMIT)
    except (
        HttpRefused,
        Unavailable,
        UnreadableAnswer,
    ):  # no page, a larger one, or none at all: other calls tell
        return None
    text = page.decode(errors="replace")
    found = _PATH.search(text)
    if TITLE not in text or found is None:
        return None
    return found[1].removeprefix(http.prefix)
