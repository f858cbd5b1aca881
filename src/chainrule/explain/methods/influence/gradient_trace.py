"""Gradients over checkpoints: how much each training row has lowered a test loss along the way of training.

A step of size lr on row i changes a test loss by about `-lr g_test . g_i`. Summed over the checkpoints of a run, each
with the learning rate and the steps it stands for, that is what the row did: no inverse, no minimum is needed. As with
influence functions one forward derivative along the test gradient serves all training rows.

Reference: Pruthi, Liu, Kale and Sundararajan, Estimating training data influence by tracing gradient descent, 2020,
arXiv:2002.08484.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.compiling import compiled
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Tree
from chainrule.explain.methods.influence.influence_functions import RowLosses
from chainrule.explain.methods.influence.rows import in_chunks, length


def gradient_trace(
    losses: RowLosses,
    checkpoints: Sequence[Tree],
    rates: Sequence[float],
    train: Tree,
    test: Tree,
    *,
    chunk: int = 256,
) -> Float[np.ndarray, "test train"]:
    """`sum over checkpoints of rate * g_test . g_train`: above zero, the row lowered the test loss.

    >>> squares = lambda w, rows: 0.5 * (rows[0] @ w - rows[1]) ** 2
    >>> x, y = jnp.array([[1.0], [-1.0]]), jnp.array([1.0, 1.0])
    >>> gradient_trace(squares, [jnp.zeros(1)], [0.1], (x, y), (x[:1], y[:1])).round(3).tolist()
    [[0.1, -0.1]]
    """
    size = whole("gradient_trace", "chunk", chunk)
    if not len(checkpoints) or len(checkpoints) != len(rates):
        raise ArgumentError(
            f"gradient_trace: {len(checkpoints)} checkpoints and {len(rates)} rates",
            remedy="give the learning rate of each checkpoint",
        )
    count = length(train)
    rows, _ = in_chunks(train, min(size, count))
    total = np.zeros((length(test), count))
    for params, rate in zip(checkpoints, rates, strict=True):
        for number in range(len(total)):
            one = jax.tree.map(lambda leaf, number=number: jnp.asarray(leaf[number : number + 1]), test)
            total[number] += rate * np.asarray(_products(losses, params, rows, one), np.float64)[:count]
    return total


@compiled
def _products(losses: RowLosses, params: Any, rows: Tree, test: Tree) -> Array:
    """The product of the test row's gradient with that of every training row."""
    direction = jax.grad(lambda params: losses(params, test).sum())(params)

    def one(some: Tree) -> Array:
        return jax.jvp(lambda params: losses(params, some), (params,), (direction,))[1]

    return jax.lax.map(one, rows).ravel()


__all__ = ["gradient_trace"]
