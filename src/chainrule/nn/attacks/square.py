"""The square attack: random search that asks a network for its outputs only, never for a gradient.

Andriushchenko et al., *Square attack: a query-efficient black-box adversarial attack via random search*, ECCV 2020
(arXiv:1912.00049). A proposal changes a square of an image, large ones first, and is kept where it raises the loss. Of
examples that are no images it changes random entries, as many as the square would have. With the length of the whole
change as bound, what a square gains is taken from another one.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Key
from chainrule.nn.attacks.ball import NORMS, Bounds, inside
from chainrule.nn.attacks.gradient import Loss, Reached

FIRST_SHARE = 0.8
"""Share of an example that the first proposals change."""
_HALVED_AT = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""Queries of 10,000 after which squares become half as large."""
_TINY = 1e-12


def shares(queries: int) -> np.ndarray:
    """Share of an example that each proposal changes.

    >>> shares(4).tolist()
    [0.8, 0.0125, 0.00625, 0.003125]
    """
    at = np.arange(queries) * 10_000 / queries
    halvings = (at[:, None] >= np.array(_HALVED_AT)[None]).sum(axis=1)
    halvings[0] = 0
    return FIRST_SHARE / 2.0**halvings


def square(
    loss: Loss,
    x: Array,
    eps: Any,
    queries: int,
    key: Key,
    *,
    norm: str = "inf",
    bounds: Bounds | None = None,
) -> Reached:
    """Random search in the ball for a higher loss, from random stripes; `loss` gives one number for each example."""
    schedule = jnp.asarray(shares(queries), x.dtype)
    proposed = _PROPOSALS[norm]

    def ask(number: Array, best: Reached) -> Reached:
        change = proposed(jax.random.fold_in(key, number + 1), best.x - x, eps, schedule[number])
        found = inside(x + NORMS[norm].within(change, eps), bounds)
        return best.or_better(Reached(found, loss(found)))

    first = inside(x + eps * _stripes(jax.random.fold_in(key, 0), x, norm), bounds)
    return jax.lax.fori_loop(0, queries, ask, Reached(first, loss(first)))


def _stripes(key: Key, x: Array, norm: str) -> Array:
    """Random signs, the same all the way down an image, of size one."""
    shape = (len(x), 1, *x.shape[2:]) if x.ndim == 4 else x.shape
    signs = jnp.broadcast_to(jax.random.rademacher(key, shape, x.dtype), x.shape)
    return signs / NORMS[norm].size(signs)


def _chosen(key: Key, x: Array, share: Array) -> Array:
    """Which entries a proposal changes: a square of each image, or some entries of anything else."""
    count = len(x)
    if x.ndim != 4:
        drawn = jax.random.uniform(key, x.shape)
        return (drawn < share) | (drawn == drawn.min(axis=tuple(range(1, x.ndim)), keepdims=True))
    height, width = x.shape[1:3]
    side = jnp.clip(jnp.rint(jnp.sqrt(share * height * width)).astype(jnp.int32), 1, min(height, width))
    down, right = jax.random.split(key)
    top = jax.random.randint(down, (count, 1, 1, 1), 0, height - side + 1)
    left = jax.random.randint(right, (count, 1, 1, 1), 0, width - side + 1)
    rows = jnp.arange(height).reshape(1, height, 1, 1)
    columns = jnp.arange(width).reshape(1, 1, width, 1)
    return (rows >= top) & (rows < top + side) & (columns >= left) & (columns < left + side)


def _signs(key: Key, x: Array) -> Array:
    """One for each channel of an image, or for each entry of anything else."""
    shape = (len(x), 1, 1, x.shape[-1]) if x.ndim == 4 else x.shape
    return jax.random.rademacher(key, shape, x.dtype)


def _by_largest(key: Key, change: Array, eps: Any, share: Array) -> Array:
    where, sign = jax.random.split(key)
    return jnp.where(_chosen(where, change, share), eps * _signs(sign, change), change)


def _by_whole(key: Key, change: Array, eps: Any, share: Array) -> Array:
    """All the length that two squares have, and what is still free, into the first of them."""
    ball = NORMS["2"]
    to, source, sign, weight = jax.random.split(key, 4)
    taken, given = _chosen(to, change, share), _chosen(source, change, share)
    rest = jnp.where(taken | given, 0.0, change)
    free = jnp.sqrt(jnp.maximum(jnp.square(jnp.asarray(eps)) - jnp.square(ball.size(rest)), 0.0))
    here = jnp.where(taken, change, 0.0)
    bump = _signs(sign, change) * jax.random.uniform(weight, change.shape, change.dtype)
    bump = jnp.where(taken, bump, 0.0)
    way = here / jnp.maximum(ball.size(here), _TINY) + bump / jnp.maximum(ball.size(bump), _TINY)
    return rest + free * way / jnp.maximum(ball.size(way), _TINY)


_PROPOSALS = {"inf": _by_largest, "2": _by_whole}

__all__ = ["shares", "square"]
