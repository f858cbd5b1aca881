"""What several people thought of each example: a share of votes for each of some grades, in ascending order."""

import math
import re
from collections.abc import Sequence
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float

from chainrule.data.loading.problems import Refused
from chainrule.data.schema import Schema
from chainrule.data.target import Answers, Cells, Link, ReadTargets, Target, column_names

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?$")
_NAMED = 3
"""Examples without votes that are named."""


def grades(names: Sequence[str]) -> Float[np.ndarray, " grades"]:
    """What a vote in each column is worth: the number its name ends in, or 1, 2, ... where one of them has none.

    >>> grades(["votes_2", "votes_4"]).tolist(), grades(["bad", "good"]).tolist()
    ([2.0, 4.0], [1.0, 2.0])
    """
    ends = [_NUMBER.search(name) for name in names]
    if all(ends):
        # A dash before the number joins it to a word, unless there is no word.
        found = [float(end[0].lstrip("-") if end.start() else end[0]) for end in ends if end]
        return np.array(found)
    return np.arange(1.0, len(names) + 1)


def mean_grades(schema: Schema, shares: np.ndarray) -> Float[np.ndarray, " examples"]:
    """The mean grade of each distribution."""
    found: np.ndarray = np.asarray(shares, np.float64) @ grades(schema.classes)
    return found


@final
class VotesTarget(Target):
    """`y` holds shares that add up to one; `Schema.classes` names the grades, from the lowest to the highest."""

    has_votes: ClassVar[bool] = True
    link: ClassVar[Link] = "ordered"
    of_numbers: ClassVar[bool] = True

    def from_numbers(self, values: np.ndarray, where: str, names: Sequence[str] = ()) -> ReadTargets:
        """Shares of the votes, however many an example has.

        >>> target.from_numbers(np.array([[1, 3, 0], [0, 0, 2]]), "photos.csv").y.tolist()
        [[0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]
        """
        if values.ndim != 2 or values.shape[1] < 2:
            detail = "votes need a column for each grade"
            raise Refused("not votes", where, detail, "name them: data.target=1,2,3,4,5")
        names = names or [str(k + 1) for k in range(values.shape[1])]
        if (values < 0).any():
            raise Refused("not votes", where, "a number of votes is below 0", "use data.target_as=value")
        worth = grades(names)
        if (np.diff(worth) <= 0).any():
            order = ",".join(np.array(names)[np.argsort(worth, kind="stable")])
            detail = f"grades must come in ascending order, not {', '.join(names)}"
            raise Refused("not votes", where, detail, f"name them in order: data.target={order}")
        total = values.sum(axis=1, dtype=np.float64)
        without = np.flatnonzero(total == 0)
        if len(without):
            shown = ", ".join(str(row + 1) for row in without[:_NAMED])
            detail = f"{len(without):,} of {len(values):,} examples have no votes; first: {shown}"
            raise Refused("no votes", where, detail, "leave them out of the list")
        return ReadTargets("votes", (values / total[:, None]).astype(np.float32), tuple(names))

    def output_names(self, schema: Schema, columns: Sequence[str] = ()) -> tuple[str, ...]:
        """Those of the grades."""
        del columns
        return schema.classes

    def describe(self, schema: Schema) -> str:
        """How many grades."""
        return f", votes for {len(schema.classes)} grades"

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """Their names."""
        return [("grades", schema.classes)]

    def recognised(self, schema: Schema, values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Votes in the order of the grades, as shares."""
        y = np.zeros((len(values), len(schema.classes)), np.float32)
        known = np.zeros(len(values), bool)
        for row, value in enumerate(values):
            try:
                found = np.asarray(value, np.float64)
            except (TypeError, ValueError):
                continue
            if found.shape == y.shape[1:] and (found >= 0).all() and 0 < found.sum() < math.inf:
                y[row], known[row] = found / found.sum(), True
        return y, known

    def answers(
        self, schema: Schema, names: Sequence[str], predicted: np.ndarray, half: np.ndarray | None
    ) -> Answers:
        """The mean grade, how far votes are spread around it, and the share of each grade."""
        del half
        mean = mean_grades(schema, predicted)
        away = np.square(grades(schema.classes)[None, :] - mean[:, None])
        spread = np.sqrt((predicted * away).sum(axis=1))
        each = dict(zip(column_names(names), predicted.T, strict=True))
        return {"prediction": mean, "spread": spread, **each}

    def captions(self, schema: Schema, y: np.ndarray) -> list[str]:
        """The mean grade."""
        return [f"{grade:.2f}" for grade in mean_grades(schema, y)]

    def cells(self, schema: Schema, y: np.ndarray) -> Cells:
        """A column with the mean grade."""
        return Cells(["grade"], [[float(f"{grade:.3g}")] for grade in mean_grades(schema, y)])


target = VotesTarget()

__all__ = ["VotesTarget", "grades", "mean_grades", "target"]
