"""Rule extraction: sentences that reproduce what a function decides, and how faithfully they do.

A small tree is fitted to the function's own answers, on the rows of the user and on perturbed ones (columns exchanged
between rows, numbers shaken), so that it also knows what the function does beside the data. *Fidelity* is how often it
agrees with the function on rows it was not fitted to, for values the explained share of their variance. Rules that
agree too seldom describe something else than the function: they are refused unless asked for by force.

Reference: Craven and Shavlik, Extracting tree-structured representations of trained networks, 1996.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float

from chainrule.core.checks import check_class_numbers, whole
from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import number
from chainrule.explain.methods.all_outputs import finite_outputs
from chainrule.explain.methods.functions import Function, adapted, choose_output
from chainrule.explain.methods.rules.tree import Threshold, TreeNode, grow

LEAST_FIDELITY = 0.9
"""Below this share of agreement rules are no explanation."""
_HELD_OUT = 0.3
_SHAKEN = 0.1
"""Standard deviations by which numbers of perturbed rows are shaken."""


class TreeRule(NamedTuple):
    """Conditions and the answer of the rows that meet them all."""

    conditions: tuple[str, ...]
    answer: str
    share: float
    """Of the user's rows."""
    agreement: float
    """How often the function says the same about these; for values, minus the root mean squared difference."""

    def __str__(self) -> str:
        return (
            f"if {' and '.join(self.conditions)}: {self.answer}"
            if self.conditions
            else f"always: {self.answer}"
        )


@final
@dataclass(frozen=True)
class RuleSet:
    """A set of rules, exactly one of which holds for any input."""

    tree: TreeNode
    rules: tuple[TreeRule, ...]
    fidelity: float
    """Agreement with the function on the user's rows that were held out: a share, or R² for values."""
    fidelity_perturbed: float
    """The same on perturbed rows."""
    accuracy: float | None
    """Agreement of the rules with the true targets of the held-out rows; none where there are no targets."""
    own_accuracy: float | None
    """The same of the function itself."""

    @property
    def is_faithful(self) -> bool:
        """Whether they may be called an explanation."""
        return self.fidelity >= LEAST_FIDELITY


