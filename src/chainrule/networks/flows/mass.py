"""The total probability of a flow: on a grid in one or two dimensions, by weighted draws in more."""

import math
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Key
from chainrule.networks.flows.base import Bijection, Conditions, Events
from chainrule.networks.flows.base_distributions import BaseDistribution
from chainrule.networks.flows.findings import Mass

_DRAWS = 4096
_WIDER = 1.3
"""Proposals are this much wider than the flow's own draws."""
_DEGREES = 5.0
_GRID = {1: 4096, 2: 384}
_Shared: TypeAlias = Float[Array, "one features"] | None
"""The condition of every draw."""


def total_mass(
    bijection: Bijection, base: BaseDistribution, x: Events, key: Key, condition: Conditions = None
) -> Mass:
    """The integral of the density given the condition of the first example, where there are any.

    In one and two dimensions on a grid around examples and draws, in more by weighing draws of Student's t with the
    moments of the flow's own.

    >>> from chainrule.networks.flows.base_distributions import StandardNormal
    >>> from chainrule.networks.flows.elementwise import ScaleShift
    >>> found = total_mass(ScaleShift((1,), 1.0), StandardNormal((1,)), jnp.zeros((4, 1)), jax.random.key(0))
    >>> round(found.value, 3)
    1.0
    """
    size = math.prod(bijection.shape)
    shared = None if condition is None else condition[:1]
    drawn = _drawn(bijection, base, key, shared).reshape(_DRAWS, size)
    if size <= 2:
        seen = np.concatenate([np.asarray(drawn), np.asarray(x).reshape(-1, size)])
        return _on_a_grid(bijection, base, seen, shared)
    return _by_weights(bijection, base, drawn, jax.random.fold_in(key, 1), shared)


def _repeated(shared: _Shared, n: int) -> Conditions:
    return None if shared is None else jnp.broadcast_to(shared, (n, shared.shape[1]))


@eqx.filter_jit
def _drawn(bijection: Bijection, base: BaseDistribution, key: Key, shared: _Shared) -> Events:
    given = _repeated(shared, _DRAWS)
    return bijection.forward(base.draw(key, _DRAWS, given), given).value


@eqx.filter_jit
def _log_prob(
    bijection: Bijection, base: BaseDistribution, rows: Float[Array, "batch size"], shared: _Shared
) -> Float[Array, " batch"]:
    given = _repeated(shared, len(rows))
    z, log_det = bijection.inverse(rows.reshape(len(rows), *bijection.shape), given)
    return base.log_prob(z, given) + log_det


def _on_a_grid(bijection: Bijection, base: BaseDistribution, seen: np.ndarray, shared: _Shared) -> Mass:
    low, high = seen.min(axis=0), seen.max(axis=0)
    margin = 0.5 * (high - low) + 1e-3
    count = _GRID[seen.shape[1]]
    axes = [np.linspace(a, b, count) for a, b in zip(low - margin, high + margin, strict=True)]
    cell = math.prod(float(axis[1] - axis[0]) for axis in axes)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, seen.shape[1])
    logs = _log_prob(bijection, base, jnp.asarray(points, x_dtype(bijection)), shared)
    total = np.exp(np.asarray(logs, np.float64)).sum() * cell
    return Mass(float(total), 0.0, len(points), "grid")


def x_dtype(bijection: Bijection) -> jnp.dtype:
    """The floating type of the arrays of a bijection; the default one where it has none."""
    arrays = [leaf for leaf in jax.tree.leaves(bijection) if eqx.is_inexact_array(leaf)]
    return arrays[0].dtype if arrays else jnp.zeros(()).dtype


def _by_weights(
    bijection: Bijection,
    base: BaseDistribution,
    drawn: Float[Array, "draws size"],
    key: Key,
    shared: _Shared,
) -> Mass:
    size = drawn.shape[1]
    mean = drawn.mean(axis=0)
    centred = drawn - mean[None]
    covariance = centred.T @ centred / len(drawn) + 1e-6 * jnp.eye(size, dtype=drawn.dtype)
    factor = _WIDER * jnp.linalg.cholesky(covariance)
    for_noise, for_width = jax.random.split(key)
    noise = jax.random.normal(for_noise, (_DRAWS, size), drawn.dtype)
    width = jax.random.chisquare(for_width, _DEGREES, (_DRAWS,), drawn.dtype) / _DEGREES
    noise = noise / jnp.sqrt(width)[:, None]
    proposed = mean[None] + noise @ factor.T
    n = _DEGREES
    constant = math.lgamma((n + size) / 2) - math.lgamma(n / 2) - 0.5 * size * math.log(n * math.pi)
    squares = jnp.square(noise).sum(axis=1)
    log_q = constant - jnp.log(jnp.diag(factor)).sum() - 0.5 * (n + size) * jnp.log1p(squares / n)
    weights = np.exp(np.asarray(_log_prob(bijection, base, proposed, shared) - log_q, np.float64))
    error = weights.std() / math.sqrt(_DRAWS)
    effective = weights.sum() ** 2 / max(np.square(weights).sum(), 1e-300)  # none where no draw has a density
    return Mass(float(weights.mean()), float(error), float(effective), "weighted draws")


__all__ = ["total_mass", "x_dtype"]
