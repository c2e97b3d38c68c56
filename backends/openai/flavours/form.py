"""How a kind of server is asked to write down and to read aloud."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue


@dataclass(frozen=True, kw_only=True, slots=True)
class AudioForm:
    """The paths of a server's calls for speech, None for those it lacks, and what it takes.

    `always` and `told` are form fields of every transcription, and of one whose language is known.
    With `silence` it tells how likely each segment is no speech, so its segments are always asked
    for; otherwise only with `segments`, and only where a request wants them. Without a path for
    translations, `translate` is the field that asks for one. `words` is how words that may occur are
    put into the prompt, `tokens` the field that bounds an answer. `spoken` are fields of every text
    to read aloud, `voice` reads where none is named, and `mixes` tells whether several may read as
    one (`a+b`).
    """

    transcriptions: str | None = "/v1/audio/transcriptions"
    translations: str | None = "/v1/audio/translations"
    speech: str | None = "/v1/audio/speech"
    always: Mapping[str, str] = field(default_factory=dict)
    any_language: str | None = None
    segments: bool = True
    silence: bool = False
    translate: str | None = None
    words: str = "{}"
    tokens: str | None = None
    voice: str | None = None
    mixes: bool = False
    spoken: Mapping[str, JsonValue] = field(default_factory=dict)


SILENT = AudioForm(transcriptions=None, translations=None, speech=None)
"""A server without any call for speech."""
