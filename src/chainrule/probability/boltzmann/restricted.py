"""Restricted Boltzmann machines: visible and hidden units with couplings between the two layers only.

Given one layer the units of the other are independent, so that a whole layer is drawn at once, and either layer can be
summed out. The visible units are zeros and ones (Smolensky, 1986) or numbers with Gaussian noise (Welling, Rosen-Zvi
and Hinton, 2005).
"""

import abc
import math
from typing import Any, Self, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.probability.boltzmann.states import (
    MOST_UNITS,
    check_binary,
    check_countable,
    log_sum_over_states,
)

_FLIPPED = 64
"""Units that stand for all in a pseudo-likelihood."""


class RestrictedBoltzmannMachine(eqx.Module):
    """Couplings between visible units v and binary hidden units h, and a bias for each unit.

    A machine at temperature T has the energy E / T; above one it wanders more easily.
    """

    weights: eqx.AbstractVar[Float[Array, "visible hidden"]]
    visible_bias: eqx.AbstractVar[Float[Array, " visible"]]
    hidden_bias: eqx.AbstractVar[Float[Array, " hidden"]]

    @abc.abstractmethod
    def energy(
        self, v: Float[Array, "*batch visible"], h: Float[Array, "*batch hidden"]
    ) -> Float[Array, "*batch"]:
        """E(v, h) of each pair of states."""

    @abc.abstractmethod
    def free_energy(self, v: Float[Array, "*batch visible"]) -> Float[Array, "*batch"]:
        """`F(v) = -log sum_h exp(-E(v, h))`, so that `p(v) = exp(-F(v)) / Z`."""

    @abc.abstractmethod
    def log_mass(self, h: Float[Array, "*batch hidden"]) -> Float[Array, "*batch"]:
        """`log sum_v exp(-E(v, h))`, an integral where v are numbers, so that `p(h) = exp(log_mass(h)) / Z`."""

    @abc.abstractmethod
    def hidden_logits(self, v: Float[Array, "*batch visible"]) -> Float[Array, "*batch hidden"]:
        """Logits of the hidden units given the visible ones."""

    @abc.abstractmethod
    def visible_mean(self, h: Float[Array, "*batch hidden"]) -> Float[Array, "*batch visible"]:
        """The mean of every visible unit given the hidden ones."""

    @abc.abstractmethod
    def draw_visible(
        self, key: Key, h: Float[Array, "*batch hidden"], temperature: Any = 1.0
    ) -> Float[Array, "*batch visible"]:
        """Visible units given the hidden ones."""

    @abc.abstractmethod
    def log_partition(self) -> Scalar:
        """`log Z`, exactly, by visiting all states of one layer; raises where both are too large for that."""

    @property
    @abc.abstractmethod
    def countable(self) -> bool:
        """Whether `log_partition` is within reach."""

    @abc.abstractmethod
    def between(self, base: Float[Array, " visible"], b: Any) -> Self:
        """A machine on the way from independent units with the visible bias `base` (b = 0) to this one (b = 1)."""

    @abc.abstractmethod
    def proper_score(self, key: Key, v: Float[Array, "batch visible"]) -> Float[Array, " batch"]:
        """A cost of each state that needs no Z and is on average smallest under the true distribution."""

    def draw_hidden(
        self, key: Key, v: Float[Array, "*batch visible"], temperature: Any = 1.0
    ) -> Float[Array, "*batch hidden"]:
        """Default: hidden units given the visible ones."""
        logits = self.hidden_logits(v)
        return jax.random.bernoulli(key, jax.nn.sigmoid(logits / temperature)).astype(logits.dtype)

    def sweep(
        self, key: Key, h: Float[Array, "*batch hidden"], temperature: Any = 1.0
    ) -> tuple[Float[Array, "*batch visible"], Float[Array, "*batch hidden"]]:
        """Default: one sweep of block Gibbs sampling, all visible units given the hidden ones, then these."""
        down, up = jax.random.split(key)
        v = self.draw_visible(down, h, temperature)
        return v, self.draw_hidden(up, v, temperature)

    def chain(
        self, key: Key, h: Float[Array, "*batch hidden"], sweeps: Any, temperature: Any = 1.0
    ) -> tuple[Float[Array, "*batch visible"], Float[Array, "*batch hidden"]]:
        """Default: so many sweeps, at least one; where they end."""
        first, rest = jax.random.split(key)
        begun = self.sweep(first, h, temperature)
        return jax.lax.fori_loop(
            1, sweeps, lambda i, state: self.sweep(jax.random.fold_in(rest, i), state[1], temperature), begun
        )


