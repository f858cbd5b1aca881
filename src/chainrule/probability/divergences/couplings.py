"""Total variation as a coupling: the least probability that two draws differ, and the joint distribution that has it.

`tv`, everywhere in the package, is the most that the probabilities of one event can differ, half the sum of |p - q| and
at most 1. The theory of domain adaptation uses twice that, at most 2: here it is called `tv2`, and nothing else is.

References: Lindvall, Lectures on the coupling method, 1992; Ben-David et al., A theory of learning from different
domains, 2010.
"""

from typing import Any

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.probability.divergences.between import tv
from chainrule.probability.divergences.probabilities import pair


def tv2(p: Any, q: Any, *, normalize: bool = False) -> Float[Array, "*batch"]:
    """Twice the total variation, the sum of |p - q|: the distance that bounds of domain adaptation are written in.

    >>> round(float(tv2([0.5, 0.3, 0.2], [0.2, 0.2, 0.6])), 6)
    0.8
    """
    return tv(p, q, convention="full", normalize=normalize)


def maximal_coupling(p: Any, q: Any, *, normalize: bool = False) -> Float[Array, "outcomes outcomes"]:
    """A joint distribution with margins p and q whose two draws differ with the least probability there is, their tv.

    What the two have in common stays on the diagonal; what is left of either is spread independently.

    >>> joint = maximal_coupling([0.5, 0.3, 0.2], [0.2, 0.2, 0.6])
    >>> round(float(1 - jnp.trace(joint)), 6), round(float(joint.sum(axis=1)[0]), 6)
    (0.4, 0.5)
    """
    first, second = pair(p, q, normalize)
    if first.ndim != 1:
        raise ArgumentError(f"maximal_coupling(p): one distribution on each side, not of shape {first.shape}")
    common = jnp.minimum(first, second)
    more, less = first - common, second - common
    apart = more.sum()
    spread = more[:, None] * less[None, :] / jnp.where(apart > 0, apart, 1.0)
    return jnp.diag(common) + spread


__all__ = ["maximal_coupling", "tv2"]
