"""Images with a secret planted wherever their formats allow text beside the pixels."""

import io
import struct
from collections.abc import Callable, Mapping
from typing import Any

from PIL import Image, ImageCms
from PIL.PngImagePlugin import PngInfo

SECRET = "PLANTED-SECRET"
IMAGE = Image.effect_noise((40, 30), 80).convert("RGB")
OTHER = IMAGE.rotate(180)


def exif(orientation: int | None = None) -> bytes:
    """Return EXIF with texts, the location of a thumbnail and, where wanted, an orientation."""
    made = Image.Exif()
    made[0x010E] = SECRET
    made[0x013B] = SECRET * 3
    made.get_ifd(0x8769)[0x9286] = SECRET.encode()
    made.get_ifd(0x8825)[29] = SECRET
    if orientation is not None:
        made[0x0112] = orientation
    return made.tobytes()


def profile() -> bytes:
    """Return an sRGB profile that describes itself with the secret, and hides it in a private tag."""
    plain = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    (size, count) = struct.unpack_from(">I124xI", plain)
    table = bytearray(plain[132 : 132 + 12 * count])
    private = b"text\0\0\0\0" + SECRET.encode() + b"\0" * 2
    words = b"mluc" + struct.pack(">IIIHHII", 0, 1, 12, 0, 0, len(SECRET) * 2, 28)
    words += SECRET.encode("utf-16-be")
    words += b"\0" * (-len(words) % 4)
    moved = 12  # the private tag's own entry
    for at in range(0, len(table), 12):
        (start,) = struct.unpack_from(">I", table, at + 4)
        struct.pack_into(">I", table, at + 4, start + moved)
        if bytes(table[at : at + 4]) in {b"desc", b"cprt"}:
            struct.pack_into(">II", table, at + 4, size + moved, len(words))
    end = size + moved + len(words)
    table += struct.pack(">4sII", b"priv", end, len(private))
    head = struct.pack(">I", end + len(private)) + plain[4:128] + struct.pack(">I", count + 1)
    return bytes(head + table + plain[132 + 12 * count : size] + words + private)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    """Return an image as a file."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(**options: Any) -> bytes:
    """Return a PNG with texts of all three kinds, EXIF, a profile, a foreign chunk and a trailer."""
    info = PngInfo()
    info.add_text("prompt", SECRET * 50)
    info.add_text("workflow", SECRET, zip=True)
    info.add_itxt("parameters", f"{SECRET} ü")
    info.add(b"prVt", SECRET.encode())
    options = {"exif": exif(), "icc_profile": profile()} | options
    return saved(IMAGE, "PNG", pnginfo=info, **options) + SECRET.encode()


def jpeg(**options: Any) -> bytes:
    """Return a JPEG with a comment, EXIF, XMP, a profile, foreign segments and a trailer."""
    options = {"exif": exif(), "icc_profile": profile(), "comment": SECRET} | options
    data = saved(IMAGE, "JPEG", quality=95, xmp=f"<{SECRET}/>".encode(), **options)
    foreign = SECRET.encode() * 2
    extra = b"".join(
        struct.pack(">BBH", 0xFF, mark, len(foreign) + 2) + foreign for mark in (0xE3, 0xED, 0xFE)
    )
    return data[:2] + extra + data[2:] + SECRET.encode() + saved(OTHER, "JPEG", comment=SECRET)


def webp(**options: Any) -> bytes:
    """Return a WebP with EXIF, XMP, a profile, a foreign chunk and a trailer."""
    options = {"exif": exif(), "icc_profile": profile(), "lossless": True} | options
    data = saved(IMAGE, "WEBP", xmp=f"<{SECRET}/>".encode(), **options)
    foreign = b"priv" + struct.pack("<I", 14) + SECRET.encode()
    (length,) = struct.unpack_from("<I", data, 4)
    whole = data[:4] + struct.pack("<I", length + len(foreign)) + data[8:] + foreign
    return whole + SECRET.encode()


def gif(**options: Any) -> bytes:
    """Return a GIF with comments, XMP, a plain text and a trailer."""
    data = saved(IMAGE.quantize(16), "GIF", comment=SECRET, **options)
    words = bytes([len(SECRET)]) + SECRET.encode() + b"\0"
    xmp = b"\x21\xff\x0bXMP DataXMP" + words
    plain = b"\x21\xf9\x04\0\0\0\0\0\x21\x01\x0c" + bytes(12) + words
    return data[:-1] + xmp + plain + b"\x21\xfe" + words + b";" + SECRET.encode()


def avif(**options: Any) -> bytes:
    """Return an AVIF with EXIF, XMP, a profile and foreign boxes at its end."""
    options = {"exif": exif(), "icc_profile": profile()} | options
    data = saved(IMAGE, "AVIF", quality=90, xmp=f"<{SECRET}/>".encode(), **options)
    words = SECRET.encode()
    boxes = (struct.pack(">I4s", 8 + len(words), kind) + words for kind in (b"free", b"uuid"))
    return data + b"".join(boxes)


MOVING: Mapping[str, Any] = {"save_all": True, "append_images": [OTHER]}
PLANTED: Mapping[str, Callable[..., bytes]] = {
    "PNG": png,
    "JPEG": jpeg,
    "WEBP": webp,
    "GIF": gif,
    "AVIF": avif,
}
MOVES = ("PNG", "WEBP", "GIF", "AVIF")


def frames(data: bytes) -> list[bytes]:
    """Return the pixels of every frame, as stored: neither turned nor with a profile applied."""
    with Image.open(io.BytesIO(data)) as image:
        shown = []
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            shown.append(image.convert("RGBA").tobytes())
        return shown


def words_of(data: bytes) -> str:
    """Return all that a reader of images can find beside the pixels, and the bytes themselves."""
    with Image.open(io.BytesIO(data)) as image:
        found = [repr(image.info), repr(dict(image.getexif()))]
        if profile := image.info.get("icc_profile"):
            found += [repr(profile), profile.decode("utf-16-be", "replace")]
    return "\n".join([*found, data.decode("latin-1")])
