"""Converts images in rarer formats to PNG or JPEG, in a separate confined process."""

from enum import StrEnum

from backends.common.file_types import mime_of
from backends.media.helper.image_conversion import HUGE, RAW
from backends.media.helper.process import MediaError, ask
from backends.media.helper.protocol import MediaTask, Order

_WALL_S = 60.0


class ImageFault(StrEnum):
    """Why an image cannot be converted."""

    UNREADABLE = "unreadable"  # damaged, or took too long
    HUGE = HUGE
    RAW = RAW  # a camera's file


class ImageError(Exception):
    """An image that cannot be converted; `fault` says why, and the text is for the operator."""

    def __init__(self, fault: ImageFault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


async def as_common(data: bytes) -> bytes:
    """Return the first frame of an AVIF, BMP, GIF or TIFF as a PNG or JPEG without metadata.

    Raises `ImageError`.
    """
    order = Order(task=MediaTask.IMAGE, mime=mime_of(data), size=len(data))
    try:
        _, made = await ask(order, data, wall_s=_WALL_S)
    except MediaError as error:
        fault = ImageFault(error.fault) if error.fault else ImageFault.UNREADABLE
        raise ImageError(fault, str(error)) from error
    return made