@final
class BinaryRBM(RestrictedBoltzmannMachine):
    """Visible units of zeros and ones: `E(v, h) = -b·v - c·h - vᵀ W h`.

    >>> machine = BinaryRBM(jnp.zeros((3, 2)), jnp.zeros(3), jnp.zeros(2))
    >>> round(float(machine.log_partition() / math.log(2)), 4)  # 2^5 states, all alike
    5.0
    """

    weights: Float[Array, "visible hidden"]
    visible_bias: Float[Array, " visible"]
    hidden_bias: Float[Array, " hidden"]

    def energy(
        self, v: Float[Array, "*batch visible"], h: Float[Array, "*batch hidden"]
    ) -> Float[Array, "*batch"]:
        """`-b·v - c·h - vᵀ W h`."""
        return -(v @ self.visible_bias) - h @ self.hidden_bias - ((v @ self.weights) * h).sum(axis=-1)

    def free_energy(self, v: Float[Array, "*batch visible"]) -> Float[Array, "*batch"]:
        """`-b·v - sum_j softplus(c_j + v·W_j)`."""
        return -(v @ self.visible_bias) - jax.nn.softplus(self.hidden_logits(v)).sum(axis=-1)

    def log_mass(self, h: Float[Array, "*batch hidden"]) -> Float[Array, "*batch"]:
        """`c·h + sum_i softplus(b_i + W_i·h)`."""
        return h @ self.hidden_bias + jax.nn.softplus(self._visible_logits(h)).sum(axis=-1)

    def hidden_logits(self, v: Float[Array, "*batch visible"]) -> Float[Array, "*batch hidden"]:
        """`c + v W`."""
        logits = v @ self.weights
        return logits + self.hidden_bias.astype(logits.dtype).reshape((1,) * (v.ndim - 1) + (-1,))

    def visible_mean(self, h: Float[Array, "*batch hidden"]) -> Float[Array, "*batch visible"]:
        """`sigmoid(b + W h)`."""
        return jax.nn.sigmoid(self._visible_logits(h))

    def draw_visible(
        self, key: Key, h: Float[Array, "*batch hidden"], temperature: Any = 1.0
    ) -> Float[Array, "*batch visible"]:
        """Zeros and ones."""
        logits = self._visible_logits(h)
        return jax.random.bernoulli(key, jax.nn.sigmoid(logits / temperature)).astype(logits.dtype)

    def log_partition(self) -> Scalar:
        """`log Z` by visiting all states of the smaller layer; the other is summed out."""
        visible, hidden = self.weights.shape
        check_countable("BinaryRBM.log_partition", min(visible, hidden))
        if hidden <= visible:
            return log_sum_over_states(self.log_mass, hidden, self.weights.dtype)
        return log_sum_over_states(lambda v: -self.free_energy(v), visible, self.weights.dtype)

    @property
    def countable(self) -> bool:
        """Whether one of the layers has at most 20 units."""
        return min(self.weights.shape) <= MOST_UNITS

    def between(self, base: Float[Array, " visible"], b: Any) -> "BinaryRBM":
        """Couplings and hidden biases times b; visible biases on the line between the two."""
        return BinaryRBM(b * self.weights, (1 - b) * base + b * self.visible_bias, b * self.hidden_bias)

    def log_prob(self, v: Any) -> Float[Array, "*batch"]:
        """The log-probability of visible states, exactly."""
        check_binary("BinaryRBM.log_prob", v)
        return -self.free_energy(jnp.asarray(v, self.weights.dtype)) - self.log_partition()

    def pseudo_log_likelihood(self, v: Float[Array, "batch visible"]) -> Float[Array, "batch visible"]:
        """`log p(v_i | all others)` of every visible unit: the normalisation cancels."""
        return self.log_conditionals(v, jnp.arange(v.shape[1]))

    def log_conditionals(
        self, v: Float[Array, "batch visible"], units: Array
    ) -> Float[Array, "batch chosen"]:
        """`log p(v_i | all others)` of the chosen visible units: by how much the free energy rises if one flips."""
        change = 1 - 2 * v[:, units]
        logits = self.hidden_logits(v)[:, None, :]
        flipped = logits + change[:, :, None] * self.weights[units][None]
        gained = (jax.nn.softplus(flipped) - jax.nn.softplus(logits)).sum(axis=-1)
        return -jax.nn.softplus(change * self.visible_bias[units][None] + gained)

    def proper_score(self, key: Key, v: Float[Array, "batch visible"]) -> Float[Array, " batch"]:
        """The negative pseudo-log-likelihood in nats, of many units estimated from 64 drawn at random."""
        visible = v.shape[1]
        few = min(visible, _FLIPPED)
        units = jnp.arange(visible) if few == visible else jax.random.permutation(key, visible)[:few]
        return -self.log_conditionals(v, units).sum(axis=1) * (visible / few)

    def _visible_logits(self, h: Float[Array, "*batch hidden"]) -> Float[Array, "*batch visible"]:
        logits = h @ self.weights.T
        return logits + self.visible_bias.astype(logits.dtype).reshape((1,) * (h.ndim - 1) + (-1,))


