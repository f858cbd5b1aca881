"""The best affine map in closed form: least squares, with or without a penalty."""

from typing import Any

import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.nn.constructions.network import Network, affine


def least_squares(x: Any, y: Any, *, decay: float = 0.0) -> Network:
    """The affine map that minimises `mean |f(x) - y|² + decay |W|²`; of several, the one with the smallest weights.

    The bias is not decayed.

    >>> import jax.numpy as jnp
    >>> line = least_squares([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> round(float(line(jnp.array([10.0]))[0]), 4)
    21.0
    """
    inputs = np.asarray(x, dtype=np.float64)
    targets = np.asarray(y, dtype=np.float64)
    targets = targets[:, None] if targets.ndim == 1 else targets
    if inputs.ndim != 2 or targets.ndim != 2 or len(inputs) != len(targets) or not len(inputs):
        raise ArgumentError(
            f"least_squares: x of shape {inputs.shape} and y of shape {np.shape(y)} do not go together"
        )
    if not (np.isfinite(inputs).all() and np.isfinite(targets).all()):
        raise ArgumentError("least_squares: x and y must be finite", remedy="remove the rows that are not")
    if decay < 0:
        raise ArgumentError(f"least_squares(decay={decay}): it must not be negative")
    middle, level = inputs.mean(axis=0), targets.mean(axis=0)
    left, values, right = np.linalg.svd(inputs - middle[None, :], full_matrices=False)
    small = values <= np.finfo(float).eps * max(inputs.shape) * values.max(initial=0.0)
    inverse = np.where(small, 0.0, values / np.where(small, 1.0, values**2 + decay * len(inputs)))
    weight = right.T @ (inverse[:, None] * (left.T @ (targets - level[None, :])))
    return Network([affine(weight, level - middle @ weight)], ["identity"])


__all__ = ["least_squares"]
