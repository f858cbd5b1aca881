"""New images: files and folders, arrays, and images of Pillow, in the size and colours of the training images."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Num, UInt8
from PIL import Image, ImageOps

from chainrule.core.errors import DataError
from chainrule.data import targets
from chainrule.data.inputs import arrays, folders, scenes
from chainrule.data.inputs.protocol import Given, InputChunk, Inputs, Original, Preparation, chunk
from chainrule.data.loading.bits import highest_bits
from chainrule.data.loading.moments import chunks
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents, ReadRequest
from chainrule.data.placement import Placement, place_image
from chainrule.data.readers import image_labels, masked, picture
from chainrule.data.readers.images import PICTURES, divided, reader

_ARRAYS = (".npy", ".npz")
_LUMA = np.array([0.299, 0.587, 0.114])
"""The grey that the eye sees in red, green and blue (ITU-R BT.601), as Pillow computes it."""
_LIMITS = {name: option.default for name, option in reader.options.items() if option.guard}


def inputs(given: Given, prepared: Preparation) -> Inputs:
    """Images from a file, a folder, an array, an image of Pillow, or a list of these.

    Folders called like the classes say what the images in them are, or a list of labels such as training had.
    """
    if isinstance(given, str | Path):
        return _at(Path(given).expanduser(), prepared)
    if isinstance(given, Image.Image):
        return _listed([given], prepared)
    if isinstance(given, list | tuple) and any(isinstance(one, str | Path | Image.Image) for one in given):
        return _listed(given, prepared)
    return arrays.inputs(given, prepared, "images", lambda x: _converter(x, prepared))


def _at(path: Path, prepared: Preparation) -> Inputs:
    if path.is_dir():
        return _folder(path, prepared)
    if path.suffix.lower() in _ARRAYS:
        return arrays.inputs(path, prepared, "images", lambda x: _converter(x, prepared))
    return _listed([path], prepared)


def _folder(folder: Path, prepared: Preparation) -> Inputs:
    files = folders.files(folder, prepared)
    pictures = [file for file in files if file.suffix.lower() in PICTURES]
    target = targets.of(prepared.schema)
    if target.has_mask and masked.has_masks(folder):
        pictures = masked.pairs(folder, files)[0]
    if not pictures:
        raise DataError(f"{folder}: there are no images in this folder", remedy=f"read are: {_formats()}")
    names = [file.relative_to(folder).as_posix() for file in pictures]
    if target.whole_images:
        return _whole(pictures, prepared, names, scenes.beside(folder, files, pictures, prepared))
    tops = [below[0] if below else None for _, below in divided(folder, pictures)]
    return _listed(pictures, prepared, names, _in_list(folder, names, prepared) or tops)


def _in_list(folder: Path, names: Sequence[str], prepared: Preparation) -> list[Any]:
    """What a list of labels in the folder says of each image, where training had such a list under the same name."""
    called = prepared.options.get("labels")
    if called is None or not (folder / Path(called).name).is_file():
        return []
    defaults = {name: option.default for name, option in reader.options.items()}
    chosen = {name: prepared.options.get(name, default) for name, default in defaults.items()}
    try:
        listed = image_labels.read(ReadRequest(folder, 0, {**chosen, "labels": Path(called).name}), names)
        usable = [index for index, name in enumerate(names) if listed.fault(name) is None]
        found = listed.targets([names[index] for index in usable])
    except Refused as refused:
        raise DataError(f"{refused.problem.where}: {refused.problem.detail}") from None
    contents = Contents("image", np.zeros(len(usable)), found.y, found.target, classes=found.classes)
    said = targets.of(prepared.schema).said(contents, np.arange(len(usable)), prepared.schema)
    beside: list[Any] = [None] * len(names)
    for index, value in zip(usable, said, strict=True):
        beside[index] = value
    return beside


def _listed(
    images: Sequence[Given],
    prepared: Preparation,
    names: Sequence[str] | None = None,
    beside: Sequence[Any] | None = None,
) -> Inputs:
    """Images one by one, each a path, an image of Pillow or an array."""
    if targets.of(prepared.schema).whole_images and any(
        isinstance(one, str | Path | Image.Image) for one in images
    ):
        return _whole(images, prepared, [_name(one, i) for i, one in enumerate(images)], [])
    called = names or [_name(one, i) for i, one in enumerate(images)]

    def read(size: int) -> Iterator[InputChunk]:
        for first in range(0, len(images), size):
            part = slice(first, first + size)
            found = [_read(one, name, prepared) for one, name in zip(images[part], called[part], strict=True)]
            yield chunk(prepared, called[part], found, None if beside is None else beside[part])

    return Inputs("images", len(images), read)


def _whole(
    images: Sequence[Given], prepared: Preparation, names: Sequence[str], beside: Sequence[scenes.Beside]
) -> Inputs:
    """Images one by one, brought to the size of the training images as a whole, and what is known of each."""
    canvas = (prepared.schema.shape[0], prepared.schema.shape[1])

    def read(size: int) -> Iterator[InputChunk]:
        for first in range(0, len(images), size):
            found: list[np.ndarray | Problem] = []
            known: list[Any] = []
            at: list[Placement] = []
            given: list[Original] = []
            for index in range(first, min(first + size, len(images))):
                try:
                    x, own, placed = _placed(images[index], prepared)
                except picture.Unusable as bad:
                    found.append(Problem(bad.kind, names[index], bad.detail))
                    known.append(None)
                    continue
                found.append(x)
                known.append(scenes.usable(beside[index], own, placed, canvas) if beside else None)
                at.append(placed)
                given.append(_original(images[index], own, beside[index] if beside else None, prepared))
            part = chunk(prepared, names[first : first + size], found, known if beside else None)
            yield part._replace(placements=at, originals=given)

    return Inputs("images", len(images), read)


def _original(
    one: Given, size: tuple[int, int], beside: scenes.Beside | None, prepared: Preparation
) -> Original:
    """What an image was before it was placed, read when it is asked for."""

    def pixels() -> np.ndarray:
        found = _decoded(one)
        if found is None:
            return _placed(one, prepared)[0]
        return prepared.examples(_in_units(_coloured(found, prepared.schema.shape[2]), prepared)[None])[0]

    return Original(size, pixels, lambda: None if beside is None else beside(size, Placement(), size))


def _decoded(one: Given) -> UInt8[np.ndarray, "height width colours"] | None:
    """The pixels of an image that has a size of its own; nothing for an array, which has that of training."""
    if isinstance(one, str | Path):
        return picture.decode(Path(one).expanduser(), None, _LIMITS["max_pixels"], _LIMITS["max_bytes"])[0]
    if isinstance(one, Image.Image):
        flat = np.asarray(picture.flatten(ImageOps.exif_transpose(one), []))
        return flat if flat.ndim == 3 else flat[..., None]
    return None


def _placed(one: Given, prepared: Preparation) -> tuple[np.ndarray, tuple[int, int], Placement]:
    """One image in model units, the size it had, and where it lies on its canvas."""
    height, width, channels = prepared.schema.shape
    pixels = _decoded(one)
    if pixels is None:
        x = arrays.examples(arrays.as_array(one), prepared)
        return prepared.examples(_converter(x, prepared)(x))[0], (height, width), Placement()
    canvas, at = place_image(pixels, (height, width))
    raw = _in_units(_coloured(canvas, channels), prepared)
    return prepared.examples(raw[None])[0], (pixels.shape[0], pixels.shape[1]), at


def _name(one: Given, index: int) -> str:
    return Path(one).name if isinstance(one, str | Path) else str(index)


def _read(one: Given, name: str, prepared: Preparation) -> np.ndarray | Problem:
    """One image in model units, or why it cannot be used."""
    height, width, _ = prepared.schema.shape
    try:
        if isinstance(one, str | Path):
            limits = _LIMITS["max_pixels"], _LIMITS["max_bytes"]
            pixels, _ = picture.decode(Path(one).expanduser(), [height, width], *limits)
        elif isinstance(one, Image.Image):
            flat = picture.flatten(ImageOps.exif_transpose(one), [])
            pixels = np.asarray(ImageOps.fit(flat, (width, height), Image.Resampling.BICUBIC))
        else:
            x = arrays.examples(arrays.as_array(one), prepared)
            return prepared.examples(_converter(x, prepared)(x))[0]
    except picture.Unusable as bad:
        return Problem(bad.kind, name, bad.detail)
    return prepared.examples(_in_units(_coloured(pixels, prepared.schema.shape[2]), prepared)[None])[0]


def _coloured(pixels: UInt8[np.ndarray, "height width *colours"], channels: int) -> np.ndarray:
    """Pixels with that many channels: grey repeated, or colours as the grey that the eye sees."""
    pixels = pixels if pixels.ndim == 3 else pixels[..., None]
    if pixels.shape[2] == channels:
        return pixels
    if pixels.shape[2] == 3 and channels == 1:
        return np.asarray(Image.fromarray(pixels).convert("L"))[..., None]
    if pixels.shape[2] == 1:
        return np.broadcast_to(pixels, (*pixels.shape[:2], channels))
    raise picture.Unusable("wrong channels", f"{pixels.shape[2]} channels; the run was trained on {channels}")


def _in_units(pixels: UInt8[np.ndarray, "..."], prepared: Preparation) -> Num[np.ndarray, "..."]:
    """Bytes in the units of the training images, which may have another number of levels."""
    levels = prepared.schema.levels
    if not levels:
        return pixels / 255.0
    bits = prepared.options.get("bits")
    if bits is not None:
        return highest_bits(pixels, 256, bits)
    return pixels if levels == 256 else np.rint(pixels * ((levels - 1) / 255.0))


def converted(
    x: Num[np.ndarray, "images height width colours"], levels: int, prepared: Preparation
) -> Num[np.ndarray, "images height width channels"]:
    """Images of this many levels (0: fractions) with the channels and in the units of the training images."""
    schema = prepared.schema
    channels, found = schema.shape[2], x.shape[3]
    if levels != schema.levels:
        shares = x / (levels - 1) if levels else x
        x = np.rint(shares * (schema.levels - 1)) if schema.levels else shares
    if channels == found or found not in (1, 3) or channels not in (1, 3):
        return x
    return np.repeat(x, 3, axis=3) if found == 1 else np.rint(x @ _LUMA)[..., None]


def _converter(x: Num[np.ndarray, "..."], prepared: Preparation) -> arrays.Convert:
    """How images in an array become what the training images are, by the largest of all numbers.

    Fractions up to 1 are parts of the brightest level; bytes beyond the last level are those of a file.
    """
    levels = prepared.schema.levels
    if x.dtype.kind == "f" and levels > 2 and _largest(x) <= 1:
        bits = prepared.options.get("bits")
        if bits is not None:
            return lambda part: highest_bits(np.rint(255 * part), 256, bits)
        return lambda part: np.rint(part * (levels - 1))
    if x.dtype == np.uint8 and levels != 256 and (not levels or _largest(x) >= levels):
        return lambda part: _in_units(part, prepared)
    return lambda part: part


def _largest(x: Num[np.ndarray, "..."]) -> float:
    return float(max(np.nanmax(piece, initial=0) for piece in chunks(x)))


def _formats() -> str:
    return ", ".join(sorted({suffix.lstrip(".") for suffix in picture.FORMATS}))


__all__ = ["converted", "inputs"]
