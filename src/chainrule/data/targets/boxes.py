"""Boxes around the objects of an image, each with a class."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np

from chainrule.core.errors import DataError
from chainrule.core.pictures import Mark
from chainrule.data.division import Positions
from chainrule.data.loading.problems import Problem
from chainrule.data.loading.scan import Contents
from chainrule.data.placement import Placement
from chainrule.data.schema import Schema
from chainrule.data.target import Answers, Cells, MarkedImages, Target

FILLER = -1.0
"""The class of rows that only fill up."""
_EDGES = ("x0", "y0", "x1", "y1")


@final
class BoxesTarget(Target):
    """`y` holds (x0, y0, x1, y1, class) in pixels for each object, filled up to one number with rows of class -1.

    A prediction holds (x0, y0, x1, y1, score, class) for each, filled up in the same way.
    """

    has_boxes: ClassVar[bool] = True
    whole_images: ClassVar[bool] = True

    def problems(self, contents: Contents, where: str, remedy: str) -> list[Problem]:
        """Images without a single box stop the source; classes with fewer than two boxes are noted."""
        del remedy
        assert contents.y is not None, "boxes are there"
        labels = contents.y[..., 4]
        if not (labels >= 0).any():
            detail = "there is no box in any image"
            return [Problem("no boxes", where, detail, "stop", "images by themselves: data.target=none")]
        counts = np.bincount(labels[labels >= 0].astype(int), minlength=len(contents.classes))
        return [
            Problem("fewer than two boxes", where, f"class {name!r}", "note")
            for name, count in zip(contents.classes, counts, strict=True)
            if count < 2
        ]

    def check_training(self, contents: Contents, train: Positions) -> None:
        """At least one box."""
        if contents.y is not None and not (contents.y[train, :, 4] >= 0).any():
            raise DataError(
                "no training image has a box", remedy="give training a larger share, or try another data.seed"
            )

    def check(self, schema: Schema, y: np.ndarray, where: str) -> None:
        """Boxes with an area, of classes that there are."""
        there = y[..., 4] >= 0
        good = (y[..., 2] > y[..., 0]) & (y[..., 3] > y[..., 1]) & (y[..., 4] < len(schema.classes))
        for image, box in np.argwhere(there & ~(good & np.isfinite(y).all(axis=-1)))[:1]:
            raise DataError(
                f"{where}: example {image} has the box {y[image, box].tolist()}",
                remedy="boxes are (x0, y0, x1, y1, class) with x0 < x1, y0 < y1 and the number of a class",
            )

    def outputs(self, schema: Schema) -> int:
        """A score for each class."""
        return len(schema.classes)

    def output_names(self, schema: Schema, columns: Sequence[str] = ()) -> tuple[str, ...]:
        """Those of the classes."""
        del columns
        return schema.classes

    def describe(self, schema: Schema) -> str:
        """How many classes, and how many boxes at most."""
        return f", up to {schema.target_shape[0]} boxes of {len(schema.classes)} classes"

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """The names of the classes."""
        return [("classes", schema.classes)]

    def recognised(self, schema: Schema, values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows (x0, y0, x1, y1, class number), filled up; there may be more of them than training had."""
        found = [
            None if value is None or isinstance(value, str) else np.asarray(value, np.float32)
            for value in values
        ]
        most = max([schema.target_shape[0], *(len(one) for one in found if one is not None)])
        y = np.zeros((len(values), most, 5), np.float32)
        y[..., 4] = FILLER
        for row, one in enumerate(found):
            if one is not None:
                y[row, : len(one)] = one
        return y, np.array([one is not None for one in found], bool)

    def said(self, contents: Contents, rows: Positions, schema: Schema) -> Sequence[Any] | np.ndarray:
        """Boxes with the schema's numbers of their classes, by name; of an image with others, the names of these."""
        assert contents.y is not None, "there are boxes"
        number = {name: index for index, name in enumerate(schema.classes)}
        new = np.array([number.get(name, -1) for name in contents.classes])
        found: list[np.ndarray | str] = []
        for boxes in contents.y[rows]:
            own = boxes[boxes[:, 4] >= 0].copy()
            theirs = own[:, 4].astype(int)
            own[:, 4] = new[theirs]
            unknown = sorted({contents.classes[one] for one in theirs[own[:, 4] < 0]})
            found.append(", ".join(unknown) if unknown else own)
        return found

    def answer_rows(self, predicted: np.ndarray) -> np.ndarray:
        """A row for each box; one with nothing in it for an image without any."""
        return np.concatenate(
            [np.full(max(1, int(there.sum())), image) for image, there in enumerate(predicted[..., 5] >= 0)]
            or [np.zeros(0, int)]
        )

    def restored(self, predicted: np.ndarray, placements: Sequence[Placement]) -> np.ndarray:
        """Boxes in pixels of the images as they were given."""
        boxes = [
            at.original(one[:, :4]) for at, one in zip(placements, predicted.astype(np.float64), strict=True)
        ]
        return np.concatenate([np.stack(boxes), predicted[..., 4:]], axis=-1) if boxes else predicted

    def answers(
        self, schema: Schema, names: Sequence[str], predicted: np.ndarray, half: np.ndarray | None
    ) -> Answers:
        """Class, score and edges of each box, from the highest score to the lowest."""
        del names, half
        rows: list[np.ndarray] = []
        for one in predicted:
            own = one[one[:, 5] >= 0]
            own = own[np.argsort(-own[:, 4], kind="stable")]
            rows.append(own if len(own) else np.full((1, 6), np.nan))
        flat = np.concatenate(rows) if rows else np.zeros((0, 6))
        words = ["" if np.isnan(number) else schema.classes[int(number)] for number in flat[:, 5]]
        edges = {name: flat[:, index] for index, name in enumerate(_EDGES)}
        return {"prediction": np.array(words, np.str_), "probability": flat[:, 4], **edges}

    def marked(self, schema: Schema, images: np.ndarray, y: np.ndarray) -> MarkedImages:
        """The boxes, each in the colour of its class."""
        return MarkedImages(images, [marks_of(boxes, schema.classes) for boxes in y])

    def captions(self, schema: Schema, y: np.ndarray) -> list[str]:
        """What objects there are."""
        found = []
        for boxes in y:
            counts = Counter(schema.classes[int(one)] for one in boxes[:, 4] if one >= 0)
            found.append(
                ", ".join(name if count == 1 else f"{count} × {name}" for name, count in counts.items())
            )
        return found

    def cells(self, schema: Schema, y: np.ndarray) -> Cells:
        """A column with what objects there are."""
        return Cells(["objects"], [[text] for text in self.captions(schema, y)])


