"""The variational bound of a diffusion model, term by term, in nats.

    -log p(x0) <= prior + diffusion + reconstruction

`levels` run from the cleanest, where the reconstruction happens, to the noisiest, where the prior stands; the diffusion
term of a step between two levels is a divergence in closed form (Ho et al., 2020; Kingma et al., 2021).
In the limit of many steps it depends on the two ends alone. Every function takes the noise as an argument, or draws it
from a key, and returns one number for each example, so that standard errors can be had.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level, Process, noised, per_example
from chainrule.probability.gaussian import kl_from_centred

_X = Float[Array, "batch ..."]
_Each = Float[Array, " batch"]


class Terms(NamedTuple):
    """The three parts of the bound for each example, in nats; their sum bounds -log p(x0) from above."""

    prior: _Each
    diffusion: _Each
    reconstruction: _Each

    @property
    def total(self) -> _Each:
        """The bound."""
        return self.prior + self.diffusion + self.reconstruction


def prior_term(x0: _X, level: Level, process: Process) -> _Each:
    """Divergence of the noisiest level from the distribution that samplers start from."""
    return kl_from_centred(per_example(level.a, x0) * x0, level.s, process.prior_std(level))


def step_terms(
    denoiser: Denoiser, x0: _X, eps: Float[Array, "steps batch ..."], levels: Level, condition: Any = None
) -> Float[Array, "steps batch"]:
    """The divergence of every step, from noise `eps` of its own for each: ½ expm1(lam' - lam) ||eps-hat - eps||².

    `levels` has one more entry than there are steps. The same number is ½ (SNR' - SNR) ||x0-hat - x0||².
    """
    cleaner, here = levels.at(slice(None, -1)), levels.at(slice(1, None))
    weight = 0.5 * jnp.expm1(cleaner.lam - here.lam)

    def one(step: tuple[Array, Level, Array]) -> Array:
        weight, level, eps = step
        return weight * _squared_error(denoiser, x0, eps, level, condition)

    return jax.lax.map(one, (jnp.asarray(weight), here, eps))


def diffusion_term(
    denoiser: Denoiser, x0: _X, key: Key, levels: Level, *, draws: int | None = None, condition: Any = None
) -> _Each:
    """Sum over the steps, one draw of noise each; with `draws`, an unbiased estimate from that many random steps.

    Every example has steps of its own, so that the estimates of different examples are independent.
    """
    steps = levels.a.shape[0] - 1
    noise, choose = jax.random.split(key)
    if draws is None:
        eps = jax.random.normal(noise, (steps, *x0.shape), x0.dtype)
        return step_terms(denoiser, x0, eps, levels, condition).sum(axis=0)
    if not 1 <= draws <= steps:
        raise ArgumentError(f"draws={draws}: there are {steps} steps to draw from")
    eps = jax.random.normal(noise, (draws, *x0.shape), x0.dtype)
    chosen = 1 + jax.random.randint(choose, (draws, len(x0)), 0, steps)
    table = Level(*map(jnp.asarray, levels))

    def one(step: tuple[Array, Array]) -> Array:
        index, eps = step
        here = table.at(index)
        weight = 0.5 * jnp.expm1(table.at(index - 1).lam - here.lam)
        return weight * _squared_error(denoiser, x0, eps, here, condition)

    return steps / draws * jax.lax.map(one, (chosen, eps)).sum(axis=0)


def continuous_term(
    denoiser: Denoiser,
    x0: _X,
    eps: Float[Array, "draws batch ..."],
    lams: Float[Array, "draws batch"],
    process: Process,
    width: Any,
    condition: Any = None,
) -> _Each:
    """The sum of `level_terms`: the whole of the diffusion term."""
    return level_terms(denoiser, x0, eps, lams, process, width, condition).sum(axis=0)


def level_terms(
    denoiser: Denoiser,
    x0: _X,
    eps: Float[Array, "draws batch ..."],
    lams: Float[Array, "draws batch"],
    process: Process,
    width: Any,
    condition: Any = None,
) -> Float[Array, "draws batch"]:
    """½ of the integral of ||eps-hat - eps||² over lam, point by point; `lams` fill a range of this width evenly.

    In continuous time the term depends on the ends of the schedule alone, so any schedule may draw the points; uniform
    ones need no weight. Other points have a width each: those of a chain of T steps T expm1(lam' - lam), with lam' the
    level one step cleaner, which is the sum of `step_terms` over the chain.
    """

    def one(draw: tuple[Array, Array]) -> Array:
        eps, lam = draw
        return _squared_error(denoiser, x0, eps, process.level(lam), condition)

    return 0.5 * width * jax.lax.map(one, (eps, lams)) / len(lams)


def gaussian_reconstruction(x0: _X, level: Level) -> _Each:
    """Cost of continuous data under N(z/a, s²/a²), on average over z: d/2 (1 + log(2 pi s²/a²))."""
    each = 0.5 * (1 + math.log(2 * math.pi) - level.lam)
    return jnp.broadcast_to(_count(x0) * each, (len(x0),))


def level_reconstruction(
    z: _X, index: Int[Array, "batch ..."], values: Float[Array, " values"], level: Level
) -> _Each:
    """Cost of data that take few values: the softmax over all `values` v of -(z - a v)²/(2 s²) at each entry."""
    distance = z[..., None] - per_example(level.a, z[..., None]) * values.reshape(*(1,) * z.ndim, -1)
    logits = -jnp.square(distance / per_example(level.s, distance)) / 2
    logs = jnp.take_along_axis(jax.nn.log_softmax(logits, axis=-1), index[..., None], axis=-1)[..., 0]
    return -_sum(logs)


def bits_per_dim(nats: Array, dimensions: int, levels: int = 0, *, density: bool = False) -> Array:
    """Nats of an example as bits per dimension of data with `levels` values.

    A density on x = 2 (k + u)/levels - 1, u uniform in [0, 1), becomes a discrete code length by log2(levels/2) bits.

    >>> float(bits_per_dim(jnp.array(0.0), 64, 256, density=True))
    7.0
    """
    if levels < 2:
        raise ArgumentError(
            f"levels={levels}: bits per dimension need data with a known number of values",
            remedy="use nats for continuous data",
        )
    return nats / (dimensions * math.log(2)) + (math.log2(levels / 2) if density else 0.0)


def _squared_error(denoiser: Denoiser, x0: Array, eps: Array, level: Level, condition: Any) -> Array:
    return _sum(jnp.square(denoiser.value("eps", noised(x0, eps, level), level, condition) - eps))


def _sum(values: Array) -> Array:
    return values.sum(axis=tuple(range(1, values.ndim)))


def _count(x0: Array) -> int:
    return math.prod(x0.shape[1:])


__all__ = [
    "Terms",
    "bits_per_dim",
    "continuous_term",
    "diffusion_term",
    "gaussian_reconstruction",
    "level_reconstruction",
    "level_terms",
    "prior_term",
    "step_terms",
]
