"""Kernel SHAP: Shapley values as the answer of a weighted least-squares problem, from few coalitions.

The best additive approximation of a game under the weights `pi(z) = (M-1) / (C(M,s) s (M-s))`, held to v at both ends,
has the Shapley values as its slopes. With `A = E[z z']` and `b = E[z (v(z) - v(nobody))]` under pi, and D to divide,
`phi = A^-1 (b - 1 (1' A^-1 b - D) / (1' A^-1 1))`. The ends carry infinite weight: they are constraints, not rows.

The total weight of a size is 1/(s (M-s)), so the smallest and largest coalitions matter most and are the fewest. Whole
sizes are enumerated as far as the budget goes; of the others, coalitions are drawn together with their complements.
Estimating A from the same draws as b (the default) makes their errors cancel; with the exact A the values are unbiased.
All inputs of a batch share their coalitions: A is factorised once, and one matrix product serves every input.

References: Lundberg and Lee, 2017, arXiv:1705.07874; Covert and Lee, Improving KernelSHAP, 2021, arXiv:2012.01536.
"""

import itertools
import math
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice
from chainrule.explain.methods.shapley.game_values import GameValues, Values, settled
from chainrule.explain.methods.shapley.games import CoalitionGame, Masks

_FIRST = 64
"""Pairs of coalitions that errors are judged by at the earliest."""
Matrix = Float[np.ndarray, "players players"]


class Levels(NamedTuple):
    """Which sizes of coalitions are enumerated, and which are drawn from."""

    masks: Masks
    """The enumerated coalitions."""
    weights: Float[np.ndarray, " coalitions"]
    """Their probabilities under the kernel; they sum to 1 - `mass`."""
    sizes: Int[np.ndarray, " levels"]
    """Sizes to draw from, at most half of the players: complements have the others."""
    chances: Float[np.ndarray, " levels"]
    mass: float
    """The probability under the kernel of what is drawn from."""


