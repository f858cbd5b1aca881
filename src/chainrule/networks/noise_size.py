"""The size of noise beside that of the data: measured on examples, and judged before training."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.data.dataset import Data
from chainrule.networks import units

_MOST = 1000
"""Examples looked at."""


def network_examples(data: Data) -> np.ndarray:
    """Some training examples as a network sees them."""
    x = data.train.batch(np.arange(min(_MOST, len(data.train)))).x
    with jax.ensure_compile_time_eval():  # a model may be built for its shapes alone
        return np.asarray(units.to_network(data.schema, jnp.asarray(x)), np.float64)


def data_std(data: Data) -> float:
    """Standard deviation of the entries of training examples, as a network sees them.

    >>> import chainrule as cr
    >>> round(data_std(cr.data.load("digits")), 2)  # from -1 to 1
    0.75
    """
    return float(network_examples(data).std())


def check_sigma(x: np.ndarray, sigma: float) -> None:
    """Warn where one noise level cannot give a useful score of these data."""
    flat = np.asarray(x, np.float64).reshape(len(x), -1)[:_MOST]
    squares = np.square(flat).sum(axis=1)
    apart = squares[:, None] + squares[None] - 2 * flat @ flat.T
    np.fill_diagonal(apart, np.inf)
    near = float(np.median(np.sqrt(np.maximum(apart.min(axis=1), 0))))
    spread = float(flat.std())
    if sigma < 0.1 * near:
        warnings.warn(
            f"sigma={sigma:g} is below a tenth of the distance between neighbours ({near:.3g}): "
            "the score is not learned in the gaps",
            stacklevel=2,
        )
    elif sigma > 10 * spread:
        warnings.warn(
            f"sigma={sigma:g} is above ten standard deviations of the data ({spread:.3g}): "
            "little of them is left",
            stacklevel=2,
        )


__all__ = ["check_sigma", "data_std", "network_examples"]
