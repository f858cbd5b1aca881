"""One class of several for each example."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np

from chainrule.core.errors import DataError
from chainrule.data.division import Positions
from chainrule.data.loading.problems import Problem, Refused
from chainrule.data.loading.scan import Contents
from chainrule.data.schema import Schema
from chainrule.data.target import Answers, Cells, Link, ReadTargets, Target, column_names

MOST_CLASSES = 20
"""Whole numbers with more different values than this are taken for values."""

_WHOLE = "biu"
"""Types of arrays that hold whole numbers and nothing else, as class numbers are usually kept."""

_LACKING = "is in validation or test and not in training, so that it cannot be learnt"
_ADD = "add training examples of the class, or leave the class out"


@final
class ClassTarget(Target):
    """`y` holds the number of a class; `Schema.classes` names them. Splits keep the shares of the classes."""

    one_class: ClassVar[bool] = True
    link: ClassVar[Link] = "softmax"
    loss_unit: ClassVar[str] = "nats"
    of_numbers: ClassVar[bool] = True
    of_words: ClassVar[bool] = True

    def claims(self, values: np.ndarray) -> bool:
        """Whole numbers with few different values, and many examples of each.

        Where the type is one of fractions as well, as in every table, each value has to occur as often, on average,
        as there are different ones: 3 classes in 9 rows, 18 in no less than 324.

        >>> target.claims(np.array([3.0, 5.0, 3.0, 3.0])), target.claims(np.array([0.5, 5.0]))
        (True, False)
        >>> target.claims(np.arange(18.0)), target.claims(np.arange(18))
        (False, True)
        """
        different = len(np.unique(values)) if _whole(values) else MOST_CLASSES + 1
        often = values.dtype.kind in _WHOLE or len(values) >= different**2
        return different <= MOST_CLASSES and often

    def from_numbers(self, values: np.ndarray, where: str, names: Sequence[str] = ()) -> ReadTargets:
        """Classes in ascending order.

        >>> target.from_numbers(np.array([3.0, 5.0, 3.0]), "dice.csv").classes
        ('3', '5')
        """
        del names
        if not _whole(values):
            single = values.ndim == 1
            detail = (
                "classes must be whole numbers, one for each example" if single else "one class per example"
            )
            raise Refused("not classes", where, detail, "use data.target_as=value")
        classes, y = np.unique(values, return_inverse=True)
        return ReadTargets("class", y.astype(np.int32), tuple(str(int(value)) for value in classes))

    def from_words(self, words: Sequence[str], where: str) -> ReadTargets:
        """Classes in alphabetical order.

        >>> target.from_words(["dog", "cat", "dog"], "pets.csv").y.tolist()
        [1, 0, 1]
        """
        classes = sorted(set(words))
        if len(classes) > max(MOST_CLASSES, len(words) // 2):
            raise Refused(
                "too many classes",
                where,
                f"the target has {len(classes):,} different words in {len(words):,} rows",
                "name another target: data.target=COLUMN, or none: data.target=none",
            )
        number = {name: i for i, name in enumerate(classes)}
        return ReadTargets("class", np.array([number[word] for word in words], np.int32), tuple(classes))

    def problems(self, contents: Contents, where: str, remedy: str) -> list[Problem]:
        """A class that training lacks, or a single one in it, stops the source; single examples are noted."""
        if contents.y is None:
            return []
        train = contents.y if contents.parts is None else contents.y[contents.parts == 0]
        found = []
        if len(np.unique(train)) < 2:
            detail = f"every training example is of class {contents.classes[int(train[0])]!r}"
            found.append(Problem("one class only", where, detail, "stop", remedy))
        elif contents.parts is not None:
            found += [
                Problem(
                    "class without training", where, f"class {contents.classes[k]!r} {_LACKING}", "stop", _ADD
                )
                for k in np.setdiff1d(contents.y, train)
            ]
        # Whichever split a single example falls into, the others cannot tell of its class.
        rare = np.flatnonzero(np.bincount(contents.y, minlength=len(contents.classes)) < 2)
        names = (contents.classes[k] for k in rare)
        return [
            *found,
            *(Problem("fewer than two examples", where, f"class {name!r}", "note") for name in names),
        ]

    def strata(self, y: np.ndarray | None) -> np.ndarray | None:
        """The classes."""
        return y

    def check_training(self, contents: Contents, train: Positions) -> None:
        """At least two classes, and all that validation and test have."""
        if contents.y is None:
            return
        if len(np.unique(contents.y[train])) < 2:
            raise DataError(
                f"{len(contents)} examples leave only one class for training",
                remedy="give training a larger share, for example split=(0.8, 0.1, 0.1)",
            )
        lacking = np.setdiff1d(contents.y, contents.y[train])
        if len(lacking):
            many = int((contents.y == lacking[0]).sum())
            raise DataError(
                f"class {contents.classes[lacking[0]]!r} ({many:,} example{'s' * (many > 1)}) {_LACKING}",
                remedy=f"give training a larger share, for example split=(0.8, 0.1, 0.1), or {_ADD}",
            )

    def check(self, schema: Schema, y: np.ndarray, where: str) -> None:
        """Numbers of classes that there are."""
        for index in np.flatnonzero((y < 0) | (y >= len(schema.classes)))[:1]:
            raise DataError(
                f"{where}: example {index} is of class number {y[index]}; the {len(schema.classes)} classes are "
                f"numbered 0 to {len(schema.classes) - 1}",
                remedy="number classes in the order of schema.classes",
            )

    def outputs(self, schema: Schema) -> int:
        """A logit for each class."""
        return len(schema.classes)

    def output_names(self, schema: Schema, columns: Sequence[str] = ()) -> tuple[str, ...]:
        """Those of the classes."""
        del columns
        return schema.classes

    def describe(self, schema: Schema) -> str:
        """How many classes."""
        return f", {len(schema.classes)} classes" if schema.classes else ""

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """Their names."""
        return [("classes", schema.classes)]

    def recognised(self, schema: Schema, values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of classes by their names; a whole number is the name of a class as well."""
        number: dict[str | None, int] = {name: i for i, name in enumerate(schema.classes)}
        y = np.array([number.get(_called(value), -1) for value in values], np.int32)
        return y, y >= 0

    def said(self, contents: Contents, rows: Positions, schema: Schema) -> Sequence[Any] | np.ndarray:
        """The names of the classes."""
        del schema
        assert contents.y is not None, "there are classes"
        return [contents.classes[number] for number in contents.y[rows].tolist()]

    def answers(
        self, schema: Schema, names: Sequence[str], predicted: np.ndarray, half: np.ndarray | None
    ) -> Answers:
        """The likeliest class, its probability, and that of every class."""
        del schema, half
        each = dict(zip(column_names(names), predicted.T, strict=True))
        return {
            "prediction": np.array(names)[predicted.argmax(axis=1)],
            "probability": predicted.max(axis=1, initial=0),
            **each,
        }

    def captions(self, schema: Schema, y: np.ndarray) -> list[str]:
        """The name of the class."""
        return [schema.classes[int(i)] for i in y]

    def cells(self, schema: Schema, y: np.ndarray) -> Cells:
        """A column with the name of the class."""
        return Cells(["class"], [[name] for name in self.captions(schema, y)])


def _called(value: Any) -> str | None:
    """The name of a class that a word or a whole number stands for.

    >>> _called("cat"), _called(np.float64(3.0)), _called(0.5), _called(None)
    ('cat', '3', None, None)
    """
    if isinstance(value, str):
        return value.strip()
    number = value if isinstance(value, int | float | np.number) else math.nan
    return str(int(number)) if number == np.rint(number) else None


def _whole(values: np.ndarray) -> bool:
    return values.ndim == 1 and bool(np.all(values == np.rint(values)))


target = ClassTarget()

__all__ = ["MOST_CLASSES", "ClassTarget", "target"]
