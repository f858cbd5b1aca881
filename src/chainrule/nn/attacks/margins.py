"""What attacks on classifiers drive up: the surprisal of a class, or how far another class is ahead of it.

Surprisal hardly changes where a network is very sure; the margin (Carlini and Wagner, 2017, arXiv:1608.04644) has the
same slope however large the logits are, and is positive exactly where the class is not predicted.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import jax.numpy as jnp

from chainrule.core.types import Array, Float, Int
from chainrule.nn.losses import cross_entropy

Measure: TypeAlias = Callable[[Array, Array], Array]
"""From logits and class numbers to one number for each example."""


def margin(logits: Float[Array, "batch classes"], y: Int[Array, " batch"]) -> Float[Array, " batch"]:
    """The largest logit of another class less that of this one.

    >>> margin(jnp.array([[2.0, 5.0, 1.0]]), jnp.array([1]))
    Array([-3.], dtype=float32)
    """
    own = jnp.arange(logits.shape[-1])[None] == y[:, None]
    of_class = jnp.where(own, logits, 0.0).sum(axis=-1)
    return jnp.where(own, -jnp.inf, logits).max(axis=-1) - of_class


MEASURES: Mapping[str, Measure] = {"cross-entropy": cross_entropy, "margin": margin}
"""By the names under which attacks know them."""

__all__ = ["MEASURES", "Measure", "margin"]
