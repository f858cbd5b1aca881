"""The interface of targets: what stands beside an example, and what models and pictures need to know of it.

Each target is one file in `data/targets`, and the file is the registration. `Schema.target` is its name;
`targets.of(schema)` is the object.
"""

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Mark
from chainrule.data.division import Positions
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents
from chainrule.data.placement import Placement
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema

Cell: TypeAlias = str | float | int
Answers: TypeAlias = Mapping[str, np.ndarray]
"""Columns of a table of predictions by their names, words or numbers."""
_OWN_COLUMNS = ("name", "prediction", "probability", "low", "high", "target")
"""Columns of a table of predictions that have nothing to do with the names of classes."""
Link: TypeAlias = Literal["softmax", "sigmoid", "identity", "ordered"]


class ReadTargets(NamedTuple):
    """Targets in the form a split keeps them: class numbers, zeros and ones, or values."""

    target: str
    """The name of what they are."""
    y: np.ndarray
    classes: tuple[str, ...] = ()


class Cells(NamedTuple):
    """Columns of a table: their names, and a row of cells for each example."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]


class MarkedImages(NamedTuple):
    """Images with what is marked in them."""

    images: np.ndarray
    """In [0, 1]; masks are mixed into the pixels."""
    marks: Sequence[Sequence[Mark]]
    """Boxes to be drawn over each; empty where there are none."""


class Target(abc.ABC):
    """What stands beside an example, to be predicted from it or to ask for it."""

    given: ClassVar[bool] = True
    """Whether there is anything at all."""
    one_class: ClassVar[bool] = False
    """Whether `y` is the number of one class of several, so that a prediction is a distribution over them."""
    has_labels: ClassVar[bool] = False
    """Whether `y` is 0 or 1 for each of several labels."""
    has_values: ClassVar[bool] = False
    """Whether `y` is one or several numbers on a scale."""
    has_identity: ClassVar[bool] = False
    """Whether `y` is the number of an identity, those of held-out examples being others than those of training."""
    has_votes: ClassVar[bool] = False
    """Whether `y` is a distribution over grades in ascending order."""
    has_tokens: ClassVar[bool] = False
    """Whether `y` is a text: rows of tokens with an end mark."""
    has_boxes: ClassVar[bool] = False
    """Whether `y` is a box and a class for each of several objects of an image."""
    has_mask: ClassVar[bool] = False
    """Whether `y` is a class for each pixel of an image."""
    whole_images: ClassVar[bool] = False
    """Whether images that are brought to another size stay whole, because what is at their edges counts."""
    has_sources: ClassVar[bool] = False
    """Whether `y` is a signal for each of several sources, whose sum the example is."""
    link: ClassVar[Link] = "identity"
    """From the outputs of a network to a prediction; the loss that goes with it is its negative log-likelihood."""
    loss_unit: ClassVar[str] = ""
    """What the loss of a prediction is measured in."""
    of_numbers: ClassVar[bool] = False
    """Whether numbers beside the examples can be read as this."""
    of_words: ClassVar[bool] = False
    """Whether words beside the examples can be read as this."""

    def claims(self, values: np.ndarray) -> bool:
        """Default: unless the user says so, no numbers are taken for this."""
        del values
        return False

    def from_numbers(self, values: np.ndarray, where: str, names: Sequence[str] = ()) -> ReadTargets:
        """Default: not from numbers. `names` are those of the columns, where there are several."""
        del values, names
        raise Refused("unclear target", where, f"numbers are no {type(self).__name__}")

    def from_words(self, words: Sequence[str], where: str) -> ReadTargets:
        """Default: not from words."""
        del words
        raise Refused("not values", where, "the targets are words", "use data.target_as=class")

    def problems(self, contents: Contents, where: str, remedy: str) -> list[Problem]:
        """Default: nothing is wrong. `remedy` says how to do without a target, where that is possible."""
        del contents, where, remedy
        return []

    def strata(self, y: np.ndarray | None) -> np.ndarray | None:
        """Default: examples are divided without regard to their targets; otherwise, the stratum of each."""
        del y
        return None

    def groups(self, y: np.ndarray | None) -> np.ndarray | None:
        """Default: examples are divided one by one; otherwise, the first example of those that stay together."""
        del y
        return None

    def with_angles(self, words: Sequence[str], angles: np.ndarray) -> ReadTargets:
        """Default: no angle stands beside a target; otherwise how far each example is turned away, in degrees."""
        del words, angles
        raise CapabilityError(f"a {type(self).__name__} has no angles")

    def check_training(self, contents: Contents, train: Positions) -> None:
        """Default: any training examples will do; otherwise, an error if nothing can be learnt from these."""
        del contents, train

    def check(self, schema: Schema, y: np.ndarray, where: str) -> None:
        """Default: all targets are possible; otherwise, an error for some that a loss would take for others."""
        del schema, y, where

    def prepared(
        self, contents: Contents, schema: Schema, train: Positions
    ) -> tuple[Contents, Schema, Scaling | None]:
        """Default: targets stay as they are; otherwise what training examples decide: tokens, a scaling."""
        del train
        return contents, schema, None

    def outputs(self, schema: Schema) -> int:
        """Default: a network gives one number for each of the target."""
        return math.prod(schema.target_shape)

    def output_names(self, schema: Schema, columns: Sequence[str] = ()) -> tuple[str, ...]:
        """Default: those of the target's columns, or numbers; otherwise the names of what is predicted.

        Several numbers come in the order of the target's entries.
        """
        count = self.outputs(schema)
        if len(columns) == count:
            return tuple(columns)
        return tuple(f"output {index}" for index in range(count)) if count > 1 else ("value",)

    @abc.abstractmethod
    def describe(self, schema: Schema) -> str:
        """What the line that describes the data says of the target."""

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """Default: no lists of names; otherwise what they are of, and the names."""
        del schema
        return []

    def recognised(self, schema: Schema, values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Default: nothing is known; otherwise targets by the names or numbers that stand for them, and which are.

        Classes go by their names, whatever their order elsewhere. `None` is never known.
        """
        del schema
        return np.zeros(len(values)), np.zeros(len(values), bool)

    def said(self, contents: Contents, rows: Positions, schema: Schema) -> Sequence[Any] | np.ndarray:
        """Default: the numbers beside these examples; otherwise what `recognised` knows them by."""
        del schema
        assert contents.y is not None, "there are targets"
        return contents.y[rows]

    def answers(
        self, schema: Schema, names: Sequence[str], predicted: np.ndarray, half: np.ndarray | None
    ) -> Answers:
        """Default: nothing can be predicted; otherwise the columns of a table of predictions.

        `names` are those of the outputs. `predicted` is what a model gives, values in the units of the data; `half` is
        how far an interval reaches to either side of them, where that is known, by output or by prediction.
        """
        del schema, names, predicted, half
        return {}

    def answer_rows(self, predicted: np.ndarray) -> np.ndarray | None:
        """Default: `answers` has a row for each prediction; otherwise the number of the prediction each row is of."""
        del predicted
        return None

    def restored(self, predicted: np.ndarray, placements: Sequence[Placement]) -> np.ndarray:
        """Default: predictions as they are; otherwise as what they say of the images before these were placed."""
        del placements
        return predicted

    def marked(self, schema: Schema, images: np.ndarray, y: np.ndarray) -> MarkedImages:
        """Default: images in [0, 1] as they are; otherwise with what targets mark in them."""
        del schema, y
        return MarkedImages(images, ())

    def captions(self, schema: Schema, y: np.ndarray) -> list[str]:
        """Default: nothing is written below an example; otherwise what is to be written below each."""
        del schema, y
        return []

    def cells(self, schema: Schema, y: np.ndarray) -> Cells:
        """Default: no columns in a table of examples."""
        del schema
        return Cells([], [[] for _ in range(len(y))])


def column_names(names: Sequence[str]) -> list[str]:
    """Names of classes, labels or outputs as columns beside `name`, `prediction` and the like.

    >>> column_names(["cat", "target"])
    ['cat', 'target (class)']
    """
    return [f"{name} (class)" if name in _OWN_COLUMNS else name for name in names]


__all__ = ["Answers", "Cell", "Cells", "Link", "MarkedImages", "ReadTargets", "Target", "column_names"]
