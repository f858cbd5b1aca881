"""The information plane: what a layer knows about the input, and what about the target.

A layer that is a function of a continuous input knows infinitely much about it, and of n examples all there is, log
n. What can be plotted is what is left when its values are put into bins, or when noise is added to them. So every
number here is one of an estimator, which the label of an axis has to name; whether layers "compress" depends on it.

References: Shwartz-Ziv and Tishby, Opening the black box of deep neural networks via information, 2017; Saxe et al.,
On the information bottleneck theory of deep learning, 2018; Goldfeld et al., Estimating information flow in deep
neural networks, 2019.
"""

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.information import tables
from chainrule.information.estimates.binning import joint
from chainrule.information.estimates.pairwise import noisy_bounds
from chainrule.information.units import scale, takes_base

Estimator: TypeAlias = Literal["binning", "noise"]
ESTIMATORS = ("binning", "noise")
_PLATEAU = 0.95
"""Share of the rise of I(h;Y) after which it is said to have levelled off."""


class LayerInformation(NamedTuple):
    """Where a layer stands in the plane."""

    about_input: float
    """I(X; h), for as many inputs as were shown, each as likely."""
    about_target: float
    """I(h; Y)."""


@takes_base
def layer_information(
    h: Any,
    targets: Any,
    estimator: str = "binning",
    *,
    bins: int = 30,
    limits: tuple[float, float] | None = None,
    noise: float = 0.1,
    unit: str = "bits",
) -> LayerInformation:
    """What the values `h` of a layer, a row for each input, say about the input and about the target.

    `targets` are numbers of classes, or a row of probabilities of the classes for each input. With "binning" every unit
    has `bins` bins between `limits` (none: its layer's least and largest value), and values beyond them are in the
    outermost; I(X; h) is then the entropy of the bins. With "noise" it is what values say to which noise is added.

    >>> h = np.array([[0.0], [0.1], [0.9], [1.0]])
    >>> layer_information(h, np.array([0, 0, 1, 1]), bins=2)
    LayerInformation(about_input=1.0, about_target=1.0)
    """
    where = "layer_information"
    check_choice(where, "estimator", estimator, ESTIMATORS)
    factor = scale(unit, where)
    try:
        values = np.asarray(h, np.float64)
    except (TypeError, ValueError):
        raise ArgumentError(f"{where}(h): needs numbers, one row as long as the other") from None
    if not values.size:
        raise ArgumentError(
            f"{where}(h): a row for each input is needed, not an array of shape {values.shape}"
        )
    rows = values.reshape(len(values) if values.ndim else 1, -1)
    given = _probabilities(where, targets, len(rows))
    if not np.isfinite(rows).all():
        raise ArgumentError(f"{where}(h): some activations are not finite")
    if estimator == "binning":
        found = _of_cells(binned(rows, bins, limits), given)
    else:
        if not 0 < noise < np.inf:
            raise ArgumentError(f"{where}(noise={noise}): noise must be positive and finite")
        found = _of_noise(rows, noise, given)
    return LayerInformation(*(float(factor * value) for value in found))


def binned(
    rows: Float[np.ndarray, "n units"], bins: int, limits: tuple[float, float] | None = None
) -> Int[np.ndarray, "n units"]:
    """The number of the bin of each value, of equal width between the limits.

    >>> binned(np.array([[-1.0, 0.2, 1.0]]), 4, (-1.0, 1.0)).tolist()
    [[0, 2, 3]]
    """
    whole("binned", "bins", bins, least=2)
    low, high = (float(rows.min()), float(rows.max())) if limits is None else limits
    if not low <= high:
        raise ArgumentError(f"binned(limits={limits}): the first limit is above the second")
    width = (high - low) / bins if high > low else 1.0
    return np.clip(np.floor((rows - low) / width).astype(np.int64), 0, bins - 1)


