"""Importance-weighted bounds: how they close in on the evidence with more draws, and what that does to the gradient."""

import functools
import math
from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.core.types import Array, Key
from chainrule.explain.protocol import Count, Experiment, Listener, Outcome, Settings
from chainrule.probability.monte_carlo import weight_report
from chainrule.probability.variational import doubly_reparametrized_bound, importance_bound

_TAIL_DRAWS = 5000
"""Draws by which the tail of the weights is judged."""


@final
class ImportanceBoundSettings(Settings):
    """z ~ N(0, 1), x | z ~ N(z, 1), and a Gaussian guide."""

    x: float = Field(2.0, ge=-10, le=10, description="what is observed")
    mean: float = Field(0.0, ge=-10, le=10, description="mean of the guide; that of the posterior is x/2")
    scale: float = Field(
        1.0, gt=0, le=10, description="its standard deviation; that of the posterior is 0.71"
    )
    draws: tuple[Count, ...] = Field(
        (1, 2, 5, 10, 20, 50, 100), min_length=1, description="numbers k of draws in a bound: draws=1,5,50"
    )
    repeats: int = Field(4000, ge=10, description="bounds for each number of draws")
    seed: int = Field(0, ge=0, description="the draws")


def run(settings: ImportanceBoundSettings, listener: Listener) -> Outcome:
    """The bound for each number of draws, and the signal-to-noise ratio of both gradients."""
    del listener
    sizes = sorted(set(settings.draws))
    key = random.key(settings.seed, "importance bound")
    keys = jax.random.split(key, settings.repeats)
    guide = jnp.array([settings.mean, math.log(settings.scale)])
    bounds, ratios = [], []
    for k in sizes:
        values, plain, doubly = (np.asarray(a) for a in _repeated(guide, keys, jnp.asarray(settings.x), k))
        bounds.append(
            (values.mean(), values.std(ddof=1) / math.sqrt(len(values)), *np.quantile(values, (0.1, 0.9)))
        )
        ratios.append(
            # Where the guide is the posterior, one of the gradients is zero without any noise.
            [
                np.linalg.norm(g.mean(axis=0)) / max(np.linalg.norm(g.std(axis=0)), np.finfo(g.dtype).tiny)
                for g in (plain, doubly)
            ]
        )
    evidence = float(norm.logpdf(settings.x, 0.0, math.sqrt(2)))
    means, errors = np.array(bounds).T[:2]
    plain_ratio, doubly_ratio = np.array(ratios).T
    weights = weight_report(_log_weights(guide, key, jnp.asarray(settings.x), _TAIL_DRAWS), warn=False)
    trust = ", a tail too heavy to be trusted" if weights.concern() else ""
    return Outcome(
        [
            f"The bound is {means[0]:.3f} nats with k = {sizes[0]} and {means[-1]:.3f} with k = {sizes[-1]}; the "
            f"evidence is {evidence:.3f}.",
            f"The signal-to-noise ratio of the guide's plain gradient goes from {plain_ratio[0]:.2g} to "
            f"{plain_ratio[-1]:.2g} on the way, that of the doubly reparametrised one from {doubly_ratio[0]:.2g} to "
            f"{doubly_ratio[-1]:.2g}.",
            f"{_TAIL_DRAWS:,} draws are worth {float(weights.effective_sample_size):,.0f} from the posterior, and the "
            f"Pareto k of their weights is {float(weights.pareto_k):.2f}{trust}.",
        ],
        _pictures(np.array(sizes, float), np.array(bounds).T, np.array(ratios).T, evidence),
        Table(
            "importance-bounds",
            "Bounds of the evidence",
            ["k", "L_k", "standard error", "plain gradient", "doubly reparametrised"],
            [
                [k, float(m), float(e), float(p), float(d)]
                for k, m, e, p, d in zip(sizes, means, errors, plain_ratio, doubly_ratio, strict=True)
            ],
            caption="Of gradients the signal-to-noise ratio.",
        ),
        {
            "evidence": evidence,
            "bounds": dict(zip(map(str, sizes), means.tolist(), strict=True)),
            "pareto_k": float(weights.pareto_k) if np.isfinite(weights.pareto_k) else None,
        },
    )


def _pictures(sizes: np.ndarray, bounds: np.ndarray, ratios: np.ndarray, evidence: float) -> list[Lines]:
    means, _, low, high = bounds
    return [
        Lines(
            "importance-bound",
            "Importance-weighted bounds against the number of draws",
            "draws k",
            "nats",
            {"L_k": (sizes, means, low, high), "log p(x)": (sizes, np.full(len(sizes), evidence))},
            log_x=True,
            caption="The band holds 80 % of single bounds.",
        ),
        Lines(
            "importance-bound-gradient",
            "Signal-to-noise ratio of the gradient of the guide",
            "draws k",
            "length of the mean over that of the deviation",
            {"plain": (sizes, ratios[0]), "doubly reparametrised": (sizes, ratios[1])},
            log_x=True,
            log_y=True,
            caption="A ratio below one over the root of the batch size is lost in a training step.",
        ),
    ]


def _draws(guide: Array, key: Key, k: int) -> Array:
    return guide[0] + jnp.exp(guide[1]) * jax.random.normal(key, (k,), guide.dtype)


def _log_weight(guide: Array, x: Array, z: Array) -> Array:
    joint = norm.logpdf(z) + norm.logpdf(x - z)
    return joint - norm.logpdf(z, guide[0], jnp.exp(guide[1]))


@functools.partial(jax.jit, static_argnums=3)
def _log_weights(guide: Array, key: Key, x: Array, k: int) -> Array:
    return _log_weight(guide, x, _draws(guide, key, k))


@functools.partial(jax.jit, static_argnums=3)
def _repeated(guide: Array, keys: Array, x: Array, k: int) -> tuple[Array, Array, Array]:
    """Bounds with k draws, and both gradients of each in the guide's parameters."""

    def plain(guide: Array, key: Key) -> Array:
        return importance_bound(_log_weight(guide, x, _draws(guide, key, k)))

    def doubly(guide: Array, key: Key) -> Array:
        still = jax.lax.stop_gradient(guide)
        return doubly_reparametrized_bound(lambda z: _log_weight(still, x, z), _draws(guide, key, k))

    values, gradients = jax.vmap(jax.value_and_grad(plain), (None, 0))(guide, keys)
    return values, gradients, jax.vmap(jax.grad(doubly), (None, 0))(guide, keys)


experiment = Experiment(
    "Importance-weighted bounds: nearer to the evidence with every draw, and what is left of the gradient.",
    ImportanceBoundSettings,
    run,
    toy={"draws": (1, 5), "repeats": 50},
    reference="Burda, Grosse and Salakhutdinov, Importance weighted autoencoders, ICLR 2016",
)

__all__ = ["ImportanceBoundSettings", "experiment", "run"]
