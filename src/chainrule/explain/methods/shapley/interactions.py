"""Shapley interaction values: what two players are worth to each other beyond what each is worth alone.

`phi_ij = sum over S without i, j of |S|! (M-|S|-2)! / (2 (M-1)!) [v(S+ij) - v(S+i) - v(S+j) + v(S)]`, half of the
interaction for each of the two, and `phi_ii = phi_i - sum_j phi_ij`: rows sum to Shapley values, all to v(all) -
v(nobody). The weights say: a size from 0 to M-2, each as likely, then a set of that size. In a random order two
neighbours see exactly such a set before them, so orders give samples of M-1 pairs each.

References: Grabisch and Roubens, An axiomatic approach to the concept of interaction, 1999; Lundberg, Erion and Lee,
Consistent individualized feature attribution for tree ensembles, 2018, arXiv:1802.03888.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.shapley.exact import exact_values
from chainrule.explain.methods.shapley.games import LIMIT, CoalitionGame, check_count, sizes_of_all
from chainrule.explain.methods.shapley.permutations import prefixes

Pairs = Float[np.ndarray, "*batch players players"]
_ROUND = 256
"""Orders that are walked at once."""


class Interactions(NamedTuple):
    """Main effects on the diagonal, half of every interaction on either side of it."""

    values: Pairs
    errors: Pairs | None
    """Standard errors; none where all coalitions were evaluated. Those of the diagonal are of the mean over orders."""
    base: Float[np.ndarray, "*batch"]
    players: tuple[str, ...]
    method: str

    @property
    def shares(self) -> Float[np.ndarray, "*batch players"]:
        """The Shapley values: sums of the rows."""
        return np.asarray(self.values.sum(axis=-1))


def interactions(
    game: CoalitionGame, *, budget: int | None = None, seed: int = 0, force: bool = False
) -> Interactions:
    """Interaction values: exact for at most 16 players (22 with `force`), from random orders for more.

    >>> found = interactions(CoalitionGame([0.0, 1.0, 2.0, 4.0]))
    >>> found.values.tolist(), found.shares.tolist()
    ([[1.0, 0.5], [0.5, 2.0]], [1.5, 2.5])
    """
    count = len(game.players)
    if count < 2:
        raise ArgumentError("interactions: one player has nobody to interact with", remedy="use two or more")
    if budget is None and (count <= LIMIT or force):
        check_count("interactions", count, force, "sample them: leave force out")
        return _exact(game, count, force)
    return sampled_interactions(game, budget=budget, seed=seed)


def _exact(game: CoalitionGame, count: int, force: bool) -> Interactions:
    table, values = game.table(force), exact_values(game, force).values
    batch = table.shape[:-1]
    factor = math.factorial
    by_size = [factor(s) * factor(count - s - 2) / (2 * factor(count - 1)) for s in range(count - 1)]
    weights = np.array(by_size)[sizes_of_all(count - 2)]
    pairs = np.zeros((*batch, count, count))
    for j in range(count):
        for i in range(j):
            # Bits above j, j, between, i, below i.
            split = table.reshape(*batch, 1 << (count - 1 - j), 2, 1 << (j - i - 1), 2, 1 << i)
            both, first, second, neither = (
                split[..., a, :, b, :] for a, b in ((1, 1), (0, 1), (1, 0), (0, 0))
            )
            # Differences of differences: a pair that does not interact has 0 exactly where its worths add up exactly.
            together = ((both - first) - (second - neither)).reshape(*batch, -1)
            pairs[..., i, j] = pairs[..., j, i] = together @ weights
    return _with_mains(pairs, values, None, game, f"exact, {1 << count:,} coalitions")


def sampled_interactions(game: CoalitionGame, *, budget: int | None = None, seed: int = 0) -> Interactions:
    """Interaction values from random orders, 2 M coalitions each; `budget` is 64 M (M - 1) coalitions unless given.

    A pair that was seen less than twice has no error: not a number.
    """
    count = len(game.players)
    budget = 64 * count * (count - 1) if budget is None else whole("interactions", "budget", budget)
    random = np.random.default_rng(seed)
    left = max(budget // (2 * count), 1)
    orders_seen = left
    batch = game.base.shape
    sums, squares = np.zeros((*batch, count, count)), np.zeros((*batch, count, count))
    seen, shares = np.zeros((count, count)), np.zeros((*batch, count))
    while left:
        orders = random.permuted(np.tile(np.arange(count), (min(left, _ROUND), 1)), axis=1)
        left -= len(orders)
        worths, skipped = _walked(game, orders)
        steps = np.diff(worths, axis=-1)
        # v(S + ij) - v(S + i) is a step; v(S + j) - v(S) is the same player joining one turn earlier.
        found = steps[..., 1:] - (skipped - worths[..., :-2])
        first, second = orders[:, :-1].ravel(), orders[:, 1:].ravel()
        flat = found.reshape(*batch, -1)
        pair: Any = (..., first, second)
        player: Any = (..., orders.ravel())
        np.add.at(sums, pair, flat)
        np.add.at(squares, pair, np.square(flat))
        np.add.at(seen, pair, 1)
        np.add.at(shares, player, steps.reshape(*batch, -1))
    sums, squares = (one + np.swapaxes(one, -1, -2) for one in (sums, squares))
    seen = seen + seen.T
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(seen > 0, sums / seen, 0.0)
        variance = np.maximum(squares / seen - np.square(mean), 0.0) * seen / (seen - 1)
        errors = np.where(seen > 1, np.sqrt(variance / seen), np.nan) / 2
    return _with_mains(mean / 2, shares / orders_seen, errors, game, f"sampled, {orders_seen:,} orders")


def _walked(game: CoalitionGame, orders: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Worths after every turn from nobody to everybody, and with the next turn's player in place of this one's."""
    count = orders.shape[1]
    within = prefixes(orders)
    skipping = within.copy()
    number, turn = np.indices(orders[:, :-1].shape)
    skipping[number, turn, orders[:, :-1]] = False
    skipping[number, turn, orders[:, 1:]] = True
    worths = game.worth(np.concatenate([within.reshape(-1, count), skipping.reshape(-1, count)]))
    shape = (*worths.shape[:-1], len(orders), count - 1)
    inner, skipped = (part.reshape(shape) for part in np.split(worths, 2, axis=-1))
    ends = [np.broadcast_to(end[..., None, None], (*shape[:-1], 1)) for end in (game.base, game.total)]
    return np.concatenate([ends[0], inner, ends[1]], axis=-1), skipped


def _with_mains(
    pairs: np.ndarray, shares: np.ndarray, errors: np.ndarray | None, game: CoalitionGame, how: str
) -> Interactions:
    own = np.arange(pairs.shape[-1])
    pairs[..., own, own] = 0.0
    pairs[..., own, own] = shares - pairs.sum(axis=-1)
    if errors is not None:
        errors[..., own, own] = np.sqrt(np.nansum(np.square(errors), axis=-1))
    return Interactions(pairs, errors, game.base, game.players, how)


__all__ = ["Interactions", "interactions", "sampled_interactions"]
