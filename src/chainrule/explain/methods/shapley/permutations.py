"""Shapley values as a mean over orders: players join one after another, each is paid what it adds.

Every order divides v(all) - v(nobody) in full, so the mean of a few of them does, too. Orders are drawn in pairs, one
the reverse of the other: who joins early in one joins late in the other, which cancels much of the chance. All inputs
of a batch share their orders, so that the coalitions of a round are evaluated in one go.

References: Castro, Gomez and Tejada, Polynomial calculation of the Shapley value based on sampling, 2009; Mitchell,
Cooper, Frank and Holmes, Sampling permutations for Shapley value estimation, 2022, arXiv:2104.12199.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.shapley.game_values import GameValues, settled
from chainrule.explain.methods.shapley.games import CoalitionGame

Orders: TypeAlias = Int[np.ndarray, "orders players"]
Draw: TypeAlias = Callable[[np.random.Generator, int], Orders]

EXACT_LIMIT = 8
"""Players up to which all orders are walked through."""
_FIRST = 16
"""Pairs of orders that errors are judged by at the earliest."""


class OrderMarginals(NamedTuple):
    """What every player adds in every order."""

    orders: Orders
    marginals: Float[np.ndarray, "*batch orders players"]
    """By player, not by turn."""


def all_marginals(game: CoalitionGame) -> OrderMarginals:
    """The marginals of all orders of few players.

    >>> found = all_marginals(CoalitionGame([0.0, 1.0, 2.0, 4.0]))
    >>> found.orders.tolist(), found.marginals.tolist()
    ([[0, 1], [1, 0]], [[1.0, 3.0], [2.0, 2.0]])
    """
    count = len(game.players)
    if count > EXACT_LIMIT:
        raise ArgumentError(
            f"all_marginals: {count} players have {math.factorial(count):,} orders, the limit is {EXACT_LIMIT} players",
            remedy="sample orders: permutation_values, or method='permutation'",
        )
    table = game.table()
    orders = np.array(list(itertools.permutations(range(count))))
    steps = np.cumsum(1 << orders, axis=1)
    worths = table[..., np.concatenate([np.zeros((len(orders), 1), steps.dtype), steps], axis=1)]
    return OrderMarginals(orders, _by_player(orders, np.diff(worths, axis=-1)))


def permutation_values(
    game: CoalitionGame,
    *,
    budget: int | None = None,
    tol: float = 0.01,
    seed: int = 0,
    draw: Draw | None = None,
) -> GameValues:
    """Shapley values by all orders of at most 8 players, or by pairs of random ones.

    Sampling stops when no standard error is above `tol` times the range of the values, or after `budget` evaluations
    of coalitions (2 M + 2048 unless given). `draw` gives orders of a kind of your own.

    >>> permutation_values(CoalitionGame([0.0, 1.0, 2.0, 4.0])).values
    array([1.5, 2.5])
    """
    count = len(game.players)
    if draw is None and count <= EXACT_LIMIT:
        values = all_marginals(game).marginals.mean(axis=-2)
        return GameValues(values, None, f"permutations, all {math.factorial(count):,} orders")
    budget = 2 * count + 2048 if budget is None else whole("permutation_values", "budget", budget)
    random = np.random.default_rng(seed)
    least = 4 * max(count - 1, 1)
    if budget < least:
        raise ArgumentError(
            f"permutation_values(budget={budget}): two pairs of orders of {count} players take {least} coalitions",
            remedy=f"use budget={least} or more, or group the players",
        )
    most = budget // (least // 2)
    draw = draw or (lambda random, pairs: random.permuted(np.tile(np.arange(count), (pairs, 1)), axis=1))
    pairs, total, squares = 0, np.zeros((*game.base.shape, count)), np.zeros((*game.base.shape, count))
    while True:
        new = min(max(_FIRST, pairs), most - pairs)
        orders = draw(random, new)
        one, other = (marginals_of(game, some) for some in (orders, orders[:, ::-1]))
        means = (one + other) / 2
        pairs, total, squares = (
            pairs + new,
            total + means.sum(axis=-2),
            squares + np.square(means).sum(axis=-2),
        )
        values = total / pairs
        variance = np.maximum(squares / pairs - np.square(values), 0.0) * pairs / max(pairs - 1, 1)
        errors = np.sqrt(variance / pairs)
        if pairs >= most or settled(values, errors, tol):
            return GameValues(values, errors, f"permutations, {pairs:,} pairs of orders")


def marginals_of(game: CoalitionGame, orders: Orders) -> Float[np.ndarray, "*batch orders players"]:
    """What every player adds in each of these orders."""
    masks = prefixes(orders)
    worths = game.worth(masks.reshape(-1, masks.shape[-1]))
    worths = worths.reshape(*worths.shape[:-1], *masks.shape[:2])
    ends = [np.broadcast_to(end[..., None, None], (*worths.shape[:-1], 1)) for end in (game.base, game.total)]
    return _by_player(orders, np.diff(np.concatenate([ends[0], worths, ends[1]], axis=-1), axis=-1))


def prefixes(orders: Orders) -> np.ndarray:
    """Who has joined after each turn but the last: masks of shape (orders, players - 1, players).

    >>> prefixes(np.array([[2, 0, 1]])).astype(int).tolist()
    [[[0, 0, 1], [1, 0, 1]]]
    """
    turn = np.argsort(orders, axis=1)
    return np.asarray(turn[:, None, :] <= np.arange(orders.shape[1] - 1)[None, :, None])


def _by_player(orders: Orders, steps: np.ndarray) -> np.ndarray:
    turn = np.argsort(orders, axis=1)
    return np.take_along_axis(steps, np.broadcast_to(turn, steps.shape), axis=-1)


__all__ = ["EXACT_LIMIT", "OrderMarginals", "all_marginals", "marginals_of", "permutation_values", "prefixes"]
