"""Shapley values that need no coalitions: of affine and of additive functions.

For `f(x) = w x + c` with absent features from the background, `phi_j = w_j (x_j - mean_j)`. For a sum of functions of
one feature each, `phi_j = f_j(x_j) - E f_j`, which is what feature j is worth alone. Groups sum over their features.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from chainrule.explain.methods.functions import Function, one_output
from chainrule.explain.methods.shapley.game_values import GameValues
from chainrule.explain.methods.shapley.games import CoalitionGame


def linear_values(
    f: Function,
    x: np.ndarray,
    mean: Float[np.ndarray, "..."],
    owners: Int[np.ndarray, "..."],
    players: int,
    output: int = 0,
) -> GameValues:
    """Values of a function that is known to be affine, for inputs (batch, ...) and the mean of a background.

    >>> found = linear_values(lambda x: 2 * x[:, 0] - x[:, 1], np.ones((1, 2)), np.zeros(2), np.arange(2), 2)
    >>> found.values
    array([[ 2., -1.]])
    """
    given = jnp.asarray(x[:1])
    slope = jax.grad(lambda x: one_output(f(x), output).sum())(given)
    shares = np.asarray(slope, np.float64) * (np.asarray(x, np.float64) - np.asarray(mean, np.float64)[None])
    # Features that belong to nobody are always present and add nothing.
    flat, owner = shares.reshape(len(x), -1), owners.ravel()
    values = flat[:, owner >= 0] @ np.eye(players)[owner[owner >= 0]]
    return GameValues(values, None, "linear, closed form")


def additive_values(game: CoalitionGame) -> GameValues:
    """What every player is worth alone: its value where worths add up; elsewhere the sum misses the total.

    >>> additive_values(CoalitionGame([0.0, 1.0, 2.0, 3.0])).values
    array([1., 2.])
    """
    worths = game.worth(np.concatenate([game.ends, np.eye(len(game.players), dtype=np.bool_)]))
    return GameValues(worths[..., 2:] - worths[..., :1], None, "additive, closed form")


__all__ = ["additive_values", "linear_values"]
