"""Data URLs and bare base64: pictures and files inside a JSON request. Pure."""

import base64
import binascii
import re

_DATA_URL = re.compile(r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?:;[\w-]+=[^;,]*)*;base64,", re.ASCII)


class NotData(ValueError):
    """The text is not base64, or a data URL that does not use base64."""


def is_data_url(text: str) -> bool:
    """Return whether a text is a data URL."""
    return text[:5].casefold() == "data:"


def data_of(text: str) -> bytes:
    """Return the bytes of a data URL, or of bare base64. Raises `NotData`.

    The media type in the URL is ignored: the bytes are examined where they are used.
    """
    if is_data_url(text):
        match = _DATA_URL.match("data:" + text[5:])
        if match is None:
            raise NotData("a data URL must be base64")
        text = text[match.end() :]
    try:
        return base64.b64decode(text.encode("ascii").translate(None, _SPACES), validate=True)
    except (binascii.Error, ValueError):
        raise NotData("the data is not valid base64") from None


_SPACES = b" \r\n\t"  # programs break long lines
