"""The Boltzmann machine: binary units with pairwise couplings (Ackley, Hinton and Sejnowski, 1985).

    p(x) = exp(-E(x)) / Z,    E(x) = -½ xᵀ J x - bᵀ x,    J symmetric with a zero diagonal

The slope of the log-likelihood in the coupling of a pair is what the pair does together in the data minus what it does
together in the model. Everything here is exact for up to 20 units; chains of Gibbs sampling serve any number.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.probability.boltzmann.states import binary_states, check_binary, log_sum_over_states
from chainrule.probability.monte_carlo.chains import MCMCResult
from chainrule.probability.monte_carlo.gibbs import gibbs


class PairMoments(NamedTuple):
    """How often each unit is one, and how often each pair is one together."""

    mean: Float[Array, " units"]
    together: Float[Array, "units units"]


@final
class UnitConditional(eqx.Module):
    """One unit given all others: one with probability `sigmoid(J_i x + b_i)`."""

    machine: "BoltzmannMachine"
    unit: int = eqx.field(static=True)

    def __call__(self, key: Key, x: Array) -> Array:
        """A draw."""
        machine = self.machine
        logit = machine.couplings[self.unit] @ x.astype(machine.bias.dtype) + machine.bias[self.unit]
        return jax.random.bernoulli(key, jax.nn.sigmoid(logit))


@final
class BoltzmannMachine(eqx.Module):
    """Binary units with symmetric couplings and biases.

    >>> machine = BoltzmannMachine([[0.0, 1.0], [1.0, 0.0]], [0.0, -1.0])
    >>> [round(float(p), 4) for p in jnp.exp(machine.log_prob(binary_states(2)))]
    [0.2969, 0.1092, 0.2969, 0.2969]
    >>> BoltzmannMachine([[0.0, 1.0], [0.5, 0.0]], [0.0, 0.0])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: BoltzmannMachine: couplings are not symmetric: entry (0, 1) is 1, (1, 0) is 0.5
           use (J + J.T) / 2, which has the same energies
    """

    couplings: Float[Array, "units units"]
    bias: Float[Array, " units"]

    def __init__(self, couplings: Any, bias: Any) -> None:
        self.couplings, self.bias = jnp.asarray(couplings, float), jnp.asarray(bias, float)
        _check(self.couplings, self.bias)

    def energy(self, x: Float[Array, "*batch units"]) -> Float[Array, "*batch"]:
        """`-½ xᵀ J x - bᵀ x` of each state."""
        return -0.5 * ((x @ self.couplings) * x).sum(axis=-1) - x @ self.bias

    def log_partition(self) -> Scalar:
        """`log Z`, by visiting all states."""
        return log_sum_over_states(lambda x: -self.energy(x), len(self.bias), self.bias.dtype)

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """The log-probability of each state."""
        check_binary("BoltzmannMachine.log_prob", x)
        return -self.energy(jnp.asarray(x, self.bias.dtype)) - self.log_partition()

    def moments(self) -> PairMoments:
        """Of the machine itself, by visiting all states."""
        x = binary_states(len(self.bias), self.bias.dtype)
        share = jax.nn.softmax(-self.energy(x))
        return PairMoments(share @ x, (x * share[:, None]).T @ x)

    def log_likelihood_gradient(self, data: Any) -> PairMoments:
        """PairMoments of the data minus moments of the machine: the slopes of the mean log-likelihood.

        `mean` is the slope in the biases; `together` that in the coupling of each pair, J_ij and J_ji being one number,
        with zeros on the diagonal.
        """
        check_binary("BoltzmannMachine.log_likelihood_gradient", data)
        x, own = jnp.asarray(data, self.bias.dtype), self.moments()
        together = x.T @ x / len(x) - own.together
        return PairMoments(x.mean(axis=0) - own.mean, together * (1 - jnp.eye(len(self.bias), dtype=x.dtype)))

    def sample(
        self,
        key: Key,
        *,
        chains: int = 16,
        draws: int = 1000,
        burn_in: int = 100,
        thin: int = 1,
        warn: bool = True,
    ) -> MCMCResult:
        """Chains of Gibbs sampling from random states: one unit after the other is drawn given all others."""
        begin, walk = jax.random.split(key)
        start = jax.random.bernoulli(begin, 0.5, (chains, len(self.bias))).astype(jnp.int32)
        conditionals = [UnitConditional(self, unit) for unit in range(len(self.bias))]
        return gibbs(conditionals, start, walk, draws=draws, burn_in=burn_in, thin=thin, warn=warn)


def _check(couplings: Array, bias: Array) -> None:
    if bias.ndim != 1 or couplings.shape != (len(bias), len(bias)):
        raise ArgumentError(
            f"BoltzmannMachine: couplings of shape {couplings.shape} and bias of shape {bias.shape}; n units need "
            "(n, n) and (n,)"
        )
    if isinstance(couplings, jax.core.Tracer):
        return
    j = np.asarray(couplings)
    for row, column in np.argwhere(j != j.T)[:1]:
        raise ArgumentError(
            f"BoltzmannMachine: couplings are not symmetric: entry ({row}, {column}) is {j[row, column]:g}, ({column}, "
            f"{row}) is {j[column, row]:g}",
            remedy="use (J + J.T) / 2, which has the same energies",
        )
    for unit in np.flatnonzero(np.diag(j))[:1]:
        raise ArgumentError(
            f"BoltzmannMachine: unit {unit} has the coupling {j[unit, unit]:g} with itself; the diagonal is zero",
            remedy="add half of the diagonal to the bias: x² is x for zeros and ones",
        )


__all__ = ["BoltzmannMachine", "PairMoments", "UnitConditional"]
