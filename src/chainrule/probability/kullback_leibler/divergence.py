"""The one function for Kullback-Leibler divergences of distributions and of probability vectors."""

import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.types import Array, Float, Key
from chainrule.probability import divergences
from chainrule.probability.distributions.base import Distribution, Shape
from chainrule.probability.distributions.independent import Independent
from chainrule.probability.distributions.transformed import Transformed
from chainrule.probability.kullback_leibler.estimate import estimate_kl
from chainrule.probability.kullback_leibler.pairs import closed_form


def kl(
    p: Any, q: Any, *, base: float = math.e, key: Key | None = None, samples: int = 10_000
) -> Float[Array, "*batch"]:
    """KL(p || q) = E_p log(p/q) of two distributions, or of probabilities along the last axis.

    It is what messages from p are longer, on average, in the code made for q than in their own: in nats, or with
    `base=2` in bits. Infinite where p draws what q cannot. Distributions of a family are compared in closed form, those
    with finitely many points by enumeration, any others by `samples` draws, with a warning that says so (`estimate_kl`
    returns the standard error as well); these come from `key`, or from `jax.random.key(0)`.

    >>> from chainrule.probability import Normal
    >>> round(float(kl(Normal(1.0, 0.5), Normal(0.0, 1.0))), 6)
    0.818147
    >>> float(kl([0.5, 0.5, 0.0], [0.25, 0.25, 0.5], base=2))
    1.0
    """
    if not isinstance(p, Distribution) and not isinstance(q, Distribution):
        return divergences.kl(p, q, base=base)
    if base not in (math.e, 2):
        raise ArgumentError(
            f"kl(base={base}): information is measured in nats (base=math.e) or bits (base=2)"
        )
    shape = _common_batch(p, q)
    return _nats(p.batched(shape), q.batched(shape), key, samples) / math.log(base)


def _nats(p: Distribution, q: Distribution, key: Key | None, samples: int) -> Array:
    if p.support.is_discrete != q.support.is_discrete:
        # Points of positive probability on one side have none on the other.
        return jnp.full(p.batch_shape, jnp.inf)
    if isinstance(p, Independent) and isinstance(q, Independent) and p.rank == q.rank:
        each = _nats(p.base, q.base, key, samples)
        return each.sum(axis=tuple(range(each.ndim - p.rank, each.ndim)))
    if isinstance(p, Transformed) and isinstance(q, Transformed) and p.has_bijection_of(q):
        return _nats(p.base, q.base, key, samples)  # which no change of variables changes
    form = closed_form(p, q)
    if form is not None:
        return form(p, q)
    atoms = p.atoms()
    if atoms is not None:
        return atoms.mean(p.log_prob(atoms.points) - q.log_prob(atoms.points))
    found = estimate_kl(p, q, jax.random.key(0) if key is None else key, samples)
    warnings.warn(
        f"no closed form of KL({type(p).__name__} || {type(q).__name__}): estimated from {samples:,} draws"
        f"{_error(found.standard_error)}; pass key= for other draws, samples= for more",
        ChainruleWarning,
        stacklevel=3,
    )
    return found.value


def _error(standard_error: Array) -> str:
    """The largest standard error; inside a compiled function it is not known yet."""
    if isinstance(standard_error, jax.core.Tracer):
        return ""
    return f" (standard error {np.max(np.asarray(standard_error)):.2g})"


def _common_batch(p: Any, q: Any) -> Shape:
    for name, one in (("p", p), ("q", q)):
        if not isinstance(one, Distribution):
            raise ArgumentError(
                f"kl({name}): a distribution cannot be compared with {type(one).__name__}",
                remedy="give two distributions, or two arrays of probabilities",
            )
    if p.event_shape != q.event_shape:
        raise ArgumentError(f"kl: p draws events of shape {p.event_shape}, q of shape {q.event_shape}")
    try:
        return np.broadcast_shapes(p.batch_shape, q.batch_shape)
    except ValueError:
        raise ArgumentError(
            f"kl: the batch shapes {p.batch_shape} and {q.batch_shape} do not broadcast"
        ) from None


__all__ = ["kl"]
