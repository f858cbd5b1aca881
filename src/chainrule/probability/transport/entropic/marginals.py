"""How strictly a plan keeps the given weights, as a map of potentials.

A Sinkhorn step gives the potential that keeps the weights exactly. Where mass may appear and disappear at a price, the
potential is brought nearer to zero: by a factor when the price is a Kullback-Leibler divergence, by clipping when it is
the mass itself (partial transport).

Reference: Chizat, Peyré, Schmitzer and Vialard, Scaling algorithms for unbalanced optimal transport problems, 2018.
"""

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Scalar


class MarginalPrice(eqx.Module):
    """What becomes of a potential that keeps the weights, and the term of the dual problem that belongs to it."""

    @abc.abstractmethod
    def damped(self, potential: Float[Array, " points"], eps: Scalar) -> Float[Array, " points"]:
        """The potential that is best under this price of mass, given the one that keeps the weights."""

    @abc.abstractmethod
    def gain(self, weights: Float[Array, " points"], potential: Float[Array, " points"]) -> Scalar:
        """The linear part of the dual problem: `weights · potential` where weights are kept."""

    @abc.abstractmethod
    def slope(self, eps: Scalar) -> Scalar | float:
        """By how much a damped potential moves with the undamped one."""


@final
class Balanced(MarginalPrice):
    """Weights are kept."""

    def damped(self, potential: Float[Array, " points"], eps: Scalar) -> Float[Array, " points"]:
        """As it is."""
        del eps
        return potential

    def gain(self, weights: Float[Array, " points"], potential: Float[Array, " points"]) -> Scalar:
        """The mean potential."""
        return weights @ potential

    def slope(self, eps: Scalar) -> Scalar | float:
        """One."""
        del eps
        return 1.0


@final
class Relaxed(MarginalPrice):
    """Mass that appears or disappears costs `rho` times the Kullback-Leibler divergence of what the plan has."""

    rho: Scalar

    def damped(self, potential: Float[Array, " points"], eps: Scalar) -> Float[Array, " points"]:
        """Nearer to zero by the factor rho / (rho + eps)."""
        return self.slope(eps) * potential

    def gain(self, weights: Float[Array, " points"], potential: Float[Array, " points"]) -> Scalar:
        """`rho weights · (1 - exp(-potential / rho))`."""
        return -self.rho * (weights @ jnp.expm1(-potential / self.rho))

    def slope(self, eps: Scalar) -> Scalar | float:
        """The factor."""
        return self.rho / (self.rho + eps)


@final
class Partial(MarginalPrice):
    """Mass that appears or disappears costs `rho` for each unit."""

    rho: Scalar

    def damped(self, potential: Float[Array, " points"], eps: Scalar) -> Float[Array, " points"]:
        """Between -rho and rho."""
        del eps
        return jnp.clip(potential, -self.rho, self.rho)

    def gain(self, weights: Float[Array, " points"], potential: Float[Array, " points"]) -> Scalar:
        """The mean potential: between the bounds the price is linear."""
        return weights @ potential

    def slope(self, eps: Scalar) -> Scalar | float:
        """One between the bounds; at them none, which potentials that are differentiated here never are told."""
        del eps
        return 1.0


__all__ = ["Balanced", "MarginalPrice", "Partial", "Relaxed"]
