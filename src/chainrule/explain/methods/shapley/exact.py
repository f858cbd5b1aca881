"""Exact values from the table of all coalitions: Shapley's, Banzhaf's, and the marginals they average.

The Shapley value of a player is its marginal contribution v(S + i) - v(S), averaged over the size of S first and over
the sets of that size then: `phi_i = 1/M sum over S without i of [v(S + i) - v(S)] / C(M-1, |S|)`, where |S| counts S
*before* i joins. Banzhaf's averages over all S alike and does not divide v(all) in full.

References: Shapley, 1953; Banzhaf, Weighted voting doesn't work, 1965.
"""

import math

import numpy as np
from jaxtyping import Float

from chainrule.explain.methods.shapley.game_values import GameValues, Values
from chainrule.explain.methods.shapley.games import CoalitionGame, Worths, sizes_of_all


def exact_values(game: CoalitionGame, force: bool = False) -> GameValues:
    """Shapley values from all 2^M coalitions.

    >>> exact_values(CoalitionGame([0.0, 1.0, 2.0, 4.0])).values
    array([1.5, 2.5])
    """
    count = len(game.players)
    weights = 1.0 / (count * np.array([math.comb(count - 1, size) for size in range(count)], np.float64))
    values = _averaged(game.table(force), count, weights)
    return GameValues(values, None, f"exact, {1 << count:,} coalitions")


def banzhaf_values(game: CoalitionGame, force: bool = False) -> Values:
    """The mean marginal of each player over all coalitions of the others.

    >>> banzhaf_values(CoalitionGame([0.0, 1.0, 2.0, 4.0]))
    array([1.5, 2.5])
    """
    count = len(game.players)
    return _averaged(game.table(force), count, np.full(count, 0.5 ** (count - 1)))


def _averaged(table: Worths, count: int, weights: Float[np.ndarray, " sizes"]) -> Values:
    """Weighted sums of every player's marginals, the weight by the size of the coalition before it joins.

    Differences come first: a player that changes nothing has the value 0 exactly.
    """
    size = sizes_of_all(count - 1)
    weight = weights[size]
    found = []
    for i in range(count):
        # Indices without bit i: the higher bits, then the lower ones; their sum of bits is what `size` counts.
        split = table.reshape(*table.shape[:-1], 1 << (count - 1 - i), 2, 1 << i)
        marginals = (split[..., 1, :] - split[..., 0, :]).reshape(*table.shape[:-1], -1)
        found.append(marginals @ weight)
    return np.stack(found, axis=-1)


__all__ = ["banzhaf_values", "exact_values"]
