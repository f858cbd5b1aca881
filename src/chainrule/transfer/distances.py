"""How far apart two domains are, as samples show it: several distances side by side, each with its factor.

The proxy distance is 2 (1 - 2 error) of a classifier that tells the domains apart: 0 where it cannot, 2 where it always
can. The pair divergence trains two hypotheses to agree on one domain and to disagree on the other, which is what the
bound of adaptation asks for; both are measured on examples that were not trained on.

References: Ben-David, Blitzer, Crammer and Pereira, Analysis of representations for domain adaptation, 2006; Székely
and Rizzo, Energy statistics, 2013; Zhang, Liu, Long and Jordan, Bridging theory and algorithm for domain adaptation,
2019 (pairs that disagree).
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from chainrule.core import random
from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Scalar
from chainrule.kernels.hypothesis_tests import two_sample_test
from chainrule.kernels.mean_embedding import mmd
from chainrule.nn import Linear
from chainrule.probability.distances import squared_distances
from chainrule.probability.divergences.kernel_mean import PairMeans
from chainrule.probability.transport import sliced
from chainrule.transfer.domain_classifier import judge_domains
from chainrule.transfer.importance import domain_rows

_MOST = 2000
"""Rows of either domain that are compared in all pairs."""
_BLOCK = 512


class ProxyDistance(NamedTuple):
    """What a classifier of domains makes of their distance."""

    value: float
    """2 (1 - 2 error), between 0 and 2: an estimate of d_H, as far as this classifier sees."""
    error: float
    """Its held-out error."""
    uncertainty: float
    """Standard error of the value."""


class MeasuredDistance(NamedTuple):
    """One distance of two samples."""

    name: str
    value: float
    convention: str
    """The formula with its factor, and how it was estimated."""


def proxy_distance(
    source: Any, target: Any, *, basis: str = "auto", folds: int | None = None, seed: int = 0
) -> ProxyDistance:
    """The proxy distance of two samples by a cross-fitted logistic classifier.

    >>> rng = np.random.default_rng(0)
    >>> proxy_distance(rng.normal(size=(80, 2)), rng.normal(9, size=(80, 2))).value
    2.0
    """
    first, second = domain_rows("proxy_distance", source, target)
    found = judge_domains(first, second, basis=basis, folds=folds, seed=seed)
    spread = math.sqrt(found.error * (1 - found.error) / (len(first) + len(second)))
    return ProxyDistance(max(0.0, 2 * (1 - 2 * found.error)), found.error, 4 * spread)


def energy_distance(source: Any, target: Any) -> float:
    """`2 E|x - y| - E|x - x'| - E|y - y'|`, unbiased: zero on average for samples of one distribution.

    >>> energy_distance([[0.0], [0.0]], [[1.0], [1.0]])
    2.0
    """
    first, second = domain_rows("energy_distance", source, target)
    if min(len(first), len(second)) < 2:
        raise ArgumentError(
            f"energy_distance: {len(first)} and {len(second)} examples; distances within a domain need two",
            remedy="give two or more of each",
        )
    x, y = (jnp.asarray(one, jnp.float32) for one in (first, second))
    within, beyond, between = (-_mean_distance(a, b) for a, b in ((x, x), (y, y), (x, y)))
    means = PairMeans(within, beyond, between, jnp.zeros(()), jnp.zeros(()))
    return float(means.unbiased((len(x), len(y))))


def pair_divergence(
    source: Any, target: Any, *, width: int = 32, steps: int = 400, seed: int = 0
) -> tuple[float, float]:
    """An estimate from below of d_HΔH for networks of one hidden layer, and its standard error.

    Two networks are trained to agree on the source and disagree on the target, and two others the other way round, on
    one half of the examples; the other half says how often they do. `width=0` takes linear ones.

    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> value, error = pair_divergence(x[:50], x[50:] + 9, steps=50)
    >>> value > 1.5
    True
    """
    first, second = domain_rows("pair_divergence", source, target)
    if min(len(first), len(second)) < 2:
        raise ArgumentError(
            f"pair_divergence: {len(first)} and {len(second)} examples, and half of them are held out",
            remedy="give at least two of each domain; some hundred tell something",
        )
    whole("pair_divergence", "width", width, least=0)
    whole("pair_divergence", "steps", steps)
    rng = np.random.default_rng(seed)
    halves = []
    centre, spread = np.concatenate([first, second]).mean(axis=0), np.concatenate([first, second]).std(axis=0)
    for one in (first, second):
        rows = jnp.asarray(
            (one[rng.permutation(len(one))] - centre) / np.where(spread > 0, spread, 1), jnp.float32
        )
        halves += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    own, held, other, others_held = halves
    keys = jax.random.split(random.key(seed, "pairs"), 2)
    best, error = 0.0, 0.0
    for key, (agree, differ), (near, far) in zip(
        keys, ((own, other), (other, own)), ((held, others_held), (others_held, held)), strict=True
    ):
        rates = _disagreement(agree, differ, near, far, key, width, steps)
        value = 2 * float(rates[1] - rates[0])
        if value > best:
            variance = sum(
                float(rate * (1 - rate)) / len(rows) for rate, rows in zip(rates, (near, far), strict=True)
            )
            best, error = value, 2 * math.sqrt(variance)
    return best, error


def domain_distances(
    source: Any, target: Any, *, permutations: int = 200, seed: int = 0
) -> list[MeasuredDistance]:
    """The usual distances of two samples, some thousand rows of each compared in pairs.

    >>> rng = np.random.default_rng(0)
    >>> [one.name for one in domain_distances(rng.normal(size=(60, 2)), rng.normal(1, size=(60, 2)))][:2]
    ['MMD', 'squared MMD']
    """
    first, second = domain_rows("domain_distances", source, target)
    x, y = (one[:: -(-len(one) // _MOST)] for one in (first, second))
    key = random.key(seed, "distances")
    test = two_sample_test(x, y, permutations=permutations, key=key)
    proxy = proxy_distance(first, second, seed=seed)
    slices = sliced(key, jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), p=1)
    found = (
        ("MMD", float(mmd(x, y)), "|difference of mean features|, RBF of the median distance; biased"),
        ("squared MMD", test.statistic, f"unbiased, may be negative; p = {test.p_value:.3g} by shuffles"),
        ("energy distance", energy_distance(x, y), "2 E|x - y| - E|x - x'| - E|y - y'|, unbiased"),
        ("sliced Wasserstein-1", float(slices), "mean over directions of sup E f(x) - E f(y), |f'| <= 1"),
        ("proxy distance", proxy.value, "2 (1 - 2 held-out error of a domain classifier), at most 2"),
        ("total variation, at least", proxy.value / 2, "tv, sup over events, at most 1; by that classifier"),
    )
    return [MeasuredDistance(*one) for one in found]


@eqx.filter_jit
def _mean_distance(x: Array, y: Array) -> Scalar:
    count = -(-len(x) // _BLOCK)
    filled = jnp.concatenate([x, jnp.broadcast_to(x[:1], (count * _BLOCK - len(x), x.shape[1]))])
    sums = jax.lax.map(
        lambda rows: jnp.sqrt(squared_distances(rows, y)).sum(axis=1), filled.reshape(count, _BLOCK, -1)
    )
    return sums.reshape(-1)[: len(x)].mean() / len(y)


def _disagreement(
    agree: Array, differ: Array, held: Array, others: Array, key: Array, width: int, steps: int
) -> Float[np.ndarray, " two"]:
    """How often two networks trained to agree on one sample and differ on another do so on held-out rows of both."""
    sizes = [agree.shape[1], *([width] if width else []), 1]
    pair = [_network(sizes, one) for one in jax.random.split(key)]
    return np.asarray(_trained(pair, agree, differ, held, others, steps))


def _network(sizes: list[int], key: Array) -> list[Linear]:
    keys = jax.random.split(key, len(sizes) - 1)
    return [Linear(n, m, key=one) for n, m, one in zip(sizes[:-1], sizes[1:], keys, strict=True)]


def _sign(layers: list[Linear], x: Array) -> Float[Array, " batch"]:
    """The soft sign of a network's one output."""
    for layer in layers[:-1]:
        x = jax.nn.relu(layer(x))
    return jnp.tanh(layers[-1](x)[:, 0])


@eqx.filter_jit
def _trained(pair: Any, agree: Array, differ: Array, held: Array, others: Array, steps: int) -> Array:
    optimizer = optax.adam(1e-2)
    arrays, static = eqx.partition(pair, eqx.is_inexact_array)

    def outputs(arrays: Any, x: Array) -> Array:
        first, second = eqx.combine(arrays, static)
        return _sign(first, x) * _sign(second, x)

    def loss(arrays: Any) -> Array:
        # (1 - s s') / 2 is how much two signs differ, and soft signs have a slope.
        return outputs(arrays, differ).mean() - outputs(arrays, agree).mean()

    def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        arrays, state = carry
        updates, state = optimizer.update(jax.grad(loss)(arrays), state)
        return (optax.apply_updates(arrays, updates), state), None

    (arrays, _), _ = jax.lax.scan(step, (arrays, optimizer.init(arrays)), None, length=steps)
    return jnp.stack([(outputs(arrays, rows) < 0).mean() for rows in (held, others)])


__all__ = [
    "MeasuredDistance",
    "ProxyDistance",
    "domain_distances",
    "energy_distance",
    "pair_divergence",
    "proxy_distance",
]
