"""Arguments that all support vector machines check alike: points, weights, the default kernel, bounds."""

from typing import Any

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError, DataError
from chainrule.kernels.data_checks import checked_points, warn_of_columns
from chainrule.kernels.functions import RBF
from chainrule.kernels.functions.stationary import Stationary
from chainrule.kernels.kernel import Kernel, a_kernel

Rows = Float[np.ndarray, "rows features"]


def learnt_from(where: str, x: Any, kernel: Kernel | None) -> tuple[Rows, Kernel]:
    """Points to learn from, and the kernel: the usual one where none is given; columns unlike in size are said."""
    exact = checked_points(where, "x", x)
    if not exact.size:
        raise DataError(f"{where}(x): there is nothing to learn from in an array of shape {exact.shape}")
    if kernel is None:
        kernel = RBF(gamma=usual_gamma(where, exact))
    a_kernel(where, kernel)
    if isinstance(kernel, Stationary):
        warn_of_columns(where, exact, scales=int(np.size(kernel.log_scale)))
    return exact, kernel


def usual_gamma(where: str, x: Rows) -> float:
    """`gamma = 1 / (D var(x))` of an RBF kernel: examples that are unlike have a similarity of about exp(-2).

    >>> usual_gamma("fit", np.array([[0.0, 2.0], [2.0, 0.0]]))
    0.5
    """
    variance = float(x.var())
    if variance == 0:
        raise DataError(
            f"{where}(x): all entries are the same, so that no kernel tells examples apart",
            remedy="check how the data were read",
        )
    return 1 / (x.shape[1] * variance)


def checked_weights(where: str, weights: Any, rows: int) -> Float[np.ndarray, " rows"]:
    """One positive weight for each row; one, where none are given."""
    if weights is None:
        return np.ones(rows)
    exact = np.asarray(weights, np.float64)
    if exact.shape != (rows,) or not ((exact > 0) & np.isfinite(exact)).all():
        raise ArgumentError(
            f"{where}(weights): one positive number for each of {rows} rows is needed",
            remedy="leave out rows of weight zero",
        )
    return exact


def positive_number(where: str, name: str, value: Any, why: str) -> None:
    """Raise unless it is a positive finite number."""
    if not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise ArgumentError(f"{where}({name}={value!r}): {name} must be positive and finite: {why}")


def checked_share(where: str, value: Any) -> None:
    """Raise unless nu lies above 0 and is at most 1."""
    if not isinstance(value, int | float | np.number) or not 0 < value <= 1:
        raise ArgumentError(
            f"{where}(nu={value!r}): nu must lie in (0, 1]: it bounds the share of examples outside of the margin "
            "from above and that of support vectors from below"
        )


def spent(bounds: Float[np.ndarray, " rows"], total: float) -> Float[np.ndarray, " rows"]:
    """Coefficients within bounds that add up to a total: the first ones at their bounds.

    >>> spent(np.array([1.0, 1.0, 1.0]), 1.5).tolist()
    [1.0, 0.5, 0.0]
    """
    before = np.concatenate([[0.0], np.cumsum(bounds)[:-1]])
    return np.clip(total - before, 0.0, bounds)


__all__ = ["checked_share", "checked_weights", "learnt_from", "positive_number", "spent", "usual_gamma"]
