"""Removes what programs wrote beside the pixels of a picture, without re-encoding it. Pure.

ComfyUI writes the whole graph into its files: the prompt, file names, sometimes paths. Cameras
write where and when. Everything that affects the look stays: colours and orientation.
"""

import struct
from collections.abc import Callable, Mapping

from backends.media.metadata import avif, gif, jpeg, png, webp
from backends.media.metadata.kinds import mime_of

_CLEANERS: Mapping[str, Callable[[bytes], bytes]] = {
    "image/png": png.clean,
    "image/jpeg": jpeg.clean,
    "image/gif": gif.clean,
    "image/webp": webp.clean,
    "image/avif": avif.clean,
    "image/heic": avif.clean,
}


def without_metadata(data: bytes) -> bytes:
    """Return a picture's file without texts; files of other kinds are returned unchanged.

    Raises `ValueError` when the file is damaged.
    """
    cleaner = _CLEANERS.get(mime_of(data))
    try:
        return data if cleaner is None else cleaner(data)
    except (struct.error, IndexError):
        raise ValueError("the picture is cut off") from None
