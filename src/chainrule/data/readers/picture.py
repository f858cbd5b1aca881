"""One image file: its true format, and its pixels as 8-bit grey or RGB.

Formats are told by content, not by name. What cannot be represented faithfully in 8 bits (CMYK, 16-bit channels) is a
problem of that file rather than a silent conversion; what can be, with a choice to make (transparency, rotation by
metadata), is done and noted.
"""

import struct
import zlib
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import UInt8

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
"""Suffixes of files that are read, with the format they promise."""

MOST_PIXELS = 178_956_970
"""Pillow refuses larger images by itself."""

_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"BM": "BMP",
    b"RIFF": "WebP",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
    b"%PDF": "PDF",
}
_DEPTH = 24  # offset of the bit depth in a PNG file
_ORIENTATION = 0x0112
_GREY = ("1", "L", "LA", "La")

Notes = list[tuple[str, str]]
"""Kinds and details of what was noticed."""


class Unusable(Exception):
    """This image cannot be used."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(kind)
        self.kind, self.detail = kind, detail


def decode(
    path: Path, size: list[int] | None, max_pixels: int, max_bytes: int
) -> tuple[UInt8[np.ndarray, "height width channels"], Notes]:
    """The pixels of a file, scaled and cropped at the centre to `size` if given, and what was noticed on the way."""
    from PIL import Image, ImageOps

    data, found = _content(path, max_bytes)
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
                raise Unusable("CMYK", "convert it to RGB")
            if image.getexif().get(_ORIENTATION, 1) != 1:
                notes.append(("rotated", "turned the way its metadata say"))
            pixels = flatten(ImageOps.exif_transpose(image), notes)
    except Image.DecompressionBombError:
        raise Unusable("too many pixels", f"more than {MOST_PIXELS}") from None
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, struct.error, zlib.error) as error:
        cut = not data.rstrip(b"\0").endswith((b"\xff\xd9", b"IEND\xaeB`\x82"))
        raise Unusable("truncated" if cut else "damaged", "" if cut else str(error)) from None
    if size is not None:
        pixels = ImageOps.fit(pixels, (size[1], size[0]), Image.Resampling.BICUBIC)
    array = np.asarray(pixels)
    return array[..., None] if array.ndim == 2 else array, notes


def _content(path: Path, max_bytes: int) -> tuple[bytes, str]:
    """The bytes of a file and the format they are in, if it is one that is read."""
    try:
        if path.stat().st_size > max_bytes:
            raise Unusable("too large", f"more than max_bytes={max_bytes:,} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise Unusable("unreadable", error.strerror or str(error)) from None
    if not data:
        raise Unusable("empty")
    found = next((name for magic, name in _MAGIC.items() if data.startswith(magic)), None)
    if found is None:
        raise Unusable("not an image")
    if found not in FORMATS.values():
        kind = "wrong extension" if path.suffix.lower() in FORMATS else "format not read"
        raise Unusable(kind, f"the content is {found}; only PNG and JPEG are read")
    if found == "PNG" and data[_DEPTH : _DEPTH + 1] == b"\x10":
        raise Unusable("16-bit", "convert it to 8 bits")
    return data, found


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