def extract_rules(
    f: Function,
    x: Any,
    y: Any = None,
    *,
    names: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    output: int = 0,
    depth: int = 4,
    perturbed: int = 2,
    seed: int = 0,
    force: bool = False,
) -> RuleSet:
    """Rules for the class that `f` finds largest, or with `classes=None` for the value of one output.

    `perturbed` rows are made of every given one. Rules below 90 % fidelity are refused unless `force` is set.

    >>> rows = np.random.default_rng(0).uniform(-1, 1, size=(300, 2))
    >>> found = extract_rules(lambda x: x, rows, names=["a", "b"], classes=["a wins", "b wins"], depth=6)
    >>> found.is_faithful, len(found.rules) > 4
    (True, True)
    """
    rows = np.asarray(x, np.float64)
    if rows.ndim != 2 or len(rows) < 10:
        raise ArgumentError(
            f"extract_rules(x): shape {rows.shape}",
            remedy="give at least 10 rows of numbers, one column each",
        )
    if names is not None and len(names) != rows.shape[1]:
        raise ArgumentError(
            f"extract_rules(names): {len(names)} names for {rows.shape[1]} columns",
            remedy="name every column",
        )
    if y is not None and len(y) != len(rows):
        raise ArgumentError(
            f"extract_rules(y): {len(y)} targets for {len(rows)} rows", remedy="give one for each row"
        )
    depth, times = whole("extract_rules", "depth", depth), whole("extract_rules", "perturbed", perturbed, 0)
    draw = np.random.default_rng(seed)
    near = _perturbed(rows, times, draw)
    data, beside = (_Part.of(one, _answers(f, one, classes, output), draw) for one in (rows, near))
    fitted = np.concatenate([data.x[~data.held], beside.x[~beside.held]])
    answers = np.concatenate([data.said[~data.held], beside.said[~beside.held]])
    tree = grow(fitted, answers, depth=depth, least=max(2, len(fitted) // 200))
    truth = None if y is None else _truth(np.asarray(y), data.said.shape[1])[data.held]
    found = RuleSet(
        tree,
        _rules(tree, rows, data.said, names, classes),
        data.fidelity(tree),
        beside.fidelity(tree),
        None if truth is None else _agreement(tree.predict(data.x[data.held]), truth),
        None if truth is None else _agreement(data.said[data.held], truth),
    )
    if not found.is_faithful and not force:
        raise ArgumentError(
            f"extract_rules: {len(found.rules)} rules reproduce {number(100 * found.fidelity, 3)} % of what the "
            f"function says, less than {number(100 * LEAST_FIDELITY, 3)} %: they are no explanation of it",
            remedy=f"allow longer rules (depth={depth + 2}), or look at them all the same (force=true)",
        )
    return found


class _Part(NamedTuple):
    """Rows, what the function says of them, and which are held out."""

    x: Float[np.ndarray, "rows columns"]
    said: Float[np.ndarray, "rows answers"]
    held: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, said: np.ndarray, draw: np.random.Generator) -> "_Part":
        """With some rows held out at random, at least one and not all."""
        order = draw.permutation(len(x))
        return cls(x, said, order < np.ceil(_HELD_OUT * len(x)))

    def fidelity(self, tree: TreeNode) -> float:
        """How well a tree agrees with the function on rows that were held out."""
        return _agreement(tree.predict(self.x[self.held]), self.said[self.held])


def _answers(
    f: Function, rows: np.ndarray, classes: Sequence[str] | None, output: int
) -> Float[np.ndarray, "rows answers"]:
    """What the function says, as a tree takes it."""
    if not len(rows):
        return np.zeros((0, 1 if classes is None else len(classes)))
    inputs = rows.astype(np.float32)
    out = finite_outputs("extract_rules", adapted("extract_rules", f, inputs[:1]), inputs)
    if classes is None:
        position, _ = choose_output("extract_rules", output, out.shape[1])
        return out[:, position : position + 1]
    if out.shape[1] == 1:
        out = np.concatenate([-out, out], axis=1)
    if out.shape[1] != len(classes):
        raise ArgumentError(
            f"extract_rules(classes): {len(classes)} names for {out.shape[1]} outputs",
            remedy="name every output",
        )
    return np.eye(len(classes))[out.argmax(axis=1)]


def _truth(y: np.ndarray, width: int) -> np.ndarray:
    if width == 1:
        return y.reshape(-1, 1).astype(float)
    if y.ndim != 1 or y.dtype.kind not in "iub":
        raise ArgumentError(
            f"extract_rules(y): targets of shape {y.shape} and type {y.dtype}",
            remedy="give the number of its class for each row, counted from 0",
        )
    check_class_numbers("extract_rules", "y", y, width)
    return np.eye(width)[y.astype(int)]


def _perturbed(rows: np.ndarray, times: int, draw: np.random.Generator) -> np.ndarray:
    """Rows with half of their columns from other rows, numbers shaken a little; marks and counts stay what they are."""
    found = []
    spread = rows.std(axis=0)
    whole_numbers = (rows == np.rint(rows)).all(axis=0)
    for _ in range(times):
        others = np.take_along_axis(rows, draw.random(rows.shape).argsort(axis=0), axis=0)
        mixed = np.where(draw.random(rows.shape) < 0.5, rows, others)
        noise = _SHAKEN * spread[None] * draw.normal(size=rows.shape)
        found.append(mixed + np.where(whole_numbers[None], 0.0, noise))
    return np.concatenate(found) if found else np.zeros((0, rows.shape[1]))


def _agreement(a: np.ndarray, b: np.ndarray) -> float:
    """The share of rows with the same class, or R² of values."""
    if not len(a):
        return 1.0
    if a.shape[1] > 1:
        return float((a.argmax(axis=1) == b.argmax(axis=1)).mean())
    spread = float(np.square(b - b.mean()).sum())
    return 1 - float(np.square(a - b).sum()) / spread if spread > 0 else float(np.allclose(a, b))


def _rules(
    tree: TreeNode,
    rows: np.ndarray,
    said: np.ndarray,
    names: Sequence[str] | None,
    classes: Sequence[str] | None,
) -> tuple[TreeRule, ...]:
    known = list(names) if names is not None else [f"x{i}" for i in range(rows.shape[1])]
    marks = ((rows == 0) | (rows == 1)).all(axis=0)
    found = []
    for path, leaf in tree.leaves():
        met = np.ones(len(rows), bool)
        for condition in path:
            met &= condition.holds(rows)
        ours = np.repeat(leaf.answer[None], int(met.sum()), axis=0)
        if classes is None:
            apart = float(np.sqrt(np.square(ours - said[met]).mean())) if met.any() else 0.0
            answer, agreement = number(float(leaf.answer[0]), 4), -apart
        else:
            answer, agreement = classes[int(leaf.answer.argmax())], _agreement(ours, said[met])
        found.append(TreeRule(_words(path, known, marks), answer, float(met.mean()), agreement))
    return tuple(sorted(found, key=lambda rule: -rule.share))


def _words(path: Sequence[Threshold], names: Sequence[str], marks: np.ndarray) -> tuple[str, ...]:
    """Conditions in words, one for each column: what is implied by another is left out.

    >>> path = [Threshold(0, 5.0, False), Threshold(0, 2.0, True), Threshold(1, 0.5, True)]
    >>> _words(path, ["age", "city=Rome"], np.array([False, True]))
    ('2 < age ≤ 5', 'city=Rome')
    """
    found = []
    for column in dict.fromkeys(condition.column for condition in path):
        own = [condition for condition in path if condition.column == column]
        name = names[column]
        low = max((one.threshold for one in own if one.above), default=None)
        high = min((one.threshold for one in own if not one.above), default=None)
        if marks[column]:
            found.append(name if low is not None else f"not {name}")
        elif low is not None and high is not None:
            found.append(f"{number(low, 4)} < {name} ≤ {number(high, 4)}")
        else:
            found.append(f"{name} > {number(low, 4)}" if low is not None else f"{name} ≤ {number(high, 4)}")
    return tuple(found)


__all__ = ["LEAST_FIDELITY", "RuleSet", "TreeRule", "extract_rules"]
