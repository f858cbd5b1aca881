"""The largest of several affine functions as a network: every convex piecewise-linear function, in any dimension.

max(a, b) = relu(a - b) + relu(b) - relu(-b), so a tournament of m functions needs ceil(log2 m) hidden layers. One
hidden layer cannot write max(x, y, 0): that is why functions of two inputs need two
(Arora et al., 2018, arXiv:1611.01491).
"""

from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.nn.constructions.network import Network, affine


def maximum(weights: Any, biases: Any) -> Network:
    """The network that computes `max over i of weights[i] · x + biases[i]`.

    >>> import jax.numpy as jnp
    >>> hinge = maximum([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0.0, 0.0, 0.0])
    >>> hinge.hidden_depth, hinge(jnp.array([[2.0, 3.0], [-1.0, -2.0]])).tolist()
    (2, [[3.0], [0.0]])
    """
    weight, bias = np.asarray(weights, dtype=np.float64).T, np.asarray(biases, dtype=np.float64)
    if weight.ndim != 2 or bias.shape != (weight.shape[1],) or not bias.size:
        raise ArgumentError(
            f"maximum: weights of shape {weight.T.shape} and biases of shape {bias.shape}; it needs (m, n) and (m,)"
        )
    layers, names = [], []
    while len(bias) > 1:
        pairs, single = divmod(len(bias), 2)
        widths = 3 * pairs + 2 * single
        spread = np.zeros((len(bias), widths))
        gather = np.zeros((widths, pairs + single))
        for pair in range(pairs):
            a, b, unit = 2 * pair, 2 * pair + 1, 3 * pair
            spread[a, unit], spread[b, unit] = 1, -1
            spread[b, unit + 1], spread[b, unit + 2] = 1, -1
            gather[unit : unit + 3, pair] = [1, 1, -1]
        if single:  # relu(a) - relu(-a) carries the one without an opponent to the next round
            spread[-1, -2:] = [1, -1]
            gather[-2:, -1] = [1, -1]
        layers.append(affine(weight @ spread, bias @ spread))
        names.append("relu")
        weight, bias = gather, np.zeros(pairs + single)
    return Network([*layers, affine(weight, bias)], [*names, "identity"])


__all__ = ["maximum"]
