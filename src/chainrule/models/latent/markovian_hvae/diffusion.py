"""A chain whose inference is fixed: every level is the example with more noise, and a denoiser generates it.

    q(z_t|x) = N(a_t x, s_t²), p(z_{t-1}|z_t) = q(z_{t-1}|z_t, x = x-hat(z_t))

With levels as wide as the example and q(z_t|z_{t-1}) linear and fixed, the bound of the hierarchy is that of
variational diffusion (Kingma et al., 2021), term by term. Codes are drawn upwards; their density is that of q(z_T|x)
and q(z_{t-1}|z_t, x), which is the same distribution downwards and makes every term a divergence in closed form.
"""

import math
from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.models.latent.bodies import check_pixels
from chainrule.models.latent.hierarchical import HierarchicalConfig
from chainrule.models.latent.hierarchy import Hierarchy, Path, standard
from chainrule.models.latent.posteriors import Gaussian
from chainrule.networks import units
from chainrule.networks.conditioning import ConditionedNetwork
from chainrule.networks.mlp import ResidualMLP
from chainrule.networks.unet import UNet
from chainrule.probability.distributions.outputs import (
    FixedScale,
    LevelsOutput,
    OutputDistribution,
)
from chainrule.probability.distributions.outputs.gaussian import GaussianOutput

_COMPARED = 256
"""Examples compared with each other."""


