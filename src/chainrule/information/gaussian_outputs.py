"""Information of Gaussian outputs: what those of an ensemble tell about input, target and training data.

Over initialisations, the outputs of very wide networks are Gaussian at every time of training, and their mean is
linear in the targets they were trained on. So what one output says about which input it is of is the information of a
mixture of normals on a line, an integral; and what outputs say about the training targets, where these are Gaussian,
is a ratio of determinants.

Reference: Shwartz-Ziv and Alemi, Information in infinite ensembles of infinitely-wide neural networks, 2020.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError
from chainrule.information.units import scale, takes_base

_POINTS = 32
"""Points of the integral for each deviation of the narrowest normal."""
_REACH = 9.0
"""Deviations on either side of a normal that are integrated over."""
_MOST = 200_000


class OutputInformation(NamedTuple):
    """What one output says."""

    about_input: float
    """I(X; Z), X each of the inputs with the same probability."""
    about_target: float | None
    """I(Z; Y); none where no targets were given."""


@takes_base
def output_information(
    mean: Any, variance: Any, targets: Any = None, *, unit: str = "bits"
) -> OutputInformation:
    """What an output with these normal laws, one for each input, says about the input and about its class.

    >>> apart = output_information([-50.0, 50.0], [1.0, 1.0], [0, 1])
    >>> [round(value, 6) for value in apart]
    [1.0, 1.0]
    >>> round(output_information([0.0, 0.0], [1.0, 1.0]).about_input, 6)
    0.0
    """
    where = "output_information"
    factor = scale(unit, where)
    centre, spread = (np.asarray(part, np.float64).reshape(-1) for part in (mean, variance))
    if centre.shape != spread.shape or not len(centre):
        raise ArgumentError(f"{where}: {len(centre)} means and {len(spread)} variances")
    if not (np.isfinite(centre).all() and np.isfinite(spread).all() and (spread > 0).all()):
        raise ArgumentError(
            f"{where}(variance): variances must be positive and finite",
            remedy="an output without spread tells every input apart; add a little noise to the variance",
        )
    deviation = np.sqrt(spread)
    grid = _grid(centre, deviation)
    density = np.zeros(len(grid))
    known = None if targets is None else np.unique(np.asarray(targets), return_inverse=True)[1].reshape(-1)
    if known is not None and len(known) != len(centre):
        raise ArgumentError(f"{where}: {len(centre)} means and {len(known)} targets")
    by_class = np.zeros((0 if known is None else int(known.max()) + 1, len(grid)))
    inner = 0.0
    for number, (at, width) in enumerate(zip(centre, deviation, strict=True)):
        one = np.exp(-0.5 * np.square((grid - at) / width)) / (width * np.sqrt(2 * np.pi))
        density += one / len(centre)
        if known is not None:
            by_class[known[number]] += one / len(centre)
        inner += 0.5 * np.log(2 * np.pi * np.e * width**2) / len(centre)
    whole = _entropy(density, grid)
    about_input = max(whole - inner, 0.0)
    about_target = None
    if known is not None:
        shares = np.bincount(known) / len(known)
        conditional = sum(
            share * _entropy(part / share, grid) for share, part in zip(shares, by_class, strict=True)
        )
        about_target = float(factor * max(whole - conditional, 0.0))
    return OutputInformation(float(factor * about_input), about_target)


@takes_base
def dataset_information(
    response: Float[np.ndarray, "outputs targets"] | Any,
    covariance: Float[np.ndarray, "outputs outputs"] | Any,
    prior: Float[np.ndarray, "targets targets"] | Any,
    *,
    unit: str = "bits",
) -> float:
    """I(Z; D): what outputs `N(response y, covariance)` say about Gaussian training targets y with covariance `prior`.

    >>> round(dataset_information([[1.0]], [[1.0]], [[3.0]]), 6)
    1.0
    """
    where = "dataset_information"
    factor = scale(unit, where)
    a, own, given = (np.atleast_2d(np.asarray(part, np.float64)) for part in (response, covariance, prior))
    if a.shape != (len(own), len(given)) or own.shape[0] != own.shape[1] or given.shape[0] != given.shape[1]:
        raise ArgumentError(f"{where}: shapes {a.shape}, {own.shape} and {given.shape} do not fit together")
    signal = a @ given @ a.T
    for name, matrix in (("covariance", own), ("signal", own + signal)):
        if np.linalg.slogdet(matrix)[0] <= 0:
            raise ArgumentError(
                f"{where}({name}): not positive definite",
                remedy="outputs without spread say infinitely much; add a little noise to the covariance",
            )
    return float(max(factor * 0.5 * (np.linalg.slogdet(own + signal)[1] - np.linalg.slogdet(own)[1]), 0.0))


def _grid(centre: np.ndarray, deviation: np.ndarray) -> Float[np.ndarray, " points"]:
    low = float((centre - _REACH * deviation).min())
    high = float((centre + _REACH * deviation).max())
    count = int(np.ceil((high - low) / float(deviation.min()) * _POINTS)) + 1
    if count > _MOST:
        raise ArgumentError(
            f"output_information: means lie {(high - low) / float(deviation.min()):,.0f} of the least deviation apart",
            remedy="inputs that far apart are told apart for certain; add a little noise to the variance",
        )
    return np.linspace(low, high, max(count, 1000))


def _entropy(density: np.ndarray, grid: np.ndarray) -> float:
    some = np.maximum(density, 1e-300)
    return float(-np.trapezoid(density * np.log(some), grid))


__all__ = ["OutputInformation", "dataset_information", "output_information"]