def quantized(
    rows: Float[np.ndarray, "n units"], bins: int, limits: tuple[float, float]
) -> Float[np.ndarray, "n units"]:
    """Every value as the middle of its bin.

    A layer computed from these knows no more about anything than they do: with binned layers in between, the
    data-processing inequality holds exactly.

    >>> quantized(np.array([[-0.9, 0.2, 5.0]]), 4, (-1.0, 1.0)).tolist()
    [[-0.75, 0.25, 0.75]]
    """
    low, high = limits
    return low + (binned(rows, bins, limits) + 0.5) * (high - low) / bins


class Phases(NamedTuple):
    """What the measured path of a layer does before and after I(h; Y) has levelled off."""

    plateau: int
    """The first moment at which I(h; Y) has made 95 % of its rise."""
    fitting: float
    """Change of I(X; h) until then."""
    compression: float
    """Change of I(X; h) from then on: negative where the layer compresses."""


def phases(about_input: Any, about_target: Any) -> Phases:
    """The two phases of a path in the plane, as they are: the signs are measured, not assumed.

    >>> phases([1.0, 4.0, 5.0, 3.0], [0.0, 0.5, 1.0, 1.0])
    Phases(plateau=2, fitting=4.0, compression=-2.0)
    """
    x, y = np.asarray(about_input, np.float64), np.asarray(about_target, np.float64)
    if not len(x) or len(x) != len(y):
        raise ArgumentError(f"phases: {len(x)} and {len(y)} moments; both need the same number, at least one")
    reached = y >= y[0] + _PLATEAU * (y.max() - y[0])
    at = int(np.argmax(reached))
    return Phases(at, float(x[at] - x[0]), float(x[-1] - x[at]))


def estimator_label(estimator: str, bins: int, noise: float) -> str:
    """What an axis has to say about the estimator.

    >>> estimator_label("binning", 30, 0.1), estimator_label("noise", 30, 0.1)
    ('30 bins a unit', 'with noise of 0.1')
    """
    return f"{bins} bins a unit" if estimator == "binning" else f"with noise of {noise:g}"


def _probabilities(where: str, targets: Any, count: int) -> Float[np.ndarray, "n classes"]:
    given = np.asarray(targets)
    if not given.ndim or len(given) != count:
        raise ArgumentError(f"{where}: {count} rows of h and {len(given) if given.ndim else 1} targets")
    if given.ndim == 1:
        known, numbers = np.unique(given, return_inverse=True)
        return (numbers.reshape(-1, 1) == np.arange(len(known))[None]).astype(np.float64)
    return tables.rows(where, "targets", given)


def _of_cells(
    digits: Int[np.ndarray, "n units"], given: Float[np.ndarray, "n classes"]
) -> tuple[float, float]:
    cell = joint(digits)
    table = np.zeros((int(cell.max()) + 1, given.shape[1]))
    np.add.at(table, cell, given / len(given))
    return _entropy(table.sum(axis=1)), _entropy(table.sum(axis=1)) + _entropy(table.sum(axis=0)) - _entropy(
        table
    )


def _of_noise(
    rows: Float[np.ndarray, "n units"], noise: float, given: Float[np.ndarray, "n classes"]
) -> tuple[float, float]:
    """Upper bounds of both terms: I(h; Y) = I(X; h) - I(X; h | Y)."""
    whole_ = noisy_bounds(rows, noise).upper
    inner = 0.0
    for column in given.T:
        share = column.mean()
        some = column > 0
        if share > 0:
            weights = column[some] / column.sum()
            inner += share * noisy_bounds(rows[some], noise, weights).upper
    return whole_, max(whole_ - inner, 0.0)


def _entropy(p: np.ndarray) -> float:
    some = p[p > 0]
    return float(-(some * np.log(some)).sum()) + 0.0


__all__ = [
    "ESTIMATORS",
    "Estimator",
    "LayerInformation",
    "Phases",
    "binned",
    "estimator_label",
    "layer_information",
    "phases",
    "quantized",
]
