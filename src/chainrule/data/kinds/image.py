"""Images: grids of pixels, (height, width, channels)."""

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from chainrule.core.pictures import SMOOTH_UP_TO, Images, Picture
from chainrule.data import targets
from chainrule.data.kind import Arranged, Kind
from chainrule.data.loading.levels import counted
from chainrule.data.loading.moments import chunks
from chainrule.data.loading.problems import Refused
from chainrule.data.loading.scan import Contents
from chainrule.data.previews import some, table, title_of
from chainrule.data.schema import Schema
from chainrule.data.splits import Split

if TYPE_CHECKING:
    from chainrule.data.dataset import Data
    from chainrule.data.inputs.protocol import Given, Inputs, Preparation

_SHOWN = 30
_LINE = 14
"""Characters of a caption in one line below its image."""


@final
class ImageKind(Kind):
    """Pixels between 0 and 1, or of a number of levels."""

    noun: ClassVar[str] = "images"
    sample_count: ClassVar[int] = 100
    spatial: ClassVar[bool] = True
    comparable: ClassVar[bool] = True
    can_be_binary: ClassVar[bool] = True
    axes: ClassVar[tuple[int, ...]] = (3, 4)

    def shows_pixels(self, schema: Schema) -> bool:
        """One channel is grey, three are colour; others cannot be shown."""
        return schema.shape[-1] in (1, 3)

    def in_unit_interval(self, schema: Schema) -> bool:
        """Always."""
        del schema
        return True

    def raw_range(self, schema: Schema) -> tuple[float, float]:
        """From the first level to the last (0 to 255 for 8-bit images), or from 0 to 1."""
        return 0.0, max(schema.levels - 1.0, 1.0)

    def smaller(self, schema: Schema) -> str:
        """A size that a network learns in minutes, or half of it."""
        side = max(schema.shape[:2])
        return f"data.size={32 if side > 32 else side // 2}" if side > 16 else ""

    def describe(self, schema: Schema, total: int) -> str:
        """How many, and their size."""
        size = "×".join(str(n) for n in schema.shape)
        return f"{total:,} images of {size}{targets.of(schema).describe(schema)}"

    def claims(self, x: np.ndarray, where: str) -> bool:
        """Any array with a height and a width, unless channels seem to come first."""
        if x.ndim == 4 and x.shape[-1] > 4:
            shape = "×".join(str(n) for n in x.shape)
            remedy = "channels come last: numpy.moveaxis(x, 1, -1); if they do: data.kind=image"
            raise Refused("unclear shape", where, f"{shape}: images with {x.shape[-1]} channels?", remedy)
        return x.ndim in self.axes

    def arranged(self, x: np.ndarray, rows: np.ndarray | None, levels: int | None, where: str) -> Arranged:
        """Images and the number of their levels; 0 for numbers between 0 and 1."""
        if levels is None and x.dtype in (np.bool_, np.uint8, np.uint16):
            levels = 2 if x.dtype == np.bool_ else 2 ** (8 * x.dtype.itemsize)
        if levels is None:
            low = min(float(piece.min()) for piece in chunks(x, rows))
            high = max(float(piece.max()) for piece in chunks(x, rows))
            if x.dtype.kind != "f" or low < 0 or high > 1:
                whole = (
                    f"whole numbers: data.levels={max(2, int(high) + 1)}; others: "
                    if 0 <= low <= high < 2**16
                    else ""
                )
                remedy = f"{whole}bring them to [0, 1]"
                span = f"values from {low:g} to {high:g} of type {x.dtype}"
                raise Refused("unknown levels", where, f"images hold {span}", remedy)
            return Arranged(x if isinstance(x, np.memmap) else x.astype(np.float32, copy=False))
        return Arranged(counted(x, rows, levels, where), levels)

    def inputs(self, given: "Given", prepared: "Preparation") -> "Inputs":
        """Images in files, folders, arrays, and images of Pillow."""
        from chainrule.data.inputs import images

        return images.inputs(given, prepared)

    def own_options(self, schema: Schema) -> dict[str, Any]:
        """Files are scaled and cropped to the size of the training images; arrays count by the same levels."""
        return {"size": list(schema.shape[:2]), "levels": schema.levels or None}

    def adopted(self, contents: Contents, rows: np.ndarray, prepared: "Preparation", where: str) -> Split:
        """Images with the channels and levels of the training images."""
        from chainrule.data.inputs.images import converted
        from chainrule.data.loading.others import examples_like

        x = np.asarray(contents.x[rows if contents.rows is None else contents.rows[rows]])
        return examples_like(contents, rows, prepared, where, converted(x, contents.levels, prepared))

    def preview(self, data: "Data") -> Picture:
        """A sheet of images with what is said of them."""
        x, y = some(data, _SHOWN)[:2]
        target = targets.of(data.schema)
        labels = target.captions(data.schema, y) if target.given else []
        columns = 5 if target.has_tokens else 10
        pixels = x / max(1, data.schema.levels - 1)
        if target.has_boxes or target.has_mask:
            pixels, marks = target.marked(data.schema, pixels, y)
            return Images("data-images", title_of(data, len(x), "images"), pixels, labels, 6, marks=marks)
        return Images("data-images", title_of(data, len(x), "images"), pixels, labels, columns)

    def picture(
        self,
        schema: Schema,
        drawn: np.ndarray,
        names: Sequence[str] = (),
        *,
        real: np.ndarray | None = None,
        follows: np.ndarray | None = None,
        title: str = "Samples",
        caption: str = "",
    ) -> Picture:
        """A sheet; every sample to the right of the image it follows, where there is one."""
        del real
        if not self.shows_pixels(schema):
            return table(schema, drawn, names, title, caption)
        if follows is not None:
            return _beside(follows, unit_images(schema, drawn), names, title, caption)
        columns = len(schema.classes) if names and 5 <= len(schema.classes) <= 12 else 10
        if names and targets.of(schema).has_tokens:
            names, columns = [fill(name, _LINE) for name in names], 8
        smooth = (
            max(schema.shape[:2]) <= SMOOTH_UP_TO and schema.levels != 2
        )  # zeros and ones have nothing between them
        return Images("samples", title, unit_images(schema, drawn), names, columns, caption, smooth)


def unit_images(schema: Schema, x: np.ndarray) -> np.ndarray:
    """Images in original units as numbers in [0, 1]: by their levels, or stretched between their extremes."""
    images = np.asarray(x, dtype=float)
    if schema.levels:
        return np.clip(images / max(schema.levels - 1, 1), 0, 1)
    low, high = images.min(initial=0.0), images.max(initial=1.0)
    return (images - low) / (high - low)


def _beside(follows: np.ndarray, drawn: np.ndarray, names: Sequence[str], title: str, caption: str) -> Images:
    if follows.shape[-1] != drawn.shape[-1]:
        follows = np.repeat(follows.mean(axis=-1, keepdims=True), drawn.shape[-1], axis=-1)
    both = np.stack([follows, drawn], axis=1).reshape(-1, *drawn.shape[1:])
    labels = [word for i in range(len(drawn)) for word in ("control", names[i] if names else "sample")]
    return Images("samples", f"{title} beside what they follow", both, labels, caption=caption)


kind = ImageKind()

__all__ = ["ImageKind", "kind", "unit_images"]
