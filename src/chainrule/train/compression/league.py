"""What other compressors make of the same data: those of the standard library, of images, and zstd where it works."""

import bz2
import gzip
import io
import lzma
import shutil
import subprocess
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple, final

import numpy as np
from PIL import Image, features

from chainrule.core.errors import ChainruleWarning
from chainrule.core.quoting import plain
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.information.compression.arranging import raw_bytes

LARGEST = 2**26
"""Raw bytes that are compressed again by others, at most."""
_ZSTD = ("zstd", "-19")
_SIDE = 16000
"""Pixels of a side of a mosaic; WebP has room for 16,383."""


@final
class Rival(NamedTuple):
    """Another compressor, and how long its result is."""

    name: str
    bytes: int


def league(schema: Schema, symbols: np.ndarray, text: bytes | None = None) -> list[Rival]:
    """Sizes of some data by all compressors at hand, the smallest first; of a text itself, not of its tokens.

    Zeros and ones are also given eight to a byte; the better of the two counts. Images come as one mosaic, so that each
    does not pay for a header. A zstd that fails is left out, and a warning says so.
    """
    raw = raw_bytes(schema, symbols) if text is None else text
    if not raw or len(raw) > LARGEST:
        return []
    forms = [raw] if schema.levels != 2 else [raw, np.packbits(symbols.astype(np.uint8)).tobytes()]
    general: dict[str, Callable[[bytes], bytes]] = {
        "gzip -9": lambda data: gzip.compress(data, 9),
        "bz2 -9": lambda data: bz2.compress(data, 9),
        "xz -9e": lambda data: lzma.compress(data, preset=9 | lzma.PRESET_EXTREME),
    }
    found = [Rival(name, min(len(pack(form)) for form in forms)) for name, pack in general.items()]
    if shutil.which("zstd"):
        found += _zstd(forms)
    if kinds.of(schema).spatial and schema.shape[-1] in (1, 3) and schema.levels <= 256:
        found += _images(schema, symbols)
    return sorted(found, key=lambda rival: rival.bytes)


def _zstd(forms: Sequence[bytes]) -> list[Rival]:
    """What the program makes of the better form, where it works."""
    try:
        sizes = [
            len(subprocess.run([*_ZSTD, "-q", "-c"], input=form, capture_output=True, check=True).stdout)
            for form in forms
        ]
    except (OSError, subprocess.CalledProcessError) as error:
        said = (
            error.stderr.decode(errors="replace").strip()
            if isinstance(error, subprocess.CalledProcessError)
            else ""
        )
        warnings.warn(
            f"zstd is left out of the comparison: {plain(said or str(error))}", ChainruleWarning, stacklevel=2
        )
        return []
    return [Rival(" ".join(_ZSTD), min(sizes))]


def _images(schema: Schema, symbols: np.ndarray) -> list[Rival]:
    sheets = mosaics(schema, symbols)
    found = [Rival("PNG", sum(_saved(sheet, "PNG", optimize=True) for sheet in sheets))]
    if features.check("webp"):
        sizes = (
            _saved(sheet.convert("RGB"), "WEBP", lossless=True, quality=100, method=4) for sheet in sheets
        )
        found.append(Rival("WebP lossless", sum(sizes)))
    return found


def mosaics(schema: Schema, symbols: np.ndarray) -> list[Image.Image]:
    """All images side by side, in as few sheets as there is room for.

    >>> [sheet.size for sheet in mosaics(Schema("image", (2, 3, 1), levels=256), np.zeros((5, 6), np.int32))]
    [(9, 4)]
    """
    height, width, channels = schema.shape
    most = (_SIDE // height) * (_SIDE // width)
    sheets = []
    for first in range(0, len(symbols), most):
        part = symbols[first : first + most]
        across = min(_SIDE // width, -(-int(np.ceil(np.sqrt(len(part)))) // 1))
        down = -(-len(part) // across)
        full = np.zeros((down * across, height, width, channels), np.uint8)
        full[: len(part)] = part.reshape(-1, height, width, channels)
        sheet = full.reshape(down, across, height, width, channels).transpose(0, 2, 1, 3, 4)
        pixels = sheet.reshape(down * height, across * width, channels)
        flat = pixels[..., 0] if channels == 1 else pixels
        sheets.append(Image.fromarray(flat.astype(bool) if schema.levels == 2 else flat))
    return sheets


def _saved(sheet: Image.Image, kind: str, **options: object) -> int:
    file = io.BytesIO()
    sheet.save(file, kind, **options)
    return len(file.getvalue())


__all__ = ["LARGEST", "Rival", "league", "mosaics"]
