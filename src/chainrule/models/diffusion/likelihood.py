"""The exact likelihood of the probability flow (Song et al., 2021).

Beside unit signal, y = x/a, the flow is dy/dsigma = eps-hat whatever the process. Here it is solved in log sigma, from
the data up to the noise, together with the integral of its divergence:

    log p(y at low noise) = log p(y at high noise) + integral of div(sigma eps-hat) dlog sigma.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key
from chainrule.derive.matrix_free.estimators import batch_divergence
from chainrule.models.diffusion import bounds
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level, Process, noised
from chainrule.models.protocol import FlowLikelihood
from chainrule.networks import units
from chainrule.nn.ode import ODESolution, dormand_prince, runge_kutta
from chainrule.probability.gaussian import log_density

if TYPE_CHECKING:
    from chainrule.models.diffusion.generative import Generative

EXACT = 64
"""Most dimensions for which the divergence is computed exactly by default."""


class Likelihood(NamedTuple):
    """Log-density of each example in nats, and what it rests on."""

    log_prob: Float[Array, " batch"]
    stderr: Float[Array, " batch"]
    """Standard error over random probes of the divergence; zero where it is exact."""
    noise: Float[Array, "batch ..."]
    """The example at the noisiest level: its code."""
    round_trip: Float[Array, " batch"]
    """Distance between the example and its code brought back."""
    prior_mismatch: Float[Array, " batch"]
    """Log-density of the code under the prior of samplers, less that under `terminal`; zero without one."""
    evaluations: int
    """Evaluations of the flow, on the way up to the noise."""


def flow_log_prob(
    denoiser: Denoiser,
    x: Float[Array, "batch ..."],
    process: Process,
    lams: tuple[float, float],
    *,
    terminal: Callable[[Array], Array] | None = None,
    probes: int = 0,
    key: Key | None = None,
    steps: int | None = None,
    tolerance: float = 1e-5,
    condition: Any = None,
) -> Likelihood:
    """The likelihood of data `x` taken as they are at the cleanest of the levels `lams` = (clean, noisy).

    The divergence is exact for up to 64 dimensions and estimated by random signs otherwise, or where `probes` asks for
    it (Hutchinson, 1990). Adaptive steps keep to `tolerance`; `steps` takes that many of equal length in log sigma
    instead. `terminal` is the log-density of the noisiest level where it is known.
    """
    if lams[0] <= lams[1]:
        raise ArgumentError(f"lams={lams}: the first is the clean end, with the larger lam")
    count = math.prod(x.shape[1:])
    probes = probes or (0 if count <= EXACT else 8)
    if probes and key is None:
        raise ArgumentError(f"probes={probes}: random probes need a key", remedy="give key=")
    signs = jax.random.rademacher(key, (probes, *x.shape), x.dtype) if probes and key is not None else None
    up, down = _both_ways(denoiser, x, process, lams, signs, steps, tolerance, condition)
    if not bool(up.reached & down.reached):
        raise ArgumentError(
            f"tolerance={tolerance}: the flow was not solved within the largest number of steps",
            remedy="loosen the tolerance, or give steps=",
        )
    clean, noisy = (process.level(jnp.asarray(lam, x.dtype)) for lam in lams)
    y, divergence = up.y
    code = y * noisy.a
    prior = log_density(code, jnp.zeros_like(code), jnp.asarray(process.prior_std(noisy), x.dtype))
    known = prior if terminal is None else terminal(code)
    stretch = count * (jnp.log(noisy.a) - jnp.log(clean.a))
    each = known[None] + stretch + divergence
    spread = each.std(axis=0, ddof=1) / math.sqrt(len(each)) if len(each) > 1 else jnp.zeros_like(known)
    off = (down.y[0] * clean.a - x).reshape(len(x), -1)
    return Likelihood(
        each.mean(axis=0), spread, code, jnp.linalg.norm(off, axis=1), prior - known, int(up.evaluations)
    )


@eqx.filter_jit
def _both_ways(
    denoiser: Denoiser,
    x: Array,
    process: Process,
    lams: tuple[float, float],
    signs: Array | None,
    steps: int | None,
    tolerance: float,
    condition: Any,
) -> tuple[ODESolution, ODESolution]:
    bottom, top = (jnp.asarray(-lam / 2, x.dtype) for lam in lams)

    def velocity(y: Array, log_sigma: Array) -> Array:
        level: Level = process.level(-2 * log_sigma)
        return jnp.exp(log_sigma) * denoiser.value("eps", y * level.a, level, condition)

    def climb(log_sigma: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        y = state[0]
        return velocity(y, log_sigma), batch_divergence(lambda y: velocity(y, log_sigma), y, signs)

    def descend(log_sigma: Array, state: tuple[Array]) -> tuple[Array]:
        return (velocity(state[0], log_sigma),)

    def solve(f: Callable[..., Any], y: Any, start: Array, end: Array) -> ODESolution:
        if steps is not None:
            return runge_kutta(f, y, start, end, steps)
        return dormand_prince(f, y, start, end, rtol=tolerance, atol=tolerance)

    clean = process.level(-2 * bottom)
    zeros = jnp.zeros((1 if signs is None else len(signs), len(x)), x.dtype)
    up = solve(climb, (x / clean.a, zeros), bottom, top)
    return up, solve(descend, (up.y[0],), top, bottom)


def flow_likelihood(
    model: "Generative", x: Float[Array, "batch ..."], key: Key, probes: int, tolerance: float
) -> FlowLikelihood:
    """The likelihood of a model's data by its flow, in nats and model units.

    Continuous data are taken as they are at the cleanest level. Data with levels are noised to it, and what is gained
    and lost by that is counted: log p(x) >= E[log p(z) + log p(x|z) - log q(z|x)], z at the cleanest level.
    """
    for_clean, for_signs = jax.random.split(key)
    high, low = (float(lam) for lam in model.lams())
    x0, process = model.to_network_units(x), model.schedule.process
    clean, noisy = (process.level(jnp.asarray(lam, x0.dtype)) for lam in (high, low))
    discrete = bool(model.schema.levels)
    z = noised(x0, jax.random.normal(for_clean, x0.shape, x0.dtype), clean) if discrete else x0
    found = flow_log_prob(
        model.denoiser, z, process, (high, low), probes=probes, key=for_signs, tolerance=tolerance
    )
    nats = -found.log_prob
    if discrete:
        entropy = x0[0].size * 0.5 * (1 + math.log(2 * math.pi) + 2 * jnp.log(clean.s))
        # The same noise as above: `reconstruction` draws it from the same key.
        nats = nats + model.reconstruction(x0, jnp.asarray(high), for_clean) - entropy
    mismatch = bounds.prior_term(x0, noisy, process)
    return FlowLikelihood(
        units.log_density(model.schema, nats), found.stderr, found.round_trip, mismatch, found.evaluations
    )


__all__ = ["EXACT", "Likelihood", "flow_likelihood", "flow_log_prob"]
