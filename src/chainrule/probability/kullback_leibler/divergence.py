"""Kullback-Leibler divergences of two distributions, by the best way there is for them."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.core.types import Array, Float, Key
from chainrule.probability.distributions.base import Distribution, Shape
from chainrule.probability.distributions.independent import Independent
from chainrule.probability.distributions.transformed import Transformed
from chainrule.probability.kullback_leibler.estimate import estimate_kl
from chainrule.probability.kullback_leibler.pairs import closed_form


def kl_of_distributions(
    p: Distribution, q: Distribution, *, key: Key | None = None, samples: int = 10_000
) -> Float[Array, "*batch"]:
    """KL(p || q) = E_p log(p/q) of two distributions, in nats.

    Those of a family are compared in closed form, those with finitely many points by enumeration, any others by
    `samples` draws from `key`, or from `jax.random.key(0)`, with a warning that says so.

    >>> from chainrule.probability import Normal
    >>> round(float(kl_of_distributions(Normal(1.0, 0.5), Normal(0.0, 1.0))), 6)
    0.818147
    """
    shape = _common_batch(p, q)
    return _nats(p.batched(shape), q.batched(shape), key, samples)


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


def _common_batch(p: Distribution, q: Distribution) -> Shape:
    if p.event_shape != q.event_shape:
        raise ArgumentError(f"kl: p draws events of shape {p.event_shape}, q of shape {q.event_shape}")
    try:
        return np.broadcast_shapes(p.batch_shape, q.batch_shape)
    except ValueError:
        raise ArgumentError(
            f"kl: the batch shapes {p.batch_shape} and {q.batch_shape} do not broadcast"
        ) from None


__all__ = ["kl_of_distributions"]
