"""Gaussian conditionals as a flow: `x_t = m_t(x_<t) + s_t(x_<t) u_t` with standard Gaussian noise `u`.

An autoregressive model with Gaussian conditionals and an affine autoregressive flow are one density seen from two
sides. Towards the noise all entries are computed at once; towards the data one after another.
"""

import math
from collections.abc import Sequence
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.models.autoregressive.conditionals import Conditionals
from chainrule.probability.distributions.outputs import GaussianMixtureOutput


@final
class AutoregressiveFlow(eqx.Module):
    """An affine map of noise, triangular in the order of its entries. Examples are flat vectors."""

    network: Conditionals
    order: Int[Array, " entries"]

    @classmethod
    def of(
        cls, members: Sequence[Conditionals], orders: Sequence[Int[Array, " entries"]]
    ) -> "AutoregressiveFlow":
        """The flow of a single network with one Gaussian for each entry."""
        output = members[0].output
        if len(members) > 1:
            raise CapabilityError(
                f"an ensemble of {len(members)} orders is a mixture, not one map", remedy="use ensemble=1"
            )
        if not isinstance(output, GaussianMixtureOutput) or output.components > 1:
            raise CapabilityError(
                "only a Gaussian for each entry is an affine map of Gaussian noise",
                remedy="train made with conditionals=mixture components=1 on continuous data",
            )
        return cls(members[0], orders[0])

    def to_noise(
        self, x: Float[Array, "batch entries"]
    ) -> tuple[Float[Array, "batch entries"], Float[Array, " batch"]]:
        """Noise behind each example and `log |det du/dx|`, in one pass; entries of the noise keep their positions."""
        mean, spread = self._affine(x[:, self.order])
        u = (x[:, self.order] - mean) * jnp.exp(-spread)
        return jnp.zeros_like(u).at[:, self.order].set(u), -spread.sum(axis=-1)

    def to_data(
        self, u: Float[Array, "batch entries"]
    ) -> tuple[Float[Array, "batch entries"], Float[Array, " batch"]]:
        """The example of each noise and `log |det dx/du|`, entry after entry."""
        noise = u[:, self.order]

        def step(t: Int[Array, ""], x: Array) -> Array:
            mean, spread = self._affine(x)
            return x.at[:, t].set(mean[:, t] + jnp.exp(spread[:, t]) * noise[:, t])

        x = jax.lax.fori_loop(0, u.shape[1], step, jnp.zeros_like(noise))
        return jnp.zeros_like(x).at[:, self.order].set(x), self._affine(x)[1].sum(axis=-1)

    def log_prob(self, x: Float[Array, "batch entries"]) -> Float[Array, " batch"]:
        """Density of the noise behind each example, times the change of volume."""
        u, log_det = self.to_noise(x)
        return -0.5 * (jnp.square(u) + math.log(2 * math.pi)).sum(axis=-1) + log_det

    def sample(self, key: Key, n: int) -> Float[Array, "batch entries"]:
        """Examples of fresh noise."""
        return self.to_data(jax.random.normal(key, (n, len(self.order))))[0]

    def _affine(
        self, ordered: Float[Array, "batch entries"]
    ) -> tuple[Float[Array, "batch entries"], Float[Array, "batch entries"]]:
        output = self.network.output
        assert isinstance(output, GaussianMixtureOutput)
        _, means, spreads = output.parts(self.network(ordered))
        return means[..., 0], spreads[..., 0]


__all__ = ["AutoregressiveFlow"]
