"""From decision values to probabilities: a sigmoid for every pair of classes, and what all pairs say together.

`P(second | d) = 1 / (1 + exp(a d + c))` is fitted to decision values of examples that were left out of the machine that
gave them, with targets a little off zero and one, so that separable classes leave finite slopes. Several classes are
coupled: their probabilities p minimise `sum (r_ji p_i - r_ij p_j)²`, where r_ij is the probability of i among i and j;
that is one linear system for each example.

References: Platt, Probabilistic outputs for support vector machines, 1999; Lin, Lin and Weng, A note on Platt's
probabilistic outputs for support vector machines, 2007; Wu, Lin and Weng, Probability estimates for multi-class
classification by pairwise coupling, 2004 (their second approach).
"""

import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from chainrule.core.types import Array

_STEPS = 100
_SURE = 1e-6
"""Probabilities of pairs stay this far from zero and one when they are coupled."""


def sigmoid_of(
    decision: Float[np.ndarray, " rows"],
    second: Bool[np.ndarray, " rows"],
    weights: Float[np.ndarray, " rows"] | None = None,
) -> Float[np.ndarray, "2"]:
    """Slope a and offset c of the sigmoid that fits best, by Newton's method with halved steps."""
    w = np.ones(len(decision)) if weights is None else weights
    above, below = w[second].sum(), w[~second].sum()
    target = np.where(second, (above + 1) / (above + 2), 1 / (below + 2))
    at = np.array([0.0, np.log((below + 1) / (above + 1))])
    features = np.stack([decision, np.ones_like(decision)])

    def loss(at: np.ndarray) -> float:
        z = at @ features
        return float((w * (np.logaddexp(0, z) - (1 - target) * z)).sum())

    now = loss(at)
    for _ in range(_STEPS):
        z = at @ features
        p = 1 / (1 + np.exp(np.clip(z, -700, 700)))
        gradient = features @ (w * (target - p))
        if np.abs(gradient).max() < 1e-5:
            break
        curvature = (features * (w * p * (1 - p))[None, :]) @ features.T + 1e-12 * np.eye(2)
        direction = -np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-10 and loss(at + size * direction) > now + 1e-4 * size * float(gradient @ direction):
            size /= 2
        if size <= 1e-10:
            break
        at = at + size * direction
        now = loss(at)
    return at


def pairs_of(classes: int) -> Int[np.ndarray, "pairs 2"]:
    """All pairs of classes, first by first.

    >>> pairs_of(3).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    return np.array(list(itertools.combinations(range(classes), 2)))


def coupled(second: Float[Array, "rows pairs"], classes: int) -> Float[Array, "rows classes"]:
    """Probabilities of all classes from those of the second class of every pair; it can be differentiated."""
    second = second.astype(jnp.promote_types(second.dtype, jnp.float32))
    if classes == 2:
        return jnp.concatenate([1 - second, second], axis=1)
    pairs = pairs_of(classes)
    likely = jnp.clip(second, _SURE, 1 - _SURE)
    r = jnp.zeros((len(second), classes, classes), second.dtype)
    r = r.at[:, pairs[:, 0], pairs[:, 1]].set(1 - likely).at[:, pairs[:, 1], pairs[:, 0]].set(likely)
    others = jnp.swapaxes(r, 1, 2)
    q = -others * r + jnp.eye(classes, dtype=r.dtype)[None] * jnp.square(r).sum(axis=1)[:, None, :]
    edge = jnp.ones((len(second), classes, 1), r.dtype)
    corner = jnp.zeros((len(second), 1, 1), r.dtype)
    system = jnp.block([[q, edge], [jnp.swapaxes(edge, 1, 2), corner]])
    right = jnp.zeros((len(second), classes + 1, 1), r.dtype).at[:, -1].set(1.0)
    found = jnp.maximum(jnp.linalg.solve(system, right)[:, :classes, 0], 0.0)
    return found / found.sum(axis=1, keepdims=True)


def votes(decision: Float[np.ndarray, "rows pairs"], classes: int) -> Int[np.ndarray, "rows classes"]:
    """How many pairs speak for each class.

    >>> votes(np.array([[1.0, 1.0, -1.0]]), 3).tolist()
    [[0, 2, 1]]
    """
    pairs = pairs_of(classes)
    first, second = (np.eye(classes, dtype=int)[pairs[:, side]] for side in (0, 1))
    return np.where((decision >= 0)[:, :, None], second[None], first[None]).sum(axis=1)


__all__ = ["coupled", "pairs_of", "sigmoid_of", "votes"]
