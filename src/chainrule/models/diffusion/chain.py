"""The variational bound by simulated chains, from its definition: E[log p(x0..xT) - log q(x1..xT | x0)].

It has the same mean as the sum of divergences in `bounds` and more noise, and checks it by another route. Written by
neighbours it is a sum of terms E[log p(x_t | x_{t+1}) - log q(x_t | x_{t-1})]. These are not divergences
KL(q(x_t|x_{t-1}) || p(x_t|x_{t+1})) averaged over the neighbours, because x_{t+1} depends on x_t.
"""

from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.posterior import posterior
from chainrule.models.diffusion.process import CLEAN, Level, Process, gap
from chainrule.probability.gaussian import log_density


def chain_terms(
    denoiser: Denoiser,
    x0: Float[Array, "batch ..."],
    levels: Level,
    key: Key,
    *,
    process: Process,
    reconstruction_variance: float,
    condition: Any = None,
) -> Float[Array, "terms batch"]:
    """The terms of the bound by neighbours for one simulated chain of each example; their sum is the direct estimate.

    `levels` run from the cleanest to the noisiest. The first term is log p(x0|x1), Gaussian around the estimate of x0
    with the given variance; then one for each inner level; the last is log p(xT) - log q(xT|x_{T-1}). The reverse model
    has the variance of the posterior.
    """
    count = levels.a.shape[0]
    path, forward = [x0], []
    for t in range(count):
        here, before = levels.at(t), levels.at(t - 1) if t else CLEAN
        mean = here.a / before.a * path[-1]
        std = jnp.sqrt(gap(here, before))
        noise = jax.random.normal(jax.random.fold_in(key, t), x0.shape, x0.dtype)
        path.append(mean + std * noise)
        forward.append(log_density(path[-1], mean, std))
    terms: list[Array] = []
    for t in range(count):
        here = levels.at(t)
        guess = denoiser.value("x0", path[t + 1], here, condition)
        if t == 0:
            terms.append(log_density(x0, guess, jnp.sqrt(jnp.asarray(reconstruction_variance, x0.dtype))))
            continue
        mean, variance = posterior(path[t + 1], guess, here, levels.at(t - 1))
        terms.append(log_density(path[t], mean, jnp.sqrt(variance)) - forward[t - 1])
    last = levels.at(-1)
    std = jnp.asarray(process.prior_std(last), x0.dtype)
    terms.append(log_density(path[-1], jnp.zeros_like(x0), std) - forward[-1])
    return jnp.stack(terms)


__all__ = ["chain_terms"]
