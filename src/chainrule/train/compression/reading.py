"""What a user wants compressed, read without changing a bit of it: images, NumPy arrays, texts, a split of the data."""

import codecs
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.quoting import plain
from chainrule.data import kinds
from chainrule.data.inputs.folders import files
from chainrule.data.inputs.protocol import Preparation
from chainrule.data.loading.walking import special
from chainrule.data.readers.images import PICTURES
from chainrule.data.schema import Schema
from chainrule.information.compression.arranging import (
    Material,
    arranged,
    levelled,
    packed_names,
    pieces_of,
    text_material,
)

_AT_ONCE = 2**24
"""Bytes of pixels that are in memory at a time, about."""
_READ = 2**20
"""Bytes of a text that are read at a time."""
_MODES = {"1": 1, "L": 255, "RGB": 255}
"""Modes of Pillow that are read, with the brightest value of each."""
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
"""Those that hold pixels; Pillow would start another program to draw some of the others."""
_ORIENTATION = 0x0112
_DAMAGED = (OSError, SyntaxError, ValueError, TypeError, EOFError, IndexError, struct.error, zlib.error)
"""What Pillow raises where a file is no image to its end."""


def material_of(path: Path, prepared: Preparation) -> Material:
    """A file or folder as symbols; a remark in `form` says what is not kept."""
    if not path.exists():
        raise DataError(f"{path} does not exist")
    if what := special(path):
        raise DataError(f"{path}: is {what}", remedy="give a file or a folder")
    if path.suffix.lower() == ".npy" and path.is_file():
        return arranged(prepared.schema, _array(path))
    if kinds.of(prepared.schema).has_tokens:
        return _text(path, prepared.schema)
    if kinds.of(prepared.schema).spatial:
        return _images(path, prepared)
    if kinds.of(prepared.schema).has_events:
        raise DataError(
            f"{path.name}: files of music hold more than the events that the run knows, which would not come back",
            remedy="give numbers of events in a .npy file, or split=test",
        )
    raise DataError(
        f"{path.name}: the run was trained on {prepared.schema.kind} data, which are read from .npy files",
        remedy="save the numbers with numpy.save",
    )


def _array(path: Path) -> np.ndarray:
    try:
        return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, EOFError):
        raise DataError(
            f"{path.name} holds no array of numbers that NumPy could have written",
            remedy="save the numbers with numpy.save",
        ) from None


def _text(path: Path, schema: Schema) -> Material:
    if path.is_dir():
        raise ArgumentError(f"{path}: is a folder; the run compresses one text", remedy="give a file")
    return text_material(schema, lambda: pieces_of(_letters(path)))


def _letters(path: Path) -> Iterator[str]:
    """What a file of UTF-8 spells, part by part."""
    decoder, done = codecs.getincrementaldecoder("utf-8")(), 0
    with path.open("rb") as file:
        while True:
            part, begun = file.read(_READ), len(decoder.getstate()[0])
            try:
                yield decoder.decode(part, final=not part)
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path.name}: byte {done - begun + error.start:,} is no UTF-8",
                    remedy="convert the text: iconv -t UTF-8",
                ) from None
            if not part:
                return
            done += len(part)


def _images(path: Path, prepared: Preparation) -> Material:
    schema = prepared.schema
    found = sorted(files(path, prepared)) if path.is_dir() else [path]
    pictures = [file for file in found if path.is_file() or file.suffix.lower() in PICTURES]
    if not pictures:
        raise DataError(f"{path}: there are no images in this folder")
    names = [file.relative_to(path).as_posix() if path.is_dir() else file.name for file in pictures]
    others = sorted({*found} - {*pictures}) + _hidden(path, found)
    mode = _opened(pictures[0], names[0])[1]
    size = max(1, _AT_ONCE // schema.dimensions)

    def segments() -> Iterator[np.ndarray]:
        for first in range(0, len(pictures), size):
            part = slice(first, first + size)
            yield np.concatenate(
                [_symbols(*one, schema, mode) for one in zip(pictures[part], names[part], strict=True)]
            )

    form = {"as": "images" if path.is_dir() else "image", "mode": mode, "top": _top(schema, mode)}
    left_out = tuple(file.relative_to(path).as_posix() for file in others)
    return Material(len(pictures), segments, form, packed_names(names) if path.is_dir() else b"", left_out)


def _hidden(folder: Path, found: list[Path]) -> list[Path]:
    """Pictures that are not looked at because they, or folders that they are in, are hidden."""
    every = (Path(here, name) for here, _, names in os.walk(folder) for name in sorted(names))
    seen = {*found}
    return [path for path in every if path.suffix.lower() in PICTURES and path not in seen]


def _symbols(file: Path, name: str, schema: Schema, mode: str) -> np.ndarray:
    pixels, found = _opened(file, name)
    shape = pixels.shape if pixels.ndim == 3 else (*pixels.shape, 1)
    if found != mode or shape != schema.shape:
        wanted = "×".join(map(str, schema.shape))
        raise DataError(
            f"{plain(name)}: {'×'.join(map(str, shape))} pixels of mode {found}; the run knows {wanted}, and all "
            f"have the mode of the first, {mode}",
            remedy="resize or convert it beforehand: what is changed on the way would not come back",
        )
    return levelled(schema, pixels.reshape(1, *shape), name, [_top(schema, mode)])[0]


def _opened(file: Path, name: str) -> tuple[np.ndarray, str]:
    """The pixels of a file and their mode; what else makes up the picture would be lost, and is refused."""
    if what := special(file):
        raise DataError(f"{plain(name)}: is {what}", remedy="move it out of the folder")
    try:
        with Image.open(file, formats=_FORMATS) as image:
            if image.mode not in _MODES:
                raise DataError(
                    f"{plain(name)}: mode {image.mode} is not read",
                    remedy=f"convert it to one of {', '.join(_MODES)}",
                )
            if (frames := getattr(image, "n_frames", 1)) > 1:
                raise DataError(
                    f"{plain(name)}: holds {frames} pictures", remedy="save each as a file of its own"
                )
            if "transparency" in image.info:
                raise DataError(
                    f"{plain(name)}: a colour of it is transparent, which would not come back",
                    remedy="save it without transparency",
                )
            if image.getexif().get(_ORIENTATION, 1) != 1:
                raise DataError(
                    f"{plain(name)}: its metadata say that it is shown turned, which would not come back",
                    remedy="save it upright",
                )
            return np.asarray(image).astype(np.uint8), image.mode
    except DataError:
        raise
    except UnidentifiedImageError:
        raise DataError(
            f"{plain(name)} cannot be read as an image", remedy=f"read are {', '.join(_FORMATS)}"
        ) from None
    except (*_DAMAGED, Image.DecompressionBombError) as error:
        raise DataError(f"{plain(name)} cannot be read as an image: {plain(str(error))}") from None


def _top(schema: Schema, mode: str) -> int:
    """The brightest value of a file: that of the mode for black and white, else the highest level."""
    return _MODES[mode] if schema.levels == 2 else schema.levels - 1


def as_image(schema: Schema, form: Mapping[str, Any], pixels: np.ndarray) -> Image.Image:
    """The image of some values."""
    values = pixels.reshape(schema.shape if schema.shape[-1] != 1 else schema.shape[:-1])
    return Image.fromarray(values.astype(bool) if form["mode"] == "1" else values.astype(np.uint8))


__all__ = ["as_image", "material_of"]
