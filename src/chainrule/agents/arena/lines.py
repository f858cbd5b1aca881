"""Every line of an opponent: a small game played to all its ends, whatever the other side does.

A way of playing that loses none of them cannot be beaten. Positions are followed breadth first, each once, however many
orders of moves lead to it, and all of a level are decided at once.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.agents.games.base import Game
from chainrule.core.errors import ArgumentError

Choose: TypeAlias = Callable[[Any], Any]
"""From a batch of states to an action of each."""

_CHUNK = 256
"""Positions decided at a time; one number, so that one program serves all levels."""


@final
class LineCounts(NamedTuple):
    """How many different final positions there are, as they went for who was tried."""

    wins: int
    draws: int
    losses: int


def every_line(game: Game[Any], choose: Choose, player: int, *, most: int = 100_000) -> LineCounts:
    """Final positions that play of `player` by `choose` can come to, against all replies.

    `choose` must be deterministic; it is given batches of 256 states. More than `most` positions at once are refused.
    """
    branch = jax.jit(lambda states: _branch(game, states))
    follow = jax.jit(jax.vmap(game.step))
    level = jax.tree.map(lambda x: np.asarray(x)[None], game.init())
    ends = np.zeros(3, int)
    while jax.tree.leaves(level)[0].shape[0]:
        after, legal, mover, over, rewards = _chunked(branch, level)
        results = rewards[over, player]
        ends += [(results > 0).sum(), (results == 0).sum(), (results < 0).sum()]
        own, other = ~over & (mover == player), ~over & (mover != player)
        decided = _rows(level, own)
        if own.any():
            decided = _chunked(lambda states: follow(states, choose(states)), decided)
        replies = _rows(after, other[:, None] & legal)
        level = _distinct(jax.tree.map(lambda a, b: np.concatenate([a, b]), decided, replies))
        if jax.tree.leaves(level)[0].shape[0] > most:
            raise ArgumentError(
                f"every_line: more than {most} positions of {game.name}", remedy="play matches instead"
            )
    return LineCounts(*(int(count) for count in ends))


def _branch(game: Game[Any], states: Any) -> Any:
    def facts(state: Any) -> Any:
        after = jax.vmap(lambda action: game.step(state, action))(jnp.arange(game.actions))
        legal, mover = game.legal_mask(state), game.current_player(state)
        return after, legal, mover, game.terminated(state), game.rewards(state)

    return jax.vmap(facts)(states)


def _rows(states: Any, which: np.ndarray) -> Any:
    return jax.tree.map(lambda x: x[which], states)


def _chunked(function: Callable[[Any], Any], states: Any) -> Any:
    """A function of batches, for any number of states."""
    count = jax.tree.leaves(states)[0].shape[0]
    parts = []
    for start in range(0, count, _CHUNK):
        rows = np.minimum(np.arange(start, start + _CHUNK), count - 1)
        found = jax.device_get(function(_rows(states, rows)))
        parts.append(jax.tree.map(lambda x, start=start: x[: count - start], found))
    return jax.tree.map(lambda *xs: np.concatenate(xs), *parts)


def _distinct(states: Any) -> Any:
    leaves = jax.tree.leaves(states)
    # Double precision holds all whole numbers of 32 bits exactly.
    flat = [leaf.reshape(len(leaf), math.prod(leaf.shape[1:])).astype(float) for leaf in leaves]
    return _rows(states, np.unique(np.concatenate(flat, 1), axis=0, return_index=True)[1])


__all__ = ["Choose", "LineCounts", "every_line"]
