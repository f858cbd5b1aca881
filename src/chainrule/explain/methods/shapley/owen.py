"""Owen values: Shapley values of players who belong to groups that act together.

Groups play first: what a group gets is its Shapley value among groups. Inside a group the amount is divided by the same
rule, each member joining when other groups are there in full or not at all. Orders in which the members of a group
follow each other directly have the Owen value as their mean.

Reference: Owen, Values of games with a priori unions, 1977.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.shapley.game_values import GameValues
from chainrule.explain.methods.shapley.games import CoalitionGame, masks_of
from chainrule.explain.methods.shapley.permutations import Orders, permutation_values

_MOST = 1 << 16
"""Coalitions that are enumerated at most."""


def owen_values(
    game: CoalitionGame,
    groups: Mapping[str, Sequence[str]],
    *,
    budget: int | None = None,
    tol: float = 0.01,
    seed: int = 0,
) -> GameValues:
    """Owen values of players in groups, exact where few coalitions suffice, otherwise from random orders.

    Players outside of all groups are groups of their own.

    >>> game = CoalitionGame([0.0, 1.0, 2.0, 4.0, 0.0, 1.0, 2.0, 6.0], ["a", "b", "c"])
    >>> owen_values(game, {"both": ["a", "b"]}).values.round(6).tolist()
    [2.0, 3.0, 1.0]
    """
    parts = _parts(game, groups)
    needed = sum((1 << (len(parts) - 1)) << len(part) for part in parts)
    if needed <= (_MOST if budget is None else whole("owen_values", "budget", budget)):
        return _exact(game, parts)

    def draw(random: np.random.Generator, pairs: int) -> Orders:
        return np.array(
            [
                np.concatenate([random.permutation(parts[k]) for k in random.permutation(len(parts))])
                for _ in range(pairs)
            ]
        )

    found = permutation_values(game, budget=budget, tol=tol, seed=seed, draw=draw)
    return found._replace(method=f"Owen values, {found.method} that keep groups together")


def _parts(game: CoalitionGame, groups: Mapping[str, Sequence[str]]) -> list[np.ndarray]:
    number = {name: i for i, name in enumerate(game.players)}
    taken: set[str] = set()
    parts = []
    for title, members in groups.items():
        for member in members:
            if member not in number or member in taken:
                why = "is in two groups" if member in taken else "is not a player"
                raise ArgumentError(
                    f"owen_values: {member!r} of group {title!r} {why}",
                    remedy="put every player into one group",
                )
            taken.add(member)
        parts.append(np.array([number[member] for member in members], np.int64))
    parts += [np.array([i]) for i, name in enumerate(game.players) if name not in taken]
    if any(not len(part) for part in parts):
        raise ArgumentError("owen_values: a group is empty", remedy="leave it out")
    return parts


def _exact(game: CoalitionGame, parts: list[np.ndarray]) -> GameValues:
    count = len(game.players)
    values = np.zeros((*game.base.shape, count))
    for k, part in enumerate(parts):
        others = [other for i, other in enumerate(parts) if i != k]
        inside = masks_of(np.arange(1 << len(part)), len(part))
        for_members = _weights(len(part))
        outside = masks_of(np.arange(1 << len(others)), len(others))
        across = _weights(len(parts))
        masks = np.zeros((len(outside), len(inside), count), np.bool_)
        for i, other in enumerate(others):
            masks[:, :, other] |= outside[:, None, i, None]
        masks[:, :, part] = inside[None]
        worths = game.worth(masks.reshape(-1, count))
        worths = worths.reshape(*worths.shape[:-1], *masks.shape[:2])
        # What the part's subsets are worth on average over the groups that came before it.
        mean = np.tensordot(worths, across[outside.sum(axis=1)], axes=([-2], [0]))
        for i, player in enumerate(part):
            without = np.flatnonzero(~inside[:, i])
            marginals = mean[..., without + (1 << i)] - mean[..., without]
            values[..., player] = marginals @ for_members[inside[without].sum(axis=1)]
    return GameValues(values, None, f"Owen values, exact over {len(parts)} groups")


def _weights(count: int) -> np.ndarray:
    """Of a set of each size that comes before one of `count`: Shapley's."""
    return np.array([1 / (count * math.comb(count - 1, size)) for size in range(count)])


__all__ = ["owen_values"]
