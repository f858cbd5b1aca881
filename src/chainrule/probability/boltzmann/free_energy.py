"""The free energy of a distribution: `F(q) = E_q Energy - H(q) / b` at inverse temperature b.

It is never below `-log Z / b`, and equals it for the Boltzmann distribution `exp(-b Energy) / Z` alone. With
`p(x, z) = exp(-b Energy(x, z)) / Z` and x fixed, `F(q) = -(ELBO + log Z) / b`: the evidence lower bound in other units.
Mean field is the lowest free energy among distributions whose units are independent.
"""

from typing import Any

import jax
import jax.numpy as jnp

from chainrule.core.checks import check_same_shape, whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Float, Int, Scalar
from chainrule.probability.boltzmann.general import BoltzmannMachine


def free_energy(energies: Any, q: Any, beta: float = 1.0) -> Scalar:
    """`E_q Energy - H(q) / beta` of a distribution over finitely many states.

    >>> energies = jnp.array([0.0, 1.0])
    >>> round(float(free_energy(energies, jax.nn.softmax(-energies))), 6)  # -log Z
    -0.313262
    >>> float(free_energy(energies, jnp.array([0.5, 0.5]))) > -0.313262
    True
    """
    values, shares = jnp.asarray(energies, float), jnp.asarray(q, float)
    check_same_shape("free_energy", "energies", values, "q", shares)
    _check_beta("free_energy", beta)
    return shares @ values - jax.scipy.special.entr(shares).sum() / beta


def mean_field_free_energy(
    machine: BoltzmannMachine, means: Float[Array, " units"], beta: float = 1.0
) -> Scalar:
    """The free energy of independent units that are one with these probabilities; no sum over states is needed."""
    _check_beta("mean_field_free_energy", beta)
    entropy = jax.scipy.special.entr(means) + jax.scipy.special.entr(1 - means)
    return machine.energy(means) - entropy.sum() / beta


def mean_field(
    machine: BoltzmannMachine, beta: float = 1.0, sweeps: int = 100, start: Any = None
) -> Float[Array, " units"]:
    """Means of independent units whose free energy is a local minimum: `m_i = sigmoid(beta (J_i m + b_i))` in turn.

    Each update is the best for its unit given the others, so that the free energy never rises. Where there are several
    minima, the `start` decides; unless given, all means begin at one half.
    """
    _check_beta("mean_field", beta)
    sweeps = whole("mean_field", "sweeps", sweeps)
    units = len(machine.bias)
    begun = (
        jnp.full(units, 0.5, machine.bias.dtype) if start is None else jnp.asarray(start, machine.bias.dtype)
    )

    def update(number: Int[Array, ""], means: Array) -> Array:
        unit = number % units
        return means.at[unit].set(
            jax.nn.sigmoid(beta * (machine.couplings[unit] @ means + machine.bias[unit]))
        )

    return jax.lax.fori_loop(0, sweeps * units, update, begun)


def _check_beta(where: str, beta: Any) -> None:
    if not isinstance(beta, jax.core.Tracer) and not beta > 0:
        raise ArgumentError(f"{where}(beta={beta:g}): the inverse temperature must be above zero")


__all__ = ["free_energy", "mean_field", "mean_field_free_energy"]
