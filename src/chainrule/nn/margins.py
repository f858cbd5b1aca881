"""Losses that pull the directions of one identity together: additive angular margins, triplets, pairs of a batch.

All of them see vectors of length one, so that nothing but the angle between two of them counts.
"""

import math

import jax
import jax.numpy as jnp

from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.nn.losses import cross_entropy

_FAR = 1e9


def unit(x: Float[Array, "batch features"]) -> Float[Array, "batch features"]:
    """Vectors of length one in the same directions, in single precision or wider."""
    x = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    return x / jnp.sqrt(jnp.square(x).sum(axis=1, keepdims=True) + 1e-12)


def angular_margin(
    cosines: Float[Array, "batch classes"],
    targets: Int[Array, " batch"],
    *,
    scale: float = 64.0,
    margin: float = 0.5,
) -> Float[Array, " batch"]:
    """Cross-entropy of `scale · cos(θ + margin)` for the true class and `scale · cos θ` for others (Deng et al., 2019).

    Where θ + margin would pass π, the cosine goes on as a straight line, so that it never rises again.

    >>> cosines = jnp.array([[0.5, 0.2]])
    >>> float(angular_margin(cosines, jnp.array([0]), scale=2.0, margin=0.0)[0])  # plain cross-entropy
    0.437...
    """
    if scale <= 0 or not 0 <= margin < math.pi:
        raise ArgumentError(
            f"angular_margin(scale={scale:g}, margin={margin:g}): scale > 0 and 0 <= margin < pi"
        )
    check_class_numbers("angular_margin", "targets", targets, cosines.shape[1])
    own = jnp.take_along_axis(cosines, targets[:, None], axis=1)
    # The slope of the sine is infinite at a cosine of one, where it is clipped.
    sine = jnp.sqrt(jnp.clip(1 - jnp.square(own), 1e-7, None))
    turned = jnp.where(
        own > math.cos(math.pi - margin),
        own * math.cos(margin) - sine * math.sin(margin),
        own - margin * math.sin(margin),
    )
    hot = jax.nn.one_hot(targets, cosines.shape[1], dtype=cosines.dtype)
    return cross_entropy(scale * (cosines + hot * (turned - own)), targets)


def batch_triplets(
    vectors: Float[Array, "batch features"], identities: Int[Array, " batch"], *, margin: float = 0.2
) -> Scalar:
    """Hinge of squared distances to the farthest partner and the nearest other, and a margin between them.

    Each vector that has both in the batch is an anchor once (Hermans, Beyer and Leibe, 2017); without any it is 0.

    >>> apart = jnp.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> float(batch_triplets(apart, jnp.array([0, 0, 1]))), float(batch_triplets(apart, jnp.array([0, 1, 0])))
    (0.0, 1.2...)
    """
    distance = 2 - 2 * vectors @ vectors.T
    same, itself = identities[:, None] == identities[None], jnp.eye(len(vectors), dtype=bool)
    partner, other = same & ~itself, ~same
    farthest = jnp.where(partner, distance, -_FAR).max(axis=1)
    nearest = jnp.where(other, distance, _FAR).min(axis=1)
    anchors = partner.any(axis=1) & other.any(axis=1)
    hinge = jax.nn.relu(jnp.where(anchors, farthest - nearest, 0) + margin)
    return jnp.where(anchors, hinge, 0).sum() / jnp.maximum(anchors.sum(), 1)


def partner_surprisal(
    vectors: Float[Array, "batch features"], identities: Int[Array, " batch"], *, temperature: float = 0.1
) -> Scalar:
    """Cross-entropy of finding, among all others of the batch, those of the same identity by their cosines.

    It needs no direction of any identity, so that it judges those that were never trained. Vectors whose identity has
    no other one in the batch are left out; without any pair the loss is 0.
    """
    same = identities[:, None] == identities[None]
    itself = jnp.eye(len(vectors), dtype=bool)
    logits = jnp.where(itself, -_FAR, vectors @ vectors.T / temperature)
    partners = same & ~itself
    count = partners.sum(axis=1)
    logs = jnp.where(partners, jax.nn.log_softmax(logits, axis=1), 0).sum(axis=1)
    return -(logs / jnp.maximum(count, 1)).sum() / jnp.maximum((count > 0).sum(), 1)


__all__ = ["angular_margin", "batch_triplets", "partner_surprisal", "unit"]
