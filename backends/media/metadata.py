"""Removes what programs wrote beside the pixels of a picture, without re-encoding it. Pure.

ComfyUI writes the whole graph into its files: the prompt, file names, sometimes paths. Cameras
write where and when. Everything that affects the look stays: colours and orientation.
"""

import struct
from collections.abc import Callable, Mapping

from backends.common.file_types import is_picture, mime_of
from backends.media import gif, image_metadata, png, webp

_CLEANERS: Mapping[str, Callable[[bytes], bytes]] = {
    "image/png": png.clean,
    "image/jpeg": image_metadata.clean,
    "image/gif": gif.clean,
    "image/webp": webp.clean,
}


def without_metadata(data: bytes) -> bytes:
    """Return a picture's file without texts; files that are no pictures are returned unchanged.

    Raises `ValueError` when the file is damaged, or a picture of another kind.
    """
    mime = mime_of(data)
    if not is_picture(mime):
        return data
    if mime not in _CLEANERS:
        raise ValueError(f"{mime} cannot be cleaned")
    try:
        return _CLEANERS[mime](data)
    except (struct.error, IndexError):
        raise ValueError("the picture is cut off") from None
