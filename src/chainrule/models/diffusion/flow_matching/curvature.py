"""How much paths from noise to data bend."""

import jax.numpy as jnp

from chainrule.core.types import Array, Float


def bending(paths: Float[Array, "moments n ..."]) -> Float[Array, "steps n"]:
    """At every step of a path |v - (end - start)|², beside the mean squared length of all: 0 where it is straight.

    Its mean over time is the straightness of Liu et al. (2023), as a share of that length; paths are walked in steps of
    equal time, and a straight one at even speed.

    >>> straight, turned = jnp.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]), jnp.array([[0.0, 0], [0, 1], [1, 1]])
    >>> bending(jnp.stack([straight, turned], axis=1)).round(3).tolist()
    [[0.0, 0.667...], [0.0, 0.667...]]
    """
    flat = paths.reshape(*paths.shape[:2], -1)
    whole = flat[-1] - flat[0]
    moves = (len(flat) - 1) * jnp.diff(flat, axis=0)
    return jnp.square(moves - whole[None]).sum(axis=-1) / jnp.square(whole).sum(axis=-1).mean()


__all__ = ["bending"]
