"""Masks of new images: found at the size of the image, written as PNG files, judged where true masks are there.

An image is brought to the size of the training images as a whole, as those were; or, where training images were never
scaled, it is looked at as it is, in tiles of the training size that overlap by a quarter and are faded from one to the
next. One compiled program and a bounded memory serve images of any size.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
from jaxtyping import Float, UInt8

from chainrule.core import progress
from chainrule.core.errors import CapabilityError, DataError
from chainrule.core.palette import GROUPS, LIGHT
from chainrule.data import kinds
from chainrule.data.inputs.protocol import Given, InputChunk, Original
from chainrule.data.placement import Placement
from chainrule.data.readers.picture import Unusable
from chainrule.data.target import column_names
from chainrule.data.targets.mask import IGNORE
from chainrule.models.protocol import CanRefine, Model, refining
from chainrule.nn.segmentation import MaskAgreement, agreement
from chainrule.train.file_names import free
from chainrule.train.files import disk_errors
from chainrule.train.predicting import Answered, Answering, Predict, Unanswered, in_batches, predict_function
from chainrule.train.scores.segmentation import segmentation
from chainrule.train.scoring import Metric

if TYPE_CHECKING:
    from chainrule.train.run import Run

MASKS = "masks"
"""The folder of the masks, beside the table."""
NAMES = "classes.txt"
_AT_ONCE = 8
"""Images, or tiles of one, that go through the network together."""


@final
class MaskFinder(Answering):
    """The classes of the pixels of each image, as shares in a table and as a mask where there is a folder for it."""

    def __init__(self, run: "Run", given: Given, *, crf: bool = False, tiled: bool | None = None) -> None:
        self._predict = predict_function(run)
        self._model = refined(run.model, run.id) if crf else run.model
        prepared = run.preparation
        self._schema = prepared.schema
        # Sides of files that were scaled stand in the options; those of generated images are their own.
        scaled = isinstance(prepared.options.get("size"), list | tuple)
        self._tiled = not scaled if tiled is None else tiled
        self._inputs = kinds.of(prepared.schema).inputs(given, prepared)
        self._folder: Path | None = None
        self._found = MaskAgreement.none(len(prepared.schema.classes))
        self._unused: list[str] = []
        self._cut = 0
        self._taken: set[str] = set()
        self.problems: list[Unanswered] = []
        self.count = 0

    def into(self, folder: Path) -> None:
        """Masks are written to `masks` in this folder, and the names of their classes beside them."""
        self._folder = folder / MASKS
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            if not _values(self._schema.classes):
                names = "".join(f"{name}\n" for name in self._schema.classes)
                (folder / NAMES).write_text(names, encoding="utf-8")

    def __iter__(self) -> Iterator[Answered]:
        for chunk in self._inputs.chunks(1 if self._tiled else _AT_ONCE):
            yield self._answer(chunk)
            progress.update(f"masks of {self._inputs.unit}", self.count, self._inputs.total)
        if not self.count:
            raise DataError("there are no images to find anything in")

    def metrics(self) -> dict[str, Metric]:
        """Scores of the images whose masks are there, at their own size."""
        return segmentation(self._found, self._schema.classes)

    def remarks(self) -> list[str]:
        """How images were looked at, and which masks were not used."""
        found = [*filter(None, self._inputs.notes)]
        height, width = self._schema.shape[:2]
        if self._cut:
            found.append(
                f"{self._cut:,} images are larger than the {width}×{height} of training and were looked at in tiles; "
                "as a whole, scaled down: tiled=false"
            )
        if self._unused:
            more = f" and {len(self._unused) - 1:,} more" if len(self._unused) > 1 else ""
            found.append(f"masks that were not used to judge: {self._unused[0]}{more}")
        return found

    def _answer(self, chunk: InputChunk) -> Answered:
        self.count += len(chunk.names)
        self.problems += [
            Unanswered(chunk.names[row], chunk.faults[row].where, chunk.faults[row].reason)
            for row in sorted(chunk.faults)
        ]
        classes = self._schema.classes
        heads = ["prediction", "probability", *(f"share {name}" for name in column_names(classes))]
        numbers = np.full((len(chunk.names), len(heads) - 1), np.nan)
        words = [""] * len(chunk.names)
        files = [""] * len(chunk.names)
        for index, (row, p) in enumerate(zip(chunk.rows.tolist(), self._probabilities(chunk), strict=True)):
            mask = p.argmax(axis=-1).astype(np.uint8)
            shares = np.bincount(mask.reshape(-1), minlength=len(classes)) / mask.size
            words[row] = ", ".join(classes[k] for k in np.flatnonzero(shares) if k)
            numbers[row] = [float(p.max(axis=-1).mean()), *shares]
            if self._folder is not None:
                files[row] = f"{MASKS}/{self._write(mask, chunk.names[row])}"
            if chunk.originals:
                self._judge(mask, chunk.originals[index], chunk.names[row])
        columns = dict(zip(heads[1:], numbers.T, strict=True))
        written = {} if self._folder is None else {"mask": np.array(files, np.str_)}
        return Answered(list(chunk.names), {"prediction": np.array(words, np.str_), **columns, **written})

    def _probabilities(self, chunk: InputChunk) -> Iterator[Float[np.ndarray, "height width classes"]]:
        """Those of each image that can be used, at its own size."""
        if not self._tiled or not chunk.originals:
            canvases = in_batches(self._predict, self._model, chunk.x, _AT_ONCE)
            placements = chunk.placements or [Placement()] * len(canvases)
            sizes = [one.size for one in chunk.originals] or [p.shape[:2] for p in canvases]
            for p, at, size in zip(canvases, placements, sizes, strict=True):
                yield restored(p, at, size)
            return
        for one in chunk.originals:
            tile = (self._schema.shape[0], self._schema.shape[1])
            self._cut += one.size[0] > tile[0] or one.size[1] > tile[1]
            yield tiled(self._predict, self._model, one.pixels(), tile)

    def _judge(self, mask: UInt8[np.ndarray, "height width"], one: Original, name: str) -> None:
        try:
            true = one.target()
        except Unusable as bad:
            self._unused.append(f"that of {name} ({bad.kind}: {bad.detail})")
            return
        if true is not None:
            found = agreement([mask], [true], len(self._schema.classes), ignore=IGNORE)
            self._found = self._found.plus(found)

    def _write(self, mask: UInt8[np.ndarray, "height width"], name: str) -> str:
        from PIL import Image

        assert self._folder is not None, "there is a folder"
        file = f"{free(name, self._taken, 'image')}.png"
        values = _values(self._schema.classes)
        numbers = np.array(values)[mask] if values else mask
        if numbers.max(initial=0) > 255:
            image = Image.fromarray(numbers.astype(np.uint16))
        else:  # coloured, and still a number for each pixel
            image = Image.fromarray(numbers.astype(np.uint8), "P")
            image.putpalette(_palette(values or list(range(len(self._schema.classes)))))
        with disk_errors(self._folder / file):
            image.save(self._folder / file)
        return file


def refined(model: Model, name: str) -> CanRefine:
    """The model with refined predictions; an error for one that gives pixels no class."""
    if not isinstance(model, CanRefine):
        raise CapabilityError(
            f"crf=true: the model of {name} gives pixels no class that could be refined",
            remedy="leave crf out",
        )
    return refining(model)


def tiled(
    predict: Predict, model: Model, x: Float[np.ndarray, "height width channels"], tile: tuple[int, int]
) -> Float[np.ndarray, "height width classes"]:
    """Probabilities of an image of any size, looked at tile by tile; small ones lie in their mirror image."""
    fades = [n // 4 for n in tile]
    size = x.shape[:2]
    starts = [_starts(n, side, fade) for n, side, fade in zip(size, tile, fades, strict=True)]
    around = [max(0, side - n) for n, side in zip(size, tile, strict=True)]
    whole = np.pad(x, ((0, around[0]), (0, around[1]), (0, 0)), mode="symmetric") if any(around) else x
    corners = [(top, left) for top in starts[0] for left in starts[1]]
    total: np.ndarray | None = None
    weights = np.zeros((*whole.shape[:2], 1), np.float32)
    ramps = [_ramp(side, fade) for side, fade in zip(tile, fades, strict=True)]
    window = (ramps[0][:, None] * ramps[1][None])[..., None]
    for first in range(0, len(corners), _AT_ONCE):
        part = corners[first : first + _AT_ONCE]
        cut = np.stack([whole[top : top + tile[0], left : left + tile[1]] for top, left in part])
        for p, (top, left) in zip(in_batches(predict, model, cut, _AT_ONCE), part, strict=True):
            total = np.zeros((*whole.shape[:2], p.shape[-1]), np.float32) if total is None else total
            where = (slice(top, top + tile[0]), slice(left, left + tile[1]))
            total[where] += window * p
            weights[where] += window
    assert total is not None, "there is a tile"
    found: np.ndarray = (total / weights)[: size[0], : size[1]]
    return found


def restored(
    p: Float[np.ndarray, "canvas_height canvas_width classes"], at: Placement, size: tuple[int, ...]
) -> Float[np.ndarray, "height width classes"]:
    """Probabilities on a canvas as those of the pixels of the image that lies on it."""
    from PIL import Image

    height, width = (
        max(1, min(round(n * at.scale), most)) for n, most in zip(size, p.shape[:2], strict=True)
    )
    part = p[at.top : at.top + height, at.left : at.left + width]
    if part.shape[:2] == tuple(size):
        return part
    rows, columns = size
    planes = [
        np.asarray(
            Image.fromarray(plane.astype(np.float32)).resize((columns, rows), Image.Resampling.BILINEAR)
        )
        for plane in np.moveaxis(part, -1, 0)
    ]
    return np.stack(planes, axis=-1)


def _starts(size: int, side: int, fade: int) -> list[int]:
    """Where tiles begin along an axis: as few as overlap by at least `fade`, evenly, the last one at the end."""
    if size <= side:
        return [0]
    count = 1 + -(-(size - side) // max(1, side - fade))
    return [round(i * (size - side) / (count - 1)) for i in range(count)]


def _ramp(side: int, fade: int) -> Float[np.ndarray, " side"]:
    """Weights of a tile: rising over its overlap with the one before, falling over that with the next, never 0."""
    rise = (np.arange(side, dtype=np.float32) + 1) / (fade + 1)
    found: np.ndarray = np.minimum(1.0, np.minimum(rise, rise[::-1]))
    return found


def _values(classes: tuple[str, ...]) -> list[int]:
    """The values of the masks of training where these are the names of the classes, else none."""
    return [int(name) for name in classes] if all(map(str.isdecimal, classes)) else []


def _palette(values: list[int]) -> list[int]:
    """Colours for a viewer: black for the first class, those of pictures for the others."""
    colours = [0] * (3 * (max(values) + 1))
    for number, value in enumerate(values):
        if number:
            shade = LIGHT[GROUPS[(number - 1) % len(GROUPS)]]
            colours[3 * value : 3 * value + 3] = [int(shade[i : i + 2], 16) for i in (1, 3, 5)]
    return colours


__all__ = ["MASKS", "NAMES", "MaskFinder", "refined", "restored", "tiled"]