@final
class GaussianRBM(RestrictedBoltzmannMachine):
    """Visible units of numbers: `E(v, h) = sum_i (v_i - b_i)² / 2σ_i² - c·h - ((v - b)/σ)ᵀ W h`.

    Given h they are `N(b + σ W h, σ²)`: a mixture of Gaussians of one shape, as many as h has states.
    """

    weights: Float[Array, "visible hidden"]
    visible_bias: Float[Array, " visible"]
    hidden_bias: Float[Array, " hidden"]
    log_scale: Float[Array, " visible"]
    """Logarithm of σ."""

    def energy(
        self, v: Float[Array, "*batch visible"], h: Float[Array, "*batch hidden"]
    ) -> Float[Array, "*batch"]:
        """`sum_i (v_i - b_i)² / 2σ_i² - c·h - ((v - b)/σ)ᵀ W h`."""
        u = self._standard(v)
        return jnp.square(u).sum(axis=-1) / 2 - h @ self.hidden_bias - ((u @ self.weights) * h).sum(axis=-1)

    def free_energy(self, v: Float[Array, "*batch visible"]) -> Float[Array, "*batch"]:
        """`sum_i (v_i - b_i)² / 2σ_i² - sum_j softplus(c_j + ((v - b)/σ)·W_j)`."""
        softplus = jax.nn.softplus(self.hidden_logits(v)).sum(axis=-1)
        return jnp.square(self._standard(v)).sum(axis=-1) / 2 - softplus

    def log_mass(self, h: Float[Array, "*batch hidden"]) -> Float[Array, "*batch"]:
        """`c·h + |W h|² / 2 + sum_i log(σ_i sqrt(2π))`."""
        spread = (self.log_scale + 0.5 * math.log(2 * math.pi)).sum()
        return h @ self.hidden_bias + jnp.square(h @ self.weights.T).sum(axis=-1) / 2 + spread

    def hidden_logits(self, v: Float[Array, "*batch visible"]) -> Float[Array, "*batch hidden"]:
        """`c + ((v - b)/σ) W`."""
        logits = self._standard(v) @ self.weights
        return logits + self.hidden_bias.astype(logits.dtype).reshape((1,) * (v.ndim - 1) + (-1,))

    def visible_mean(self, h: Float[Array, "*batch hidden"]) -> Float[Array, "*batch visible"]:
        """`b + σ W h`."""
        centre, scale = self._rows(h)
        return centre + scale * (h @ self.weights.T)

    def draw_visible(
        self, key: Key, h: Float[Array, "*batch hidden"], temperature: Any = 1.0
    ) -> Float[Array, "*batch visible"]:
        """Numbers around the mean."""
        mean = self.visible_mean(h)
        scale = self._rows(h)[1] * jnp.sqrt(jnp.asarray(temperature, mean.dtype))
        return mean + scale * jax.random.normal(key, mean.shape, mean.dtype)

    def log_partition(self) -> Scalar:
        """`log Z` by visiting all states of the hidden layer."""
        hidden = self.weights.shape[1]
        check_countable("GaussianRBM.log_partition", hidden)
        return log_sum_over_states(self.log_mass, hidden, self.weights.dtype)

    @property
    def countable(self) -> bool:
        """Whether the hidden layer has at most 20 units."""
        return self.weights.shape[1] <= MOST_UNITS

    def between(self, base: Float[Array, " visible"], b: Any) -> "GaussianRBM":
        """Couplings and hidden biases times b; centres on the line between the two."""
        centre = (1 - b) * base + b * self.visible_bias
        return GaussianRBM(b * self.weights, centre, b * self.hidden_bias, self.log_scale)

    def log_prob(self, v: Any) -> Float[Array, "*batch"]:
        """The log-density of visible states, exactly."""
        return -self.free_energy(jnp.asarray(v, self.weights.dtype)) - self.log_partition()

    def hyvarinen_score(self, v: Float[Array, "batch visible"]) -> Float[Array, "batch visible"]:
        """`½ ψ_i² + dψ_i/dv_i` with `ψ = -dF/dv`: on average smallest for the true density, and needs no Z.

        Reference: Hyvärinen, 2005.
        """
        on = jax.nn.sigmoid(self.hidden_logits(v))
        _, scale = self._rows(v)
        slope = (on @ self.weights.T - self._standard(v)) / scale
        curvature = ((on * (1 - on)) @ jnp.square(self.weights).T - 1) / jnp.square(scale)
        return jnp.square(slope) / 2 + curvature

    def proper_score(self, key: Key, v: Float[Array, "batch visible"]) -> Float[Array, " batch"]:
        """Hyvärinen's score, all units together."""
        del key
        return self.hyvarinen_score(v).sum(axis=1)

    def _standard(self, v: Array) -> Array:
        centre, scale = self._rows(v)
        return (v - centre) / scale

    def _rows(self, like: Array) -> tuple[Array, Array]:
        """Centres and scales with as many axes as an array."""
        shape = (1,) * (like.ndim - 1) + (-1,)
        return self.visible_bias.reshape(shape), jnp.exp(self.log_scale).reshape(shape)


def contrastive_loss(
    machine: RestrictedBoltzmannMachine,
    data: Float[Array, "batch visible"],
    model: Float[Array, "draws visible"],
) -> Scalar:
    """`mean F(data) - mean F(model)`: with `model` drawn from the machine, its gradient is that of `-log p(data)`.

    The free energies fall where data are and rise where the machine is. With few sweeps of a chain in place of draws
    this is contrastive divergence (Hinton, 2002), whose gradient is biased; chains that are carried along from update
    to update are less so (Tieleman, 2008).
    """
    held = jax.lax.stop_gradient(model)
    return machine.free_energy(data).mean() - machine.free_energy(held).mean()


__all__ = ["BinaryRBM", "GaussianRBM", "RestrictedBoltzmannMachine", "contrastive_loss"]
