"""Detects a file's type from its bytes. Pure. Ignores file names and declared types."""

from collections.abc import Mapping
from enum import StrEnum

PDF = "application/pdf"
OFFICE = "application/zip"  # the exact type depends on the files inside

_OPEN_XML = "application/vnd.openxmlformats-officedocument."
_OASIS = "application/vnd.oasis.opendocument."
_MICROSOFT = "application/vnd.ms-"
DOCUMENTS = frozenset(
    {
        PDF,
        *(f"{_OPEN_XML}wordprocessingml.{kind}" for kind in ("document", "template")),
        *(f"{_OPEN_XML}spreadsheetml.{kind}" for kind in ("sheet", "template")),
        *(
            f"{_OPEN_XML}presentationml.{kind}"
            for kind in ("presentation", "slideshow", "template")
        ),
        *(f"{_OASIS}{kind}" for kind in ("text", "spreadsheet", "presentation")),
        *(
            f"{_MICROSOFT}{kind}.macroenabled.12"
            for kind in ("word.document", "excel.sheet", "powerpoint.presentation")
        ),
    }
)
ENDINGS = frozenset(
    [
        ".pdf",
        ".docx",
        ".docm",
        ".dotx",
        ".xlsx",
        ".xlsm",
        ".xltx",
        ".pptx",
        ".pptm",
        ".ppsx",
        ".potx",
        ".odt",
        ".ods",
        ".odp",
    ]
)
_PDF_WITHIN = 1024  # bytes that may precede a PDF's signature
_OLD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # before 2007, or encrypted


class Fault(StrEnum):
    """Why a document cannot be read."""

    UNREADABLE = "unreadable"  # damaged, of another type, or took too long
    TOO_LARGE = "too-large"
    ENCRYPTED = "encrypted"  # needs a password
    OLD = "old"  # an Office format from before 2007
    NO_LIBRARY = "no-library"


def kind_of(data: bytes) -> str:
    """Return a PDF's media type, `OFFICE` for a possible Office file, or "" for anything else."""
    if data.startswith((b"PK\x03\x04", _OLD)):
        return OFFICE
    return PDF if b"%PDF-" in data[:_PDF_WITHIN] else ""


def fault_of_old(data: bytes) -> Fault | None:
    """Return why a file in a pre-2007 Office container cannot be read; None for other files."""
    if not data.startswith(_OLD):
        return None
    locked = "EncryptedPackage".encode("utf-16-le")  # a newer file inside the old container
    return Fault.ENCRYPTED if locked in data else Fault.OLD


SENT = ("PNG", "JPEG", "WEBP")
"""The image formats, by Pillow's names, that people send and that every chat and model accepts."""
MOVING = ("PNG", "WEBP", "GIF", "AVIF")
"""The image formats that can be animated."""
MOVING_TYPES = frozenset(f"image/{form.lower()}" for form in MOVING)

CONVERTED: Mapping[str, str] = {
    "image/avif": "AVIF",
    "image/bmp": "BMP",
    "image/gif": "GIF",
    "image/tiff": "TIFF",
}
"""Further image types that people send, with Pillow's names; they become PNG or JPEG."""

PLAYED = frozenset(
    {
        "video/mp4",
        "video/webm",
        "audio/mpeg",
        "audio/mp4",
        "audio/ogg",
        "audio/wav",
        "audio/flac",
    }
)
"""The types that browsers and most chats can play."""

