"""Truth tables as networks: any function on {-1, 1}^n, with one hidden sign unit for each input that it maps to 1.

The unit sign(u · x - (n - 1)) is 1 at u and -1 at every other corner. K of them sum to 2 - K at an input that the
function maps to 1 and to -K elsewhere, so the output is sign(sum + K - 1).
"""

from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.nn.constructions.network import Network, affine

_MOST_INPUTS = 20


def corners(n: int) -> np.ndarray:
    """The 2^n corners of {-1, 1}^n, the last coordinate changing fastest.

    >>> corners(2).astype(int).tolist()
    [[-1, -1], [-1, 1], [1, -1], [1, 1]]
    """
    bits = (np.arange(2**n)[:, None] >> np.arange(n - 1, -1, -1)[None, :]) & 1
    return 2.0 * bits - 1.0


def table_weights(outputs: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and biases of the two layers, rows layout."""
    values = np.asarray(outputs, dtype=np.float64)
    n = int(values.size).bit_length() - 1
    if values.ndim != 1 or values.size != 2**n or not 1 <= n <= _MOST_INPUTS:
        raise ArgumentError(
            f"truth_table: {values.size} outputs; a function of n inputs has 2^n, for n from 1 to {_MOST_INPUTS}"
        )
    if not np.isin(values, (-1.0, 1.0)).all():
        raise ArgumentError("truth_table: outputs must be -1 or 1", remedy="map false to -1 and true to 1")
    positive = corners(n)[values > 0]
    count = len(positive)
    hidden = (positive.T, np.full(count, -(n - 1.0)))
    return [hidden, (np.ones((count, 1)), np.array([count - 1.0]))]


def truth_table(outputs: Any) -> Network:
    """The network with these outputs (-1 or 1) at the corners, listed in the order of `corners`.

    >>> import jax.numpy as jnp
    >>> parity = truth_table([-1, 1, 1, -1])
    >>> parity(jnp.asarray(corners(2)))[:, 0].tolist(), parity.units
    ([-1.0, 1.0, 1.0, -1.0], 2)
    """
    return Network([affine(weight, bias) for weight, bias in table_weights(outputs)], ["sign", "sign"])


def xor() -> Network:
    """Exclusive or on {0, 1}²: relu(x1 + x2) - 2 relu(x1 + x2 - 1). No affine function does better than 1/2.

    >>> import jax.numpy as jnp
    >>> xor()(jnp.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))[:, 0].tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    return Network(
        [affine([[1.0, 1.0], [1.0, 1.0]], [0.0, -1.0]), affine([[1.0], [-2.0]], [0.0])], ["relu", "identity"]
    )


__all__ = ["corners", "table_weights", "truth_table", "xor"]
