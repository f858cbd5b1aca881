"""Divergences beside transport distances: all of them at once, while one distribution is moved, stretched or smoothed.

Divergences compare densities point by point. For disjoint supports KL is infinite, total variation 1 and Jensen-Shannon
log 2 whatever the gap between them, and none says which way to go; Wasserstein distances are the gap. Samples are
disjoint as a rule. Both convolved with N(0, h²) they have finite divergences, which depend on h: two points at distance
a have KL a²/(2h²).

References: Arjovsky, Chintala and Bottou, Wasserstein GAN, ICML 2017; Silverman, Density Estimation, 1986.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.parameters import finite, floating, positive
from chainrule.probability.divergences.f_divergences import f_divergences
from chainrule.probability.divergences.kernel_mean import median_distance, mmd
from chainrule.probability.divergences.points import Density, line, sees_all
from chainrule.probability.transport.one_dimensional import wasserstein_1d

_QUANTILES = 512
_COARSEST, _FINEST = 4096, 65_536


class Profile(NamedTuple):
    """Divergences in nats and distances between two distributions of numbers; `[settings]` where one was varied."""

    kl: Float[Array, "*settings"]
    """KL(p, q)."""
    reverse_kl: Float[Array, "*settings"]
    """KL(q, p)."""
    js: Float[Array, "*settings"]
    """Jensen-Shannon."""
    tv: Float[Array, "*settings"]
    """Total variation, half of L1."""
    hellinger: Float[Array, "*settings"]
    """Between 0 and 1."""
    w1: Float[Array, "*settings"]
    """Wasserstein, mean distance."""
    w2: Float[Array, "*settings"]
    """Wasserstein, root of the mean squared distance."""
    mmd: Float[Array, "*settings"]
    """Maximum mean discrepancy, Gaussian kernel."""


def profile(p: Any, q: Any, *, bandwidth: Any = None, kernel_scale: Any = None) -> Profile:
    """All of them between two distributions of numbers, or between two samples `[points]`.

    Samples are taken as they are, so that divergences see nothing but common points, unless a `bandwidth` convolves
    both with N(0, bandwidth²); `silverman` suggests one. `kernel_scale` is that of MMD's kernel, by default the
    median distance of all points, of densities the root of the sum of their variances.

    >>> found = profile([0.0, 1.0], [5.0, 6.0])
    >>> float(found.kl), float(found.tv), float(found.w1)
    (inf, 1.0, 5.0)
    >>> float(profile([0.0], [3.0], bandwidth=1.0).kl.round(3))
    4.5
    """
    found = _varied("profile", p, q, np.zeros(1), np.ones(1), bandwidth, kernel_scale)
    return Profile(*(values[0] for values in found))


def slide(p: Any, q: Any, shifts: Any, *, bandwidth: Any = None, kernel_scale: Any = None) -> Profile:
    """The profile of p and q + shift for each of `shifts`; other arguments as for `profile`.

    >>> slide([0.0, 1.0], [0.0, 1.0], [0.0, 0.5]).w1.tolist()
    [0.0, 0.5]
    """
    moves = _settings("slide", "shifts", shifts)
    return _varied("slide", p, q, moves, np.ones_like(moves), bandwidth, kernel_scale)


def stretch(p: Any, q: Any, factors: Any, *, bandwidth: Any = None, kernel_scale: Any = None) -> Profile:
    """The profile of p and q stretched about its mean by each of `factors`; other arguments as for `profile`.

    >>> stretch([-1.0, 1.0], [-1.0, 1.0], [1.0, 3.0]).w2.tolist()
    [0.0, 2.0]
    """
    sizes = np.asarray(positive("stretch", "factors", floating(_settings("stretch", "factors", factors))))
    return _varied("stretch", p, q, np.zeros_like(sizes), sizes, bandwidth, kernel_scale)


class BandwidthSweep(NamedTuple):
    """How the profile of two samples depends on the bandwidth."""

    bandwidths: Float[np.ndarray, " settings"]
    default: float
    """What Silverman's rule suggests: the geometric mean of both samples' bandwidths."""
    profile: Profile


def smooth(x: Any, y: Any, bandwidths: Any = None, *, kernel_scale: Any = None) -> BandwidthSweep:
    """The profile of two samples convolved with N(0, h²), for every bandwidth h.

    Bandwidths default to 21 from a tenth to ten times Silverman's.

    >>> found = smooth([0.0, 1.0, 2.0], [1.0, 2.0, 4.0], [0.1, 1.0])
    >>> bool(found.profile.kl[0] > 10 * found.profile.kl[1])
    True
    """
    first, second = _samples("smooth", x, y)
    rules = [silverman(one) for one in (first, second)]
    default = math.sqrt(rules[0] * rules[1])
    if bandwidths is None and not default > 0:
        raise ArgumentError(
            "smooth: a sample of equal points suggests no bandwidth", remedy="give bandwidths=[...]"
        )
    wanted = default * np.geomspace(0.1, 10, 21) if bandwidths is None else bandwidths
    chosen = np.asarray(positive("smooth", "bandwidths", floating(_settings("smooth", "bandwidths", wanted))))
    scale = _kernel_scale(kernel_scale, first, second)
    at_rest = np.zeros(1), np.ones(1)
    count = max(
        len(_grid("smooth", first, second, float(h), *at_rest)) for h in chosen
    )  # one program for all
    rows = [_of_smoothed("smooth", first, second, float(h), *at_rest, scale, count) for h in chosen]
    return BandwidthSweep(
        chosen, default, Profile(*(jnp.concatenate(values) for values in zip(*rows, strict=True)))
    )


def silverman(x: Any) -> float:
    """Silverman's bandwidth for a Gaussian kernel: 0.9 min(standard deviation, interquartile range / 1.34) n^(-1/5).

    >>> round(silverman(np.arange(32.0)), 3)
    4.221
    """
    points = np.asarray(finite("silverman", "x", floating(x)), dtype=np.float64).ravel()
    if len(points) < 2:
        return 0.0
    low, high = np.quantile(points, [0.25, 0.75])
    deviation = points.std(ddof=1)
    spread = min(deviation, (high - low) / 1.34) or deviation
    return float(0.9 * spread * len(points) ** -0.2)


# ---------------------------------------------------------------------- by what is compared


def _varied(
    where: str, p: Any, q: Any, shifts: np.ndarray, factors: np.ndarray, bandwidth: Any, kernel_scale: Any
) -> Profile:
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        if bandwidth is not None:
            raise ArgumentError(f"{where}(bandwidth): distributions have a density; samples are smoothed")
        return _of_densities(where, p, q, shifts, factors, kernel_scale)
    first, second = _samples(where, p, q)
    scale = _kernel_scale(kernel_scale, first, second)
    if bandwidth is None:
        return _of_points(first, second, shifts, factors, scale)
    width = float(positive(where, "bandwidth", floating(bandwidth)))
    return _of_smoothed(where, first, second, width, shifts, factors, scale)


def _of_densities(
    where: str, p: Distribution, q: Distribution, shifts: np.ndarray, factors: np.ndarray, kernel_scale: Any
) -> Profile:
    for name, one in (("p", p), ("q", q)):
        if one.event_shape or one.batch_shape or one.support.is_discrete:
            raise ArgumentError(
                f"{where}({name}): {type(one).__name__} is not one density of numbers",
                remedy="compare samples of it, or arrays of probabilities with probability.divergences.compare",
            )
        if not np.isfinite([float(one.mean), float(one.variance)]).all():
            raise ArgumentError(
                f"{where}({name}): no finite variance, so that W2 is infinite and quadrature has no scale",
                remedy="compare samples of it",
            )
    scale = jnp.sqrt(p.variance + q.variance) if kernel_scale is None else floating(kernel_scale)
    *values, seen = _over_densities(p, q, jnp.asarray(shifts), jnp.asarray(factors), scale)
    if not bool(seen.all()):
        raise ArgumentError(
            f"{where}: quadrature misses a part of {type(p).__name__} or {type(q).__name__}",
            remedy="compare samples of them",
        )
    return Profile(*values)


@eqx.filter_jit
def _over_densities(
    p: Distribution, q: Distribution, shifts: Array, factors: Array, scale: Array
) -> tuple[Array, ...]:
    def one(setting: tuple[Array, Array]) -> tuple[Array, ...]:
        first, second = Density.of(p, p.mean, p.variance), Density.of(q, q.mean, q.variance).moved(*setting)
        nodes, weights = line(first, second)
        logs = first.log_prob(nodes), second.log_prob(nodes)
        x, y = (_quantiles(nodes, weights * jnp.exp(log)) for log in logs)
        return *_on_nodes(nodes, weights, *logs), mmd(x, y, scale), sees_all(weights, *logs)

    return jax.lax.map(one, (shifts, factors))


def _of_points(x: Array, y: Array, shifts: np.ndarray, factors: np.ndarray, scale: Array) -> Profile:
    def one(setting: tuple[Array, Array]) -> tuple[Array, ...]:
        moved = _moved(y, *setting)
        pooled = jnp.concatenate([x, moved])
        logs = [
            jnp.log((pooled[:, None] == sample[None]).sum(axis=1).astype(x.dtype) / len(sample))
            for sample in (x, moved)
        ]
        # A point that occurs several times among all of them counts once.
        weights = 1 / (pooled[:, None] == pooled[None]).sum(axis=1).astype(x.dtype)
        *values, square = (_sum(name, weights, *logs) for name in _DIVERGENCES)
        transport = (wasserstein_1d(x, moved, order) for order in (1, 2))
        return *values, jnp.sqrt(square), *transport, mmd(x, moved, scale)

    return Profile(*jax.jit(lambda *settings: jax.lax.map(one, settings))(shifts, factors))


def _of_smoothed(
    where: str,
    x: Array,
    y: Array,
    width: float,
    shifts: np.ndarray,
    factors: np.ndarray,
    scale: Array,
    count: int = 0,
) -> Profile:
    nodes = _grid(where, x, y, width, shifts, factors, count)
    settings = (jnp.asarray(one, x.dtype) for one in (width, shifts, factors))
    return Profile(*_over_smoothed(jnp.asarray(nodes, x.dtype), x, y, *settings, scale))


def _grid(
    where: str, x: Array, y: Array, width: float, shifts: np.ndarray, factors: np.ndarray, count: int = 0
) -> np.ndarray:
    """Eight nodes to a bandwidth or more, all equally far apart: the trapezium rule is as good as exact on them."""
    rest, centre = np.asarray(y), np.mean(y)
    images = centre + (rest[None] - centre) * factors[:, None] + shifts[:, None]
    low, high = min(np.min(x), images.min()) - 9 * width, max(np.max(x), images.max()) + 9 * width
    needed = 2 ** math.ceil(math.log2((high - low) / width * 8))
    if needed > _FINEST:
        raise ArgumentError(
            f"{where}: a bandwidth of {width:.3g} is too small for points between {low:.3g} and {high:.3g}",
            remedy=f"use at least {(high - low) * 8 / _FINEST:.3g}",
        )
    return np.linspace(low, high, max(needed, count, _COARSEST))


@jax.jit
def _over_smoothed(
    nodes: Array, x: Array, y: Array, width: Array, shifts: Array, factors: Array, scale: Array
) -> tuple[Array, ...]:
    weights = jnp.full_like(nodes, (nodes[-1] - nodes[0]) / (len(nodes) - 1))
    log_p = _smoothed_density(nodes, x, width)

    def one(setting: tuple[Array, Array]) -> tuple[Array, ...]:
        moved = _moved(y, *setting)
        log_q = _smoothed_density(nodes, moved, width)
        return *_on_nodes(nodes, weights, log_p, log_q), mmd(x, moved, scale, width)

    return jax.lax.map(one, (shifts, factors))


# ---------------------------------------------------------------------- pieces

_DIVERGENCES = ("KL", "reverse KL", "Jensen-Shannon", "total variation", "squared Hellinger")


def _on_nodes(nodes: Array, weights: Array, log_p: Array, log_q: Array) -> tuple[Array, ...]:
    """Everything but MMD, from densities at the nodes of a rule in increasing order."""
    *values, square = (_sum(name, weights, log_p, log_q) for name in _DIVERGENCES)
    masses = [weights * jnp.exp(log) for log in (log_p, log_q)]
    a, b = (mass / mass.sum() for mass in masses)
    transport = (wasserstein_1d(nodes, nodes, order, a, b) for order in (1, 2))
    return *values, jnp.sqrt(jnp.maximum(square, 0.0)), *transport


def _sum(name: str, weights: Array, log_p: Array, log_q: Array) -> Array:
    values = f_divergences[name].term(log_p, log_q)
    return jnp.where(weights > 0, weights * jnp.where(weights > 0, values, 0.0), 0.0).sum()


def _smoothed_density(nodes: Array, x: Array, width: Array) -> Array:
    square = jnp.square((nodes[:, None] - x[None]) / width)
    constant = jnp.log(width * len(x)) + 0.5 * math.log(2 * math.pi)
    return jax.scipy.special.logsumexp(-square / 2, axis=1) - constant


def _quantiles(nodes: Array, mass: Array) -> Array:
    """Points in the middle of equal shares of the mass."""
    levels = jnp.cumsum(mass) - mass / 2
    return jnp.interp((jnp.arange(_QUANTILES) + 0.5) / _QUANTILES, levels / mass.sum(), nodes)


def _moved(y: Array, shift: Array, factor: Array) -> Array:
    # Where nothing is stretched, no rounding: points that coincide stay together.
    stretched = jnp.where(factor == 1, y, y.mean() + (y - y.mean()) * factor)
    return stretched + shift


def _kernel_scale(scale: Any, x: Array, y: Array) -> Array:
    return median_distance(x, y) if scale is None else floating(scale)


def _samples(where: str, x: Any, y: Any) -> tuple[Array, Array]:
    found = []
    for name, one in (("p", x), ("q", y)):
        if isinstance(one, Distribution):
            raise ArgumentError(
                f"{where}({name}): a distribution cannot be compared with a sample",
                remedy="draw from it: distribution.sample(key, 1000)",
            )
        points = finite(where, name, floating(one))
        if points.ndim != 1 or not len(points):
            raise ArgumentError(
                f"{where}({name}): a sample of numbers has one axis, not shape {points.shape}",
                remedy="compare one column at a time" if points.ndim == 2 else "",
            )
        found.append(points)
    dtype = jnp.promote_types(found[0].dtype, found[1].dtype)
    return found[0].astype(dtype), found[1].astype(dtype)


def _settings(where: str, name: str, values: Any) -> np.ndarray:
    found = np.atleast_1d(np.asarray(finite(where, name, floating(values))))
    if found.ndim != 1 or not len(found):
        raise ArgumentError(f"{where}({name}): needs a list of numbers, not shape {found.shape}")
    return found


__all__ = ["BandwidthSweep", "Profile", "profile", "silverman", "slide", "smooth", "stretch"]