_MAGIC: Mapping[bytes, str] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"II*\0": "image/tiff",
    b"II+\0": "image/tiff",
    b"MM\0*": "image/tiff",
    b"MM\0+": "image/tiff",
    b"fLaC": "audio/flac",
    b"ID3": "audio/mpeg",
    b"OggS": "audio/ogg",
}
_RIFF: Mapping[bytes, str] = {
    b"WEBP": "image/webp",
    b"WAVE": "audio/wav",
    b"AVI ": "video/x-msvideo",
}
_BRANDS: Mapping[bytes, str] = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"heim": "image/heic",
    b"heis": "image/heic",
    b"hevc": "image/heic",
    b"hevx": "image/heic",
    b"mif1": "image/heic",
    b"msf1": "image/heic",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
    b"qt  ": "video/quicktime",
}
_MANY_FORMS = frozenset({b"mif1", b"msf1"})  # the brands that follow say which
_BMP_HEADERS = frozenset({12, 16, 40, 52, 56, 64, 108, 124})  # their sizes
_NAMED: Mapping[bytes, str] = {
    b"\x00\x00\x00\x0cJXL ": "JPEG XL",
    b"\xff\x0a": "JPEG XL",
    b"\x00\x00\x00\x0cjP  ": "JPEG 2000",
    b"\xff\x4f\xff\x51": "JPEG 2000",
    b"8BPS": "Photoshop",
    b"gimp xcf": "GIMP",
    b"v/1\x01": "OpenEXR",
    b"#?RADIANCE": "HDR",
    b"\x00\x00\x01\x00": "ICO",
    b"qoif": "QOI",
    b"DDS ": "DDS",
    b"FUJIFILMCCD-RAW": "RAW",
    b"<svg": "SVG",
    b"<?xml": "SVG",
    b"%PDF-": "PDF",
}
"""Image formats that cannot be read, by the beginnings of their files."""
_NAMED_BY_ENDING: Mapping[str, str] = {
    **dict.fromkeys(("heic", "heif"), "HEIC"),
    **dict.fromkeys(("jp2", "j2k", "jpx"), "JPEG 2000"),
    **dict.fromkeys(("dng", "cr2", "cr3", "nef", "arw", "raf", "orf", "rw2"), "RAW"),
    "exr": "OpenEXR",
    "ico": "ICO",
    "jxl": "JPEG XL",
    "psd": "Photoshop",
    "svg": "SVG",
    "tga": "TGA",
    "xcf": "GIMP",
}
_EBML = b"\x1a\x45\xdf\xa3"
_WEBP_ANIMATED = 0b10
_BRANDS_WITHIN = 256  # bytes of the first box
_MPEG_LAYER_3 = 0b01


def mime_of(data: bytes) -> str:
    """Return the media type of an image, a video or a sound; "" for anything else."""
    for magic, mime in _MAGIC.items():
        if data.startswith(magic):
            return mime
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return _of_brand(data)
    if data.startswith(_EBML):
        return "video/webm" if b"webm" in data[:64] else "video/x-matroska"
    if data.startswith(b"BM") and int.from_bytes(data[14:18], "little") in _BMP_HEADERS:
        return "image/bmp"
    return "audio/mpeg" if _is_mp3_frame(data[:4]) else ""


def _of_brand(data: bytes) -> str:
    if data[8:12] in _MANY_FORMS:
        brands = data[16 : min(int.from_bytes(data[:4], "big"), _BRANDS_WITHIN)]
        if {b"avif", b"avis"} & {brands[at : at + 4] for at in range(0, len(brands), 4)}:
            return "image/avif"
    return _BRANDS.get(data[8:12], "video/mp4")


def unread_image(data: bytes, name: str = "") -> str:
    """Return the common name of an unreadable image's format; "" for other files.

    Uses the file's name if the bytes are inconclusive, because a file that cannot be cleaned is
    stored empty.
    """
    mime = mime_of(data)
    if mime == "image/heic":
        return "HEIC"
    found = next((called for magic, called in _NAMED.items() if data.startswith(magic)), "")
    return found or ("" if mime else _NAMED_BY_ENDING.get(name.rpartition(".")[2].lower(), ""))


def moves(data: bytes) -> bool:
    """Return whether an image is animated: a GIF, an APNG, or a WebP with the animation flag."""
    if data.startswith((b"GIF87a", b"GIF89a")):
        return True
    if data[8:16] == b"WEBPVP8X":
        return bool(data[20:21] and data[20] & _WEBP_ANIMATED)
    if not data.startswith(b"\x89PNG"):
        return False
    return b"acTL" in data[: data.find(b"IDAT")]  # valid only before the pixels


def is_image(mime: str) -> bool:
    """Return whether a media type is an image's."""
    return mime.startswith("image/")


def is_video(mime: str) -> bool:
    """Return whether a media type is a video's."""
    return mime.startswith("video/")


def is_sound(mime: str) -> bool:
    """Return whether a media type is a sound's."""
    return mime.startswith("audio/")


def is_text(data: bytes) -> bool:
    """Return whether the bytes are plain text, which carries no metadata."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return "\0" not in text


def _is_mp3_frame(head: bytes) -> bool:
    """Return whether the bytes begin an MP3 frame: sync bits, version, layer 3, known rates."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return False
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    rate, frequency = head[2] >> 4, head[2] >> 2 & 3
    return version != 1 and layer == _MPEG_LAYER_3 and rate not in {0, 15} and frequency != 3
