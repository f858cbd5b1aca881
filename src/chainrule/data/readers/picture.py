"""One image file: its true format, and its pixels as 8-bit grey or RGB.

Formats are told by content, not by name. What needs a choice is done in one way and noted: transparency is put on
white, rotation by metadata carried out, CMYK brought to RGB, 16 bits to the upper 8, and of an animation the first
frame is taken. Those that lose something can be refused instead.
"""

import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

from chainrule.data.loading.walking import special

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP", ".gif": "GIF"}
"""Suffixes of files that are read, with the format they promise."""

MOST_PIXELS = 178_956_970
"""Pillow refuses larger images by itself."""

_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"BM": "BMP",
    b"RIFF": "WEBP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"%PDF": "PDF",
}
_EXACT = ("PNG", "JPEG")
"""Formats that are read even where nothing may be converted."""
_DEPTH = 24  # offset of the bit depth in a PNG file
_ORIENTATION = 0x0112
_DARK = 2**12
"""16-bit images without any value above this were made with fewer bits, and little of them is left in the upper 8."""
_GREY = ("1", "L", "LA", "La")

Notes = list[tuple[str, str]]
"""Kinds and details of what was noticed."""


class Unusable(Exception):
    """This image cannot be used."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.kind, self.detail = kind, detail


def decode(
    path: Path, size: list[int] | None, max_pixels: int, max_bytes: int, convert: bool = True
) -> tuple[UInt8[np.ndarray, "height width channels"], Notes]:
    """The pixels of a file, scaled and cropped at the centre to `size` if given, and what was noticed on the way.

    Without `convert` only PNG and JPEG are read, and CMYK and 16 bits refused.
    """
    from PIL import Image, ImageOps

    data, found = _content(path, max_bytes, convert)
    promised = FORMATS.get(path.suffix.lower(), "another format")
    notes: Notes = [("wrong extension", f"the content is {found}")] if found != promised else []
    try:
        with Image.open(BytesIO(data), formats=[found]) as image:
            if image.width * image.height > max_pixels:
                raise Unusable(
                    "too many pixels", f"{image.width}×{image.height}; the limit is max_pixels={max_pixels}"
                )
            if found == "PNG":
                image.verify()
        with Image.open(BytesIO(data), formats=[found]) as image:
            image.load()
            if image.mode == "CMYK":
                notes += _converted(convert, "CMYK", "brought to RGB", "convert it to RGB")
            if getattr(image, "is_animated", False):
                notes.append(("animated", "the first frame is used"))
            if image.getexif().get(_ORIENTATION, 1) != 1:
                notes.append(("rotated", "turned the way its metadata say"))
            upright = ImageOps.exif_transpose(image)
            if found == "PNG" and data[_DEPTH : _DEPTH + 1] == b"\x10":
                upright = _eight_bits(upright, notes, convert)
            pixels = flatten(upright, notes)
    except Image.DecompressionBombError:
        raise Unusable("too many pixels", f"more than {MOST_PIXELS}") from None
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error) as error:
        cut = _is_cut(data, found)
        raise Unusable("truncated" if cut else "damaged", "" if cut else str(error)) from None
    if size is not None:
        pixels = ImageOps.fit(pixels, (size[1], size[0]), Image.Resampling.BICUBIC)
    array = np.asarray(pixels)
    return array[..., None] if array.ndim == 2 else array, notes


def _content(path: Path, max_bytes: int, convert: bool) -> tuple[bytes, str]:
    """The bytes of a file and the format they are in, if it is one that is read."""
    try:
        if what := special(path):
            raise Unusable("not a file", f"it is {what}")
        if path.stat().st_size > max_bytes:
            raise Unusable("too large", f"more than max_bytes={max_bytes:,} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise Unusable("unreadable", error.strerror or str(error)) from None
    if not data:
        raise Unusable("empty")
    found = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), None)
    if found is None or (found == "WEBP" and data[8:12] != b"WEBP"):
        raise Unusable("not an image")
    read = list(dict.fromkeys(FORMATS.values())) if convert else _EXACT
    if found not in read:
        kind = "wrong extension" if FORMATS.get(path.suffix.lower()) in read else "format not read"
        raise Unusable(kind, f"the content is {found}; read are {', '.join(read)}")
    return data, found


def _converted(convert: bool, kind: str, done: str, otherwise: str) -> Notes:
    """A note of a conversion that loses something, or a problem where it is not wanted."""
    if not convert:
        raise Unusable(kind, otherwise)
    return [(kind, done)]


def _eight_bits(image: "Image", notes: Notes, convert: bool) -> "Image":
    """The upper 8 of 16 bits; Pillow has cut colours to them already."""
    from PIL import Image

    dark = ""
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.uint16)
        dark = f" (the brightest value is {values.max():,} of 65,535)" if values.max() < _DARK else ""
        image = Image.fromarray((values >> 8).astype(np.uint8))
    notes += _converted(convert, "16-bit", f"brought to 8 bits{dark}", "convert it to 8 bits")
    return image


def _is_cut(data: bytes, found: str) -> bool:
    """Whether a file lacks its end."""
    if found == "WEBP":
        return int.from_bytes(data[4:8], "little") + 8 > len(data)
    ends = {"PNG": b"IEND\xaeB`\x82", "JPEG": b"\xff\xd9", "GIF": b";"}
    return not data.rstrip(b"\0").endswith(ends[found])


def flatten(image: "Image", notes: Notes) -> "Image":
    """The image in grey or RGB, on white where it is transparent."""
    from PIL import Image

    grey = image.mode in _GREY
    if image.has_transparency_data:
        image = image.convert("RGBA")
        if image.getchannel("A").getextrema() != (255, 255):
            notes.append(("transparent", "put on white"))
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if grey else "RGB")


__all__ = ["FORMATS", "MOST_PIXELS", "Notes", "Unusable", "decode", "flatten"]
