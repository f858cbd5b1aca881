"""LIME: a linear model fitted to a function around one input (Ribeiro et al., 2016, arXiv:1602.04938).

The function is evaluated at random neighbours, each weighed by `exp(-d² / width²)` of its distance, and a ridge
regression tells what moves it there. Neighbours of a row of numbers are the row with normal noise in the spread of each
column; where features are grouped, or an image has patches, they are the input with some groups absent. The fit is made
anew with other neighbours several times: what differs between fits is the error of the method's own chance. Fidelity
is measured on neighbours that the fit has not seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.functions import Function
from chainrule.explain.methods.gradients.base import Output, Question, ask, checked_background
from chainrule.explain.methods.quality.agreement import rank_agreement
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.explain.methods.surrogates.neighbourhoods import Absence, ColumnNoise, Neighbourhood
from chainrule.train import Run

_WIDTH = 0.75
"""Width of the neighbourhood, in units of the root of the number of features."""
_ENTRIES = 1 << 22
"""Entries of neighbours that are made at once."""


@final
@dataclass(frozen=True)
class LocalSurrogate:
    """A linear model around each input, and how far it can be trusted."""

    explanation: Explanation
    """What each feature adds in the surrogate, the mean over fits, with the standard error that chance gives it."""
    fidelity: Float[np.ndarray, " batch"]
    """Weighted R² of the fits on neighbours they have not seen; far below 1 the function is not linear there."""
    stability: Float[np.ndarray, " batch"]
    """Rank correlation of the sizes of values between one fit and another."""

    def __str__(self) -> str:
        return (
            f"{self.explanation} · fidelity R² {self.fidelity.mean():.3f} (least {self.fidelity.min():.3f}) · "
            f"stability {self.stability.mean():.3f}"
        )


def lime(
    f: Function | Run,
    x: Any,
    background: Any,
    output: Output = None,
    *,
    samples: int = 1000,
    fits: int = 10,
    width: float | None = None,
    ridge: float = 1e-3,
    most: int | None = None,
    groups: Int[np.ndarray, "..."] | None = None,
    seed: int = 0,
    features: Sequence[str] = (),
) -> LocalSurrogate:
    """A linear surrogate around each input; `f` needs no derivative.

    Rows of numbers move by noise as large as each column's spread in the background, and values are slopes times the
    distance from the background's mean. With `groups`, a number for every entry of an input, groups are absent at
    random, and a value is what the presence of a group adds. `width` is that of the neighbourhood (default 0.75 times
    the root of the number of features), `ridge` what is added to the diagonal as a share of the total weight, `most`
    the number of features that are kept, those with the largest slopes.

    >>> rows = np.random.default_rng(0).normal(size=(200, 2))
    >>> found = lime(lambda x: 3 * x[:, 0] - x[:, 1], np.array([[1.0, 2.0]]), rows - rows.mean(axis=0))
    >>> found.explanation.values.round(1).tolist(), bool(found.fidelity[0] > 0.999)
    ([[3.0, -2.0]], True)
    """
    question = ask("lime", f, x, output, features if groups is None else (), derivative=False)
    rows = checked_background(question, background)
    around = _around(question, rows, groups)
    reach = _WIDTH * np.sqrt(around.count) if width is None else width
    _check(samples, fits, reach, ridge, most, around.count)
    generator = np.random.default_rng(seed)
    drawn = np.stack([around.draw(generator, samples) for _ in range(fits)])
    weights = np.exp(-np.square(drawn).sum(axis=2) / reach**2)
    reached = _outputs(question, around, drawn.reshape(fits * samples, around.count)).reshape(
        -1, fits, samples
    )
    slopes, centre = _fits(drawn, weights, reached, ridge, most)
    values = slopes * around.distance_from_usual(question.x)[:, None]
    found = replace(question, features=tuple(features)).answer(
        values.mean(axis=1),
        (centre - values.sum(axis=2)).mean(axis=1),
        question.values(),
        errors=values.std(axis=1, ddof=1) / np.sqrt(fits),
        method=f"LIME, {fits} fits to {samples} neighbours",
        kind=around.kind,
        evaluations=samples * fits * len(question.x),
        membership=None if groups is None else groups,
    )
    fidelity = _fidelity(drawn, weights, reached, slopes, centre)
    return LocalSurrogate(found, fidelity, rank_agreement(np.abs(values)))


def _around(question: Question, rows: np.ndarray, groups: np.ndarray | None) -> Neighbourhood:
    if groups is not None:
        return Absence(rows, np.asarray(groups))
    if question.x.ndim != 2:
        raise ArgumentError(
            f"lime(x): inputs of shape {question.x.shape[1:]} have no columns",
            remedy="give groups= for images and sequences: a number for every entry",
        )
    return ColumnNoise(rows)


def _check(samples: int, fits: int, width: float, ridge: float, most: int | None, count: int) -> None:
    whole("lime", "samples", samples, least=2)
    whole("lime", "fits", fits, least=2)
    for name, value in (("width", width), ("ridge", ridge)):
        if not value > 0:
            raise ArgumentError(f"lime({name}={value}): {name} must be positive")
    if most is not None and whole("lime", "most", most) > count:
        raise ArgumentError(f"lime(most={most}): there are {count} features", remedy=f"choose 1 to {count}")


def _outputs(
    question: Question, around: Neighbourhood, coordinates: Float[np.ndarray, "samples features"]
) -> Float[np.ndarray, "batch samples"]:
    """The output at the neighbours of every input, some neighbours of all inputs at a time."""
    rows = len(question.x)
    size = min(len(coordinates), max(1, _ENTRIES // question.x.size))
    parts = []
    for first in range(0, len(coordinates), size):
        some = coordinates[np.minimum(np.arange(first, first + size), len(coordinates) - 1)]
        points = around.inputs(question.x, some)
        flat = replace(
            question,
            x=points.reshape(rows * len(some), *question.x.shape[1:]),
            outputs=np.repeat(question.outputs, len(some)),
        )
        parts.append(flat.values().reshape(rows, len(some)))
    return np.concatenate(parts, axis=1)[:, : len(coordinates)].astype(np.float64)


def _fits(
    drawn: Float[np.ndarray, "fits samples features"],
    weights: Float[np.ndarray, "fits samples"],
    reached: Float[np.ndarray, "batch fits samples"],
    ridge: float,
    most: int | None,
) -> tuple[Float[np.ndarray, "batch fits features"], Float[np.ndarray, "batch fits"]]:
    """Slopes of every fit, and its value at the input: weighted ridge regressions that share their matrices."""
    design = np.concatenate([drawn, np.ones((*drawn.shape[:2], 1))], axis=2)
    weighed = design * weights[..., None]
    gram = np.einsum("fsi,fsj->fij", weighed, design)
    held = ridge * weights.sum(axis=1)[:, None] * np.append(np.ones(drawn.shape[2]), 0)
    gram += held[:, :, None] * np.eye(design.shape[2])
    moments = np.einsum("fsi,bfs->bfi", weighed, reached)
    found = np.linalg.solve(gram[None], moments[..., None])[..., 0]
    if most is not None:
        for row, fit in np.ndindex(found.shape[:2]):
            kept = np.sort(np.argsort(-np.abs(found[row, fit, :-1]), kind="stable")[:most])
            chosen = np.append(kept, design.shape[2] - 1)
            solved = np.linalg.solve(gram[fit][np.ix_(chosen, chosen)], moments[row, fit, chosen])
            found[row, fit] = 0
            found[row, fit, chosen] = solved
    return found[..., :-1], found[..., -1]


def _fidelity(
    drawn: np.ndarray, weights: np.ndarray, reached: np.ndarray, slopes: np.ndarray, centre: np.ndarray
) -> Float[np.ndarray, " batch"]:
    """Mean weighted R² of every fit on the neighbours of the next one; 1 for a function that is the same everywhere."""
    other = np.roll(np.arange(len(drawn)), -1)
    predicted = np.einsum("fsi,bfi->bfs", drawn[other], slopes) + centre[..., None]
    truth, w = reached[:, other], weights[other][None]
    mean = (w * truth).sum(axis=2, keepdims=True) / w.sum(axis=2, keepdims=True)
    missed, spread = ((w * np.square(truth - guess)).sum(axis=2) for guess in (predicted, mean))
    return np.where(spread > 0, 1 - missed / np.where(spread > 0, spread, 1), 1.0).mean(axis=1)


__all__ = ["LocalSurrogate", "lime"]
