"""A class for each pixel of an image."""

from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np

from chainrule.core.errors import DataError
from chainrule.core.palette import GROUPS, LIGHT
from chainrule.data.division import Positions
from chainrule.data.loading.problems import Problem
from chainrule.data.loading.scan import Contents
from chainrule.data.schema import Schema
from chainrule.data.target import Cells, Link, MarkedImages, Target

IGNORE = 255
"""The value of pixels that belong to no class and count for nothing."""
_SHADE = 0.75
"""How much of a pixel is the colour of its class."""


@final
class MaskTarget(Target):
    """`y` holds the number of a class for each pixel, `IGNORE` where none counts; `Schema.classes` names them.

    A prediction holds the probability of each class at each pixel, (height, width, classes).
    """

    has_mask: ClassVar[bool] = True
    whole_images: ClassVar[bool] = True
    link: ClassVar[Link] = "softmax"
    loss_unit: ClassVar[str] = "nats"

    def problems(self, contents: Contents, where: str, remedy: str) -> list[Problem]:
        """A single class in all masks stops the source; classes that no pixel has are noted."""
        del remedy
        assert contents.y is not None, "masks are there"
        counts = np.bincount(contents.y.reshape(-1), minlength=IGNORE + 1)[: len(contents.classes)]
        if (counts > 0).sum() < 2:
            detail = "every pixel that counts is of one class"
            return [
                Problem("one class only", where, detail, "stop", "images by themselves: data.target=none")
            ]
        return [
            Problem("class without pixels", where, f"class {name!r}", "note")
            for name, count in zip(contents.classes, counts, strict=True)
            if not count
        ]

    def check(self, schema: Schema, y: np.ndarray, where: str) -> None:
        """Numbers of classes that there are, or the one that is ignored."""
        wrong = np.setdiff1d(y, [*range(len(schema.classes)), IGNORE])
        if len(wrong):
            shown = ", ".join(str(value) for value in wrong[:8])
            raise DataError(
                f"{where}: masks hold {shown}; the {len(schema.classes)} classes are numbered from 0, and {IGNORE} "
                "counts for none"
            )

    def outputs(self, schema: Schema) -> int:
        """A logit for each class, at each pixel."""
        return len(schema.classes)

    def output_names(self, schema: Schema, columns: Sequence[str] = ()) -> tuple[str, ...]:
        """Those of the classes."""
        del columns
        return schema.classes

    def describe(self, schema: Schema) -> str:
        """How many classes."""
        return f", masks of {len(schema.classes)} classes"

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """Their names."""
        return [("classes", schema.classes)]

    def recognised(self, schema: Schema, values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masks of class numbers."""
        y = np.full((len(values), *schema.target_shape), IGNORE, np.uint8)
        known = np.zeros(len(values), bool)
        for row, value in enumerate(values):
            found = None if value is None else np.asarray(value)
            if found is not None and found.shape == y.shape[1:]:
                y[row], known[row] = found, True
        return y, known

    def said(self, contents: Contents, rows: Positions, schema: Schema) -> Sequence[Any] | np.ndarray:
        """Masks with the schema's numbers of their classes, by name; nothing for one with another class."""
        assert contents.y is not None, "there are masks"
        unknown = IGNORE - 1 if len(schema.classes) < IGNORE else IGNORE
        new = np.full(IGNORE + 1, unknown, np.uint8)
        new[IGNORE] = IGNORE
        for index, name in enumerate(contents.classes):
            if name in schema.classes:
                new[index] = schema.classes.index(name)
        masks = new[contents.y[rows]]
        return [None if (mask == unknown).any() and unknown != IGNORE else mask for mask in masks]

    def marked(self, schema: Schema, images: np.ndarray, y: np.ndarray) -> MarkedImages:
        """The colour of each class but the first, which is taken for the background, mixed into the pixels."""
        del schema
        colour = np.array([[int(LIGHT[role][i : i + 2], 16) / 255 for i in (1, 3, 5)] for role in GROUPS])
        numbers = np.asarray(y).astype(int)
        pixels = np.broadcast_to(images, (*images.shape[:3], 3)) if images.shape[3] == 1 else images
        share = np.where((numbers > 0) & (numbers != IGNORE), _SHADE, 0.0)[..., None]
        return MarkedImages((1 - share) * pixels + share * colour[(numbers - 1) % len(colour)], ())

    def captions(self, schema: Schema, y: np.ndarray) -> list[str]:
        """The classes that are there, without the first."""
        return [
            ", ".join(schema.classes[k] for k in np.unique(mask) if 0 < k < len(schema.classes)) for mask in y
        ]

    def cells(self, schema: Schema, y: np.ndarray) -> Cells:
        """A column with the classes that are there."""
        return Cells(["classes"], [[text] for text in self.captions(schema, y)])


target = MaskTarget()

__all__ = ["IGNORE", "MaskTarget", "target"]
