"""Who or what an example shows, where those that are asked for later are not those that are learnt from.

Identities are divided, not examples: validation and test hold identities that training has never seen, which is what
verification and search in a gallery are for. Classes of which all splits have examples are `class` targets.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.data.division import Positions
from chainrule.data.loading.problems import Problem
from chainrule.data.loading.scan import Contents
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.target import Cells, ReadTargets, Target

UNKNOWN = 1000
"""Stands for an angle that is not known."""
_LEAST = 3
"""Identities that three splits need."""


def numbers_of(y: Any) -> Any:
    """The number of each identity, whether or not angles stand beside them; works on arrays of NumPy and JAX."""
    return y if y.ndim == 1 else y[:, 0]


def angles_of(y: Any) -> Any:
    """How far each example is turned away from the front, in degrees; nothing where that is not known."""
    return None if y.ndim == 1 else y[:, 1]


@final
class IdentityTarget(Target):
    """`y` holds the number of an identity, and perhaps an angle in degrees beside it.

    `Schema.classes` names the identities of training, which come first; higher numbers are others.
    """

    has_identity: ClassVar[bool] = True
    of_numbers: ClassVar[bool] = True
    of_words: ClassVar[bool] = True

    def from_numbers(self, values: np.ndarray, where: str, names: Sequence[str] = ()) -> ReadTargets:
        """Identities by numbers; a second column holds angles."""
        del names
        if values.ndim == 1:
            return self.from_words([f"{value:g}" for value in values], where)
        return self.with_angles([f"{value:g}" for value in values[:, 0]], values[:, 1])

    def from_words(self, words: Sequence[str], where: str) -> ReadTargets:
        """Identities in alphabetical order.

        >>> target.from_words(["eve", "bob", "eve"], "people.csv").y.tolist()
        [1, 0, 1]
        """
        del where
        classes, y = np.unique(np.array(words), return_inverse=True)
        return ReadTargets("identity", y.astype(np.int32), tuple(map(str, classes)))

    def with_angles(self, words: Sequence[str], angles: Float[np.ndarray, " examples"]) -> ReadTargets:
        """The same with how far each example is turned away from the front, in degrees."""
        found = self.from_words(words, "")
        turned = np.rint(angles).astype(np.int32)
        return found._replace(y=np.stack([found.y, turned], axis=1))

    def groups(self, y: np.ndarray | None) -> Int[np.ndarray, " examples"] | None:
        """Each identity is in one split."""
        if y is None:
            return None
        _, first, number = np.unique(numbers_of(y), return_index=True, return_inverse=True)
        return first[number]

    def problems(self, contents: Contents, where: str, remedy: str) -> list[Problem]:
        """Fewer identities than splits stop the source; identities with one example are noted."""
        if contents.y is None:
            return []
        found, counts = np.unique(numbers_of(contents.y), return_counts=True)
        if len(found) < _LEAST:
            detail = f"{len(found)} identities: training, validation and test need at least one each"
            same = "data.target_as=class divides the examples of each instead"
            return [Problem("too few identities", where, detail, "stop", remedy or same)]
        return [
            Problem(
                "a single example", where, f"of identity {contents.classes[k]!r}: no pair to compare", "note"
            )
            for k in found[counts == 1].tolist()
        ]

    def prepared(
        self, contents: Contents, schema: Schema, train: Positions
    ) -> tuple[Contents, Schema, Scaling | None]:
        """Identities of training first: they alone have a direction to learn, and a name."""
        if contents.y is None:
            return contents, schema, None
        numbers = numbers_of(contents.y)
        known = np.unique(numbers[train])
        order = np.concatenate([known, np.setdiff1d(np.unique(numbers), known)])
        new = np.zeros(len(contents.classes), np.int32)
        new[order] = np.arange(len(order))
        y = np.array(contents.y)
        if y.ndim == 1:
            y = new[numbers]
        else:
            y[:, 0] = new[numbers]
        names = tuple(contents.classes[k] for k in known)
        return replace(contents, y=y), replace(schema, classes=names), None

    def describe(self, schema: Schema) -> str:
        """How many identities training has."""
        return f", {len(schema.classes)} identities to learn from"

    def details(self, schema: Schema) -> list[tuple[str, Sequence[str]]]:
        """Their names."""
        return [("identities of training", schema.classes)]

    def recognised(self, schema: Schema, values: Sequence[Any] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Identities of training by their names; others by what follows their numbers."""
        y = np.zeros((len(values), *schema.target_shape), np.int32)
        known = np.zeros(len(values), bool)
        others: dict[str, int] = {}
        for row, value in enumerate(values):
            if value is None:
                continue
            name, *angle = value if isinstance(value, tuple) else (str(value),)
            if name in schema.classes:
                number = schema.classes.index(name)
            else:
                number = others.setdefault(name, len(schema.classes) + len(others))
            y[row] = [number, *(angle or [UNKNOWN])] if schema.target_shape else number
            known[row] = True
        return y, known

    def said(self, contents: Contents, rows: Positions, schema: Schema) -> Sequence[Any] | np.ndarray:
        """The names of the identities, with angles where there are any."""
        del schema
        assert contents.y is not None, "there are identities"
        y = contents.y[rows]
        names = [contents.classes[k] for k in numbers_of(y)]
        angles = angles_of(y)
        return names if angles is None else list(zip(names, angles.tolist(), strict=True))

    def captions(self, schema: Schema, y: np.ndarray) -> list[str]:
        """The name of an identity of training, the number of another."""
        names = schema.classes
        return [names[k] if k < len(names) else f"no. {k + 1}" for k in numbers_of(np.asarray(y)).tolist()]

    def cells(self, schema: Schema, y: np.ndarray) -> Cells:
        """A column with the identity."""
        return Cells(["identity"], [[name] for name in self.captions(schema, y)])


target = IdentityTarget()

__all__ = ["UNKNOWN", "IdentityTarget", "angles_of", "numbers_of", "target"]