@final
class NoiseLevels(eqx.Module):
    """Signal a_t and noise s_t of each level with a² + s² = 1, by the logarithm of their squared ratio."""

    lam: tuple[float, ...] = eqx.field(static=True)
    """log(a²/s²) of each level, the cleanest first."""

    @property
    def a(self) -> np.ndarray:
        """The share of the example."""
        return np.sqrt(1 / (1 + np.exp(-np.array(self.lam))))

    @property
    def s(self) -> np.ndarray:
        """The share of noise."""
        return np.sqrt(1 / (1 + np.exp(np.array(self.lam))))

    @property
    def added(self) -> np.ndarray:
        """The variance that each step but the first adds to `a_t/a_{t-1} z_{t-1}`."""
        lam = np.array(self.lam)
        return -np.square(self.s[1:]) * np.expm1(lam[1:] - lam[:-1])

    def step_back(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For every step: what z_t and x are multiplied by in the mean of z_{t-1} given both, and its variance."""
        here, there = np.square(self.s[1:]), np.square(self.s[:-1])
        from_z = self.a[1:] / self.a[:-1] * there / here
        return from_z, self.a[:-1] * self.added / here, self.added * there / here


@final
class DiffusionChain(Hierarchy):
    """Fixed noise upwards, a denoiser downwards."""

    denoiser: ConditionedNetwork
    """From noisy examples and log(a²/s²) to v = a eps - s x."""
    levels: NoiseLevels
    shape: tuple[int, ...] = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    sizes: tuple[int, ...] = eqx.field(static=True)
    exact: ClassVar[bool] = True
    compared: ClassVar[int] = _COMPARED

    def __init__(self, config: HierarchicalConfig, lam: tuple[float, ...], schema: Schema, key: Key) -> None:
        self.levels, self.shape, self.schema = NoiseLevels(lam), schema.shape, schema
        self.sizes = (schema.dimensions,) * len(lam)
        if config.body == "conv":
            check_pixels("body=conv", schema, "use body=mlp")
            self.denoiser = UNet(schema.shape, widths=config.channels, depth=1, key=key)
        else:
            self.denoiser = ResidualMLP(schema.dimensions, width=config.width, depth=config.depth, key=key)

    def inferred(self, x: Array, noise: Array) -> Path:
        """Noise added step by step; the codes are those of q(z_1|x) and q(z_t|z_{t-1})."""
        flat = x.reshape(len(x), -1)
        steps = noise.reshape(len(x), len(self.sizes), -1)
        a, s, added = (column.tolist() for column in (self.levels.a, self.levels.s, self.levels.added))
        z = [a[0] * flat + s[0] * steps[:, 0]]
        for t in range(1, len(a)):
            z.append(a[t] / a[t - 1] * z[-1] + math.sqrt(added[t - 1]) * steps[:, t])
        return self.path(x, jnp.concatenate(z, axis=-1))

    def path(self, x: Array, codes: Array) -> Path:
        """Divergences of all steps at once: q(z_{t-1}|z_t, x) beside the same with the denoiser's estimate of x."""
        count, depth = len(x), len(self.sizes)
        flat, z = x.reshape(count, 1, -1), codes.reshape(count, depth, -1)
        lam = jnp.asarray(self.levels.lam, z.dtype)
        guess = self.estimate(z[:, 1:].reshape(-1, z.shape[-1]), jnp.tile(lam[1:], count))
        from_z, from_x, variance = (_each_step(column, z) for column in self.levels.step_back())
        kept = from_z * z[:, 1:]
        spread = jnp.broadcast_to(jnp.log(variance), kept.shape)
        zeros = jnp.zeros_like(flat)
        top = zeros + 2 * math.log(self.levels.s[-1])
        posterior = ((kept + from_x * flat, float(self.levels.a[-1]) * flat), (spread, top))
        prior = ((kept + from_x * guess.reshape(kept.shape), zeros), (spread, zeros))
        q, p = (
            Gaussian(*(jnp.concatenate(column, axis=1).reshape(codes.shape) for column in both))
            for both in (posterior, prior)
        )
        return Path(codes, q, p, self.entry_parameters(codes))

    def estimate(self, z: Float[Array, "rows size"], lam: Float[Array, " rows"]) -> Float[Array, "rows size"]:
        """The example behind noisy ones: `a z - s v`."""
        v = self.denoiser(z.reshape(len(z), *self.shape), lam).reshape(z.shape)
        a, s = (jnp.sqrt(jax.nn.sigmoid(sign * lam))[:, None] for sign in (1, -1))
        return a * z - s * v.astype(z.dtype)

    def generated(self, noise: Array, temperature: float | Array, known: Array, fixed: int) -> Array:
        """Step by step from the top, in one compiled loop."""
        count, depth = len(noise), len(self.sizes)
        drawn, kept = (jnp.moveaxis(codes.reshape(count, depth, -1), 1, 0) for codes in (noise, known))
        is_fixed = jnp.arange(depth) >= depth - fixed
        top = jnp.where(is_fixed[-1], kept[-1], standard(drawn[-1]).draw(drawn[-1], temperature))
        from_z, from_x, variance = self.levels.step_back()
        table = np.stack([from_z, from_x, np.sqrt(variance), self.levels.lam[1:]], axis=1)

        def step(z: Array, one: tuple[Array, ...]) -> tuple[Array, Array]:
            numbers, own, known, is_fixed = one
            from_z, from_x, spread, lam = numbers
            guess = self.estimate(z, jnp.broadcast_to(lam, (count,)))
            fresh = from_z * z + from_x * guess + temperature * spread * own
            z = jnp.where(is_fixed, known, fresh)
            return z, z

        rest = (jnp.asarray(table, noise.dtype), drawn[:-1], kept[:-1], is_fixed[:-1])
        _, below = jax.lax.scan(step, top, rest, reverse=True)
        return jnp.moveaxis(jnp.concatenate([below, top[None]]), 0, 1).reshape(noise.shape)

    def entry_parameters(self, codes: Array) -> Array:
        """p(x|z_1) as q implies it: logits of levels by their distance, or a Gaussian around `z_1 / a_1`."""
        z = codes[:, : self.sizes[0]].reshape(len(codes), *self.shape)
        a, s = float(self.levels.a[0]), float(self.levels.s[0])
        if not self.schema.levels:
            return units.to_model(self.schema, z / a)[..., None]
        values = jnp.linspace(-1, 1, self.schema.levels, dtype=z.dtype).reshape(*(1,) * z.ndim, -1)
        return -jnp.square((z[..., None] - a * values) / s) / 2


def output_of(lam: float, schema: Schema) -> OutputDistribution:
    """The distribution of an entry given the cleanest level, whose log(a²/s²) this is."""
    if schema.levels:
        return LevelsOutput(schema.levels)
    width = math.exp(-lam / 2) * (0.5 if units.unit(schema) else 1.0)
    return GaussianOutput(FixedScale(width))


def _each_step(each: np.ndarray, like: Float[Array, "batch steps size"]) -> Array:
    """A number for every step."""
    return jnp.asarray(each, like.dtype).reshape(1, -1, 1)


__all__ = ["DiffusionChain", "NoiseLevels", "output_of"]
