"""A chain of learned Gaussians between an example and the top level: each level knows its neighbours alone.

p(x|z_1) p(z_1|z_2) ... p(z_{T-1}|z_T) p(z_T)    and    q(z_1|x) q(z_2|z_1) ... q(z_T|z_{T-1})
"""

from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.data.schema import Schema
from chainrule.information.compression.bits_back import Move, markov_moves
from chainrule.models.latent.bodies import Decoder, Encoder, check_pixels, make_decoder, make_encoder
from chainrule.models.latent.hierarchical import HierarchicalConfig
from chainrule.models.latent.hierarchy import Choose, Hierarchy, Path, joined, standard
from chainrule.models.latent.posteriors import Gaussian, gaussian
from chainrule.nn import constructions
from chainrule.probability.distributions.outputs import OutputDistribution

_COMPARED = 1024
"""Examples compared with each other: of a chain only the lowest level depends on the example itself."""


@final
class ConditionalGaussian(eqx.Module):
    """A Gaussian whose means, and logarithms of variances unless these are the same for all, a network gives."""

    network: Encoder | constructions.Network
    log_variance: Float[Array, " size"] | None
    """Of linear networks: the same whatever is given."""

    def __call__(self, given: Float[Array, "batch ..."]) -> Gaussian:
        """The distribution given each vector or example."""
        found = _wide(self.network(given))
        if self.log_variance is None:
            return gaussian(found)
        same = jnp.broadcast_to(self.log_variance.astype(found.dtype)[None], found.shape)
        return gaussian(jnp.concatenate([found, same], axis=-1))


@final
class MarkovChain(Hierarchy):
    """Learned Gaussians between neighbouring levels, upwards for inference and downwards for generation."""

    ups: tuple[ConditionalGaussian, ...]
    """Of each level given the one below it, the first given the example."""
    downs: tuple[ConditionalGaussian, ...]
    """Of each level but the top given the one above it."""
    decoder: Decoder
    sizes: tuple[int, ...] = eqx.field(static=True)
    exact: ClassVar[bool] = False
    compared: ClassVar[int] = _COMPARED

    def __init__(
        self,
        config: HierarchicalConfig,
        latents: tuple[int, ...],
        schema: Schema,
        output: OutputDistribution,
        key: Key,
    ) -> None:
        if config.coarse > 1:
            check_pixels(f"coarse={config.coarse}", schema, "leave coarse out")
        count = len(latents)
        for_encoder, for_decoder, *keys = jax.random.split(key, 2 * count + 1)

        def conditional(level: int, given: int, key: Key) -> ConditionalGaussian:
            linear = config.depth == 0
            numbers = latents[level] if linear else 2 * latents[level]
            network = constructions.mlp(
                [given, *[config.width] * config.depth, numbers], config.activation, key=key
            )
            return ConditionalGaussian(network, jnp.zeros(latents[level]) if linear else None)

        linear = config.depth == 0 and config.body == "mlp"
        encoder = make_encoder(config, schema, 0, latents[0] if linear else 2 * latents[0], for_encoder)
        first = ConditionalGaussian(encoder, jnp.zeros(latents[0]) if linear else None)
        self.ups = (first, *(conditional(t, latents[t - 1], keys[t]) for t in range(1, count)))
        self.downs = tuple(conditional(t, latents[t + 1], keys[count + t - 1]) for t in range(count - 1))
        self.decoder = make_decoder(config, latents[0], schema, output, for_decoder)
        self.sizes = latents

    @property
    def moves(self) -> tuple[Move, ...]:
        """Interleaved: a level goes onto the stack as soon as the one above it is known."""
        return markov_moves(len(self.sizes))

    def inferred(self, x: Array, noise: Array) -> Path:
        """Upwards from the example."""
        return self._path(x, lambda level, q: q.draw(noise[:, self.part(level)]))

    def path(self, x: Array, codes: Array) -> Path:
        """The same, each level given the one below it."""
        return self._path(x, lambda level, _: codes[:, self.part(level)])

    def _path(self, x: Array, choose: Choose) -> Path:
        below, codes, posteriors = x, [], []
        for level, up in enumerate(self.ups):
            posteriors.append(up(below))
            below = choose(level, posteriors[-1])
            codes.append(below)
        priors = [down(above) for down, above in zip(self.downs, codes[1:], strict=True)]
        priors.append(standard(codes[-1]))
        found = jnp.concatenate(codes, axis=-1)
        return Path(found, joined(posteriors), joined(priors), _wide(self.decoder(codes[0])))

    def generated(self, noise: Array, temperature: float | Array, known: Array, fixed: int) -> Array:
        """Downwards from the top."""
        codes: list[Array] = []
        for level in reversed(range(len(self.sizes))):
            part = self.part(level)
            prior = self.downs[level](codes[0]) if codes else standard(noise[:, part])
            is_fixed = level >= len(self.sizes) - fixed
            codes.insert(0, known[:, part] if is_fixed else prior.draw(noise[:, part], temperature))
        return jnp.concatenate(codes, axis=-1)

    def entry_parameters(self, codes: Array) -> Array:
        """From the lowest level."""
        return _wide(self.decoder(codes[:, self.part(0)]))

    def pairs(self, x: Array, codes: Array) -> Float[Array, "batch batch"]:
        """Only `log q(z_1|x)` is asked of every pair; the rest is the same under all examples."""
        posterior = self.path(x, codes).posterior
        part = self.part(0)
        first = Gaussian(*(column[:, part] for column in posterior))
        rest = posterior.log_prob(codes)[:, self.sizes[0] :].sum(axis=-1)

        def under_all(own: Array) -> Array:
            return first.log_prob(jnp.broadcast_to(own[None], first.mean.shape)).sum(axis=-1)

        return jax.lax.map(under_all, codes[:, part]) + rest[:, None]


def _wide(numbers: Array) -> Array:
    """Parameters of distributions in single precision at least, whatever the layers compute in."""
    return numbers.astype(jnp.promote_types(numbers.dtype, jnp.float32))


__all__ = ["ConditionalGaussian", "MarkovChain"]
