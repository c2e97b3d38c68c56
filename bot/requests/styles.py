"""Styles: named presets of prompt and options; pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

PLACE = "{prompt}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    """What a style adds to a request for pictures; the person's explicit options override it.

    `prompt` holds the person's words at `{prompt}`, or follows them. `options` are fields of
    `TextToImage` by name; `model` is used when the call names none.
    """

    prompt: str = PLACE
    negative: str | None = None
    size: str | None = None
    model: str | None = None
    options: Mapping[str, int | float | str] = field(default_factory=dict)

    def apply(self, prompt: str) -> str:
        """Return a prompt in this style."""
        if PLACE in self.prompt:
            return self.prompt.replace(PLACE, prompt)
        return f"{prompt}, {self.prompt}"

    def without(self, own: str | None) -> str | None:
        """Return what should not be in the picture: the person's words and the style's."""
        said = [words for words in (own, self.negative) if words]
        return ", ".join(said) or None
