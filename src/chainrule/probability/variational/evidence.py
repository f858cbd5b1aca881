"""The evidence log p(x) = log of the integral of p(x, z) over z, where it can be had exactly.

Three cases: z has finitely many values; log p(x, z) is quadratic in z, so that everything is Gaussian; or z has at most
three coordinates, and a grid will do.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.independent import Product
from chainrule.probability.distributions.supports import RealInterval, Reals

LogJoint = Callable[[Array], Array]
"""From one value of z to log p(x, z), a number; x is fixed."""

_LARGEST_HESSIAN = 500
_NODES = {1: 4001, 2: 401, 3: 81}
"""For so many coordinates, points of the grid along each: odd, so that every second one is a grid too."""
_REACH = 12.0
"""Standard deviations to each side that a grid covers."""
_TAIL = 36.0
"""Where a change of variables has brought the density down to `exp(-36)` of what it was."""
_AT_ONCE = 4096


@final
class Evidence(NamedTuple):
    """log p(x) in nats, and how it was found."""

    value: float
    method: str


def exact_evidence(log_joint: LogJoint, *latents: Distribution) -> Evidence | None:
    """log p(x), or nothing where it is none of the cases in which it can be had.

    Of the latent variable distributions are given that live where it does, the prior or an approximate posterior: they
    say which values it has, or where to look for them.

    >>> from chainrule.probability import Normal
    >>> def log_joint(z):  # z ~ N(0, 1), x | z ~ N(z, 1), x = 2
    ...     return Normal().log_prob(z) + Normal(z, 1.0).log_prob(2.0)
    >>> found = exact_evidence(log_joint, Normal())
    >>> round(found.value, 4), found.method
    (-2.2655, 'linear-Gaussian')
    """
    for route in (_enumerated, _gaussian, _on_a_grid):
        found = route(log_joint, latents)
        if found is not None:
            return found
    return None


def _enumerated(log_joint: LogJoint, latents: tuple[Distribution, ...]) -> Evidence | None:
    listed = [atoms for latent in latents if (atoms := latent.atoms()) is not None]
    if not listed:
        return None
    # A distribution may list a point twice, or leave out what only another one draws.
    points = np.unique(np.concatenate([np.asarray(atoms.points) for atoms in listed]), axis=0)
    values = eqx.filter_jit(jax.vmap(log_joint))(jnp.asarray(points))
    return Evidence(float(jax.nn.logsumexp(values)), "enumeration")


def _gaussian(log_joint: LogJoint, latents: tuple[Distribution, ...]) -> Evidence | None:
    """By completing the square, once the second derivative turned out to be the same everywhere."""
    first = latents[0]
    size, ends = math.prod(first.event_shape), _ends(first)
    if ends is None or np.isfinite(ends).any() or size > _LARGEST_HESSIAN:
        return None
    start, spread = _moments(first)
    offsets = np.random.default_rng(0).normal(size=(6, size)) * 2
    points = np.concatenate([start[None], start + spread * offsets])

    @eqx.filter_jit
    def derivatives(points: Array) -> tuple[Array, Array, Array]:
        def flat(z: Array) -> Array:
            return log_joint(z.reshape(first.event_shape))

        return jax.vmap(flat)(points), jax.grad(flat)(points[0]), jax.vmap(jax.hessian(flat))(points[:3])

    values, slope, curvatures = (
        np.asarray(a, np.float64) for a in derivatives(jnp.asarray(points, _dtype(first)))
    )
    precision = -curvatures[0]
    steps = points - start
    expected = values[0] + steps @ slope - 0.5 * np.einsum("pi,ij,pj->p", steps, precision, steps)
    close = math.sqrt(float(jnp.finfo(_dtype(first)).eps))
    tolerance = close * (1 + np.abs(values).max())
    same = np.abs(curvatures + precision).max() <= close * (1 + np.abs(precision).max())
    if not same or np.abs(values - expected).max() > tolerance:
        return None
    if not np.linalg.eigvalsh(precision)[0] > 0:
        return None
    gain = 0.5 * slope @ np.linalg.solve(precision, slope)
    value = values[0] + gain + 0.5 * (size * math.log(2 * math.pi) - np.linalg.slogdet(precision)[1])
    return Evidence(float(value), "linear-Gaussian")


def _on_a_grid(log_joint: LogJoint, latents: tuple[Distribution, ...]) -> Evidence | None:
    """The trapezium rule, which is exponentially exact for smooth densities; believed if half the points agree."""
    size = math.prod(latents[0].event_shape)
    axes = (
        [_axis(latents, coordinate, _NODES[size]) for coordinate in range(size)] if size in _NODES else [None]
    )
    known = [axis for axis in axes if axis is not None]
    if len(known) < size:
        return None
    shape = latents[0].event_shape

    @eqx.filter_jit
    def on(*parts: tuple[Array, Array]) -> tuple[Array, Array]:
        nodes = jnp.stack(jnp.meshgrid(*(x for x, _ in parts), indexing="ij"), axis=-1)
        volume = sum(jnp.meshgrid(*(w for _, w in parts), indexing="ij"))
        flat = nodes.reshape(-1, *shape)
        found = jax.lax.map(log_joint, flat, batch_size=_AT_ONCE).reshape(nodes.shape[:-1]) + volume
        half = found[(slice(None, None, 2),) * size]
        return jax.nn.logsumexp(found), jax.nn.logsumexp(half) + size * math.log(2)

    dtype = _dtype(latents[0])
    fine, coarse = on(*((jnp.asarray(x, dtype), jnp.asarray(w, dtype)) for x, w in known))
    agree = abs(float(fine - coarse)) <= 10 * math.sqrt(float(jnp.finfo(dtype).eps))
    return Evidence(float(fine), "quadrature") if agree else None


def _axis(
    latents: tuple[Distribution, ...], coordinate: int, nodes: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Points along one coordinate and logarithms of their weights."""
    ends, moments = _ends(latents[0]), [_moments(latent) for latent in latents]
    low = min(mean[coordinate] - _REACH * spread[coordinate] for mean, spread in moments)
    high = max(mean[coordinate] + _REACH * spread[coordinate] for mean, spread in moments)
    if ends is None or not math.isfinite(high - low):
        return None
    start, end = ends[:, coordinate]
    if not math.isfinite(start):
        points = np.linspace(low, high, nodes)
        return points, np.full(nodes, math.log((high - low) / (nodes - 1)))
    if math.isfinite(end):
        t = np.linspace(-_TAIL, _TAIL, nodes)
        inside = -np.logaddexp(0, -t) - np.logaddexp(0, t)  # log of the sigmoid's slope
        return start + (end - start) / (1 + np.exp(-t)), inside + math.log((end - start) * (t[1] - t[0]))
    t = np.linspace(math.log(high - start) - _TAIL, math.log(high - start) + 1, nodes)
    return start + np.exp(t), t + math.log(t[1] - t[0])


def _ends(latent: Distribution) -> np.ndarray | None:
    """Lower and upper ends of all coordinates, if these live on intervals or on the whole line."""
    support = latent.support
    of_one = support.base if isinstance(support, Product) else support
    if isinstance(of_one, Reals):
        return np.outer([-np.inf, np.inf], np.ones(math.prod(latent.event_shape)))
    if not isinstance(of_one, RealInterval):
        return None
    ends = (
        np.broadcast_to(np.asarray(end, np.float64), latent.event_shape) for end in (of_one.low, of_one.high)
    )
    return np.stack([end.reshape(-1) for end in ends])


def _moments(latent: Distribution) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each coordinate."""
    mean, variance = (np.asarray(a, np.float64).reshape(-1) for a in (latent.mean, latent.variance))
    return mean, np.sqrt(variance)


def _dtype(latent: Distribution) -> jnp.dtype:
    return jnp.asarray(latent.mean).dtype


__all__ = ["Evidence", "LogJoint", "exact_evidence"]