def marks_of(
    boxes: np.ndarray, classes: Sequence[str], *, dashed: bool = False, named: bool = True
) -> list[Mark]:
    """Rows (x0, y0, x1, y1, class) as marks; those that only fill up are left out.

    >>> marks_of(np.array([[1.0, 2, 5, 6, 0], [0, 0, 0, 0, -1]]), ["cat"])
    [Mark(box=(1.0, 2.0, 5.0, 6.0), label='cat', group=0, dashed=False)]
    """
    return [
        Mark(
            (float(x0), float(y0), float(x1), float(y1)),
            classes[int(label)] if named else "",
            int(label),
            dashed,
        )
        for x0, y0, x1, y1, label in boxes
        if label >= 0
    ]


def filled(boxes: Sequence[np.ndarray]) -> np.ndarray:
    """Rows (x0, y0, x1, y1, class) of each image as one array, filled up to the longest.

    >>> filled([np.array([[1.0, 2, 5, 6, 0]]), np.zeros((0, 5))])[..., 4].tolist()
    [[0.0], [-1.0]]
    """
    most = max([1, *map(len, boxes)])
    y = np.zeros((len(boxes), most, 5), np.float32)
    y[..., 4] = FILLER
    for row, one in enumerate(boxes):
        y[row, : len(one)] = one
    return y


target = BoxesTarget()

__all__ = ["FILLER", "BoxesTarget", "filled", "marks_of", "target"]