def kernel_values(
    game: CoalitionGame,
    *,
    budget: int | None = None,
    tol: float = 0.01,
    seed: int = 0,
    matrix: str = "sampled",
) -> GameValues:
    """Shapley values from at most `budget` coalitions (2 M + 2048 unless given).

    Drawing stops when no standard error is above `tol` times the range of the values. `matrix` is "sampled" (lower
    variance) or "exact" (unbiased).

    >>> kernel_values(CoalitionGame([0.0, 1.0, 2.0, 4.0])).values
    array([1.5, 2.5])
    """
    check_choice("kernel_values", "matrix", matrix, ["sampled", "exact"])
    count = len(game.players)
    budget = 2 * count + 2048 if budget is None else whole("kernel_values", "budget", budget)
    if count == 1:
        return GameValues(np.asarray(game.gain[..., None]), None, "kernel, one player")
    levels = chosen_levels(count, budget)
    worths = game.worth(np.concatenate([game.ends, levels.masks]))
    # A single game is a batch of one here.
    level_gains = np.atleast_2d(worths[..., 2:] - worths[..., :1])
    divide = np.atleast_1d(worths[..., 1] - worths[..., 0])
    shape = (*worths.shape[:-1], count)
    fit = _Fit(levels, level_gains, divide, matrix == "exact")
    if levels.mass == 0:
        found = fit.values(*_nothing(count, len(divide))).reshape(shape)
        return GameValues(found, None, f"kernel, all {len(levels.masks) + 2:,} coalitions")
    random = np.random.default_rng(seed)
    most = max((budget - len(levels.masks)) // 2, 2)
    masks = np.zeros((0, count), np.bool_)
    gains = tuple(np.zeros((len(divide), 0)) for _ in range(2))
    while True:
        fresh = drawn(levels, count, min(max(_FIRST, len(masks)), most - len(masks)), random)
        new = np.atleast_2d(game.worth(np.concatenate([fresh, ~fresh])) - worths[..., :1])
        gains = tuple(
            np.concatenate(both, axis=1) for both in zip(gains, np.split(new, 2, axis=1), strict=True)
        )
        masks = np.concatenate([masks, fresh])
        values = fit.values(masks, *gains)
        errors = fit.errors(values, masks, *gains)
        if len(masks) >= most or settled(values, errors, tol):
            method = f"kernel, {len(levels.masks) + 2:,} coalitions enumerated and {2 * len(masks):,} drawn"
            exactly = ", exact matrix" if matrix == "exact" else ""
            return GameValues(values.reshape(shape), errors.reshape(shape), method + exactly)


def chosen_levels(count: int, budget: int) -> Levels:
    """Sizes to enumerate: the smallest and largest first, as long as draws would hit every coalition of them anyway.

    >>> levels = chosen_levels(4, 14)
    >>> len(levels.masks), levels.mass
    (14, 0.0)
    """
    if budget < 2 * count:
        raise ArgumentError(
            f"kernel_values(budget={budget}): {count} players need at least {2 * count} coalitions",
            remedy=f"use budget={2 * count} or more, or group the players",
        )
    total = sum(1 / (s * (count - s)) for s in range(1, count))
    # A level is a size together with that of its complements.
    mass = {s: (1 if 2 * s == count else 2) / (s * (count - s)) / total for s in range(1, count // 2 + 1)}
    members = {s: math.comb(count, s) * (1 if 2 * s == count else 2) for s in mass}
    left, rest, whole_levels = budget, 1.0, []
    for s in mass:
        everything = sum(members[other] for other in mass if other >= s)
        if s > 1 and left < everything and left * mass[s] / rest < members[s]:
            break
        if members[s] > left:
            break
        whole_levels.append(s)
        left, rest = left - members[s], rest - mass[s]
    masks = np.concatenate([np.zeros((0, count), np.bool_), *(_all_of_size(count, s) for s in whole_levels)])
    weights = np.concatenate(
        [np.zeros(0), *(np.full(members[s], mass[s] / members[s]) for s in whole_levels)]
    )
    sizes = np.array([s for s in mass if s not in whole_levels], np.int64)
    chances = np.array([mass[s] for s in sizes.tolist()])
    drawn_mass = float(chances.sum())
    return Levels(masks, weights, sizes, chances / drawn_mass if len(sizes) else chances, drawn_mass)


def drawn(levels: Levels, count: int, pairs: int, random: np.random.Generator) -> Masks:
    """Coalitions of random sizes, at most half of the players each; their complements are the other half of a pair."""
    sizes = random.choice(levels.sizes, size=pairs, p=levels.chances)
    rank = random.permuted(np.tile(np.arange(count), (pairs, 1)), axis=1)
    return np.asarray(rank < sizes[:, None])


def kernel_matrix(count: int) -> Matrix:
    """`A = E[z z']` under the kernel: 1/2 on the diagonal, the same number everywhere else.

    >>> round(float(kernel_matrix(4)[0, 1]), 6)
    0.227273
    """
    top = sum((s - 1) / (count - s) for s in range(2, count))
    off = top / (count * (count - 1) * sum(1 / (s * (count - s)) for s in range(1, count)))
    return np.full((count, count), off) + np.eye(count) * (0.5 - off)


@final
class _Fit:
    """The least-squares problem of a batch of games: enumerated coalitions are known, drawn ones come as they grow."""

    def __init__(self, levels: Levels, gains: np.ndarray, divide: np.ndarray, exact: bool) -> None:
        z = levels.masks.astype(np.float64)
        self.mass, self.divide = levels.mass, divide
        self.fixed_matrix = z.T @ (levels.weights[:, None] * z)
        self.fixed_right = gains @ (levels.weights[:, None] * z)
        self.exact = kernel_matrix(z.shape[1]) if exact else None
        self.solved = np.zeros((0, 0))

    def values(self, masks: Masks, gains: np.ndarray, opposite: np.ndarray) -> Values:
        """The slopes, under the constraint that they sum to what there is to divide."""
        matrix, right = self.fixed_matrix, self.fixed_right
        if len(masks):
            z, other = masks.astype(np.float64), (~masks).astype(np.float64)
            half = self.mass / (2 * len(masks))
            matrix = matrix + half * (z.T @ z + other.T @ other)
            right = right + half * (gains @ z + opposite @ other)
        matrix = matrix if self.exact is None else self.exact
        inverse = np.linalg.inv(matrix)
        ones = inverse.sum(axis=1)
        # Maps right-hand sides to slopes that sum to nothing; what is left to divide goes along `ones`.
        self.solved = inverse - np.outer(ones, ones) / ones.sum()
        return right @ self.solved + self.divide[:, None] * (ones / ones.sum())[None]

    def errors(self, values: Values, masks: Masks, gains: np.ndarray, opposite: np.ndarray) -> Values:
        """Standard errors: each pair of draws is a batch, whose share in the values is its equation, solved.

        With a sampled matrix the equation of a coalition is `z (v - v0 - z phi)`, whose chance is that of the residual
        alone; with the exact one it is `z (v - v0)`.
        """
        z, other = masks.astype(np.float64), (~masks).astype(np.float64)
        one, two = gains, opposite
        if self.exact is None:
            one, two = gains - values @ z.T, opposite - values @ other.T
        a, b = z @ self.solved, other @ self.solved
        pairs = len(masks)
        mean = (one @ a + two @ b) / (2 * pairs)
        square = np.square(one) @ np.square(a) + 2 * (one * two) @ (a * b) + np.square(two) @ np.square(b)
        variance = np.maximum(square / (4 * pairs) - np.square(mean), 0.0)
        # A sampled matrix is fitted to the same pairs: they lose as many degrees of freedom as there are slopes.
        lost = 1 if self.exact is not None else values.shape[1]
        return self.mass * np.sqrt(variance / max(pairs - lost, 1))


def _nothing(count: int, games: int) -> tuple[Masks, np.ndarray, np.ndarray]:
    return np.zeros((0, count), np.bool_), np.zeros((games, 0)), np.zeros((games, 0))


def _all_of_size(count: int, size: int) -> Masks:
    """All coalitions of a size, and their complements unless those are of the same size."""
    chosen = np.array(list(itertools.combinations(range(count), size)))
    masks = np.zeros((len(chosen), count), np.bool_)
    np.put_along_axis(masks, chosen, True, axis=1)
    return masks if 2 * size == count else np.concatenate([masks, ~masks])


__all__ = ["Levels", "chosen_levels", "drawn", "kernel_matrix", "kernel_values"]
