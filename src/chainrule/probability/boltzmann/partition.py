"""The normalisation of a restricted Boltzmann machine by annealed importance sampling.

Chains go from a machine without couplings, whose normalisation is known, to the one that is meant, and their weights
estimate the ratio of the two (Salakhutdinov and Murray, 2008). Hidden units are summed out in the weights. The estimate
of Z is right on average, that of log Z therefore too low on average: likelihoods come out too high rather than too low,
and by how much no chain can tell that has missed a mode.
"""

import math
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.types import Array, Float, Key
from chainrule.probability.boltzmann.restricted import RestrictedBoltzmannMachine
from chainrule.probability.monte_carlo.annealed import annealed_chains
from chainrule.probability.monte_carlo.importance import WeightReport, weight_report


@final
class PartitionEstimate(NamedTuple):
    """log Z from the weights of many chains."""

    value: float
    standard_error: float
    """Of the chains that were drawn; it knows nothing of what all of them missed."""
    weights: WeightReport


def annealed_log_partition(
    machine: RestrictedBoltzmannMachine,
    key: Key,
    *,
    base: Any = None,
    chains: int = 100,
    steps: int = 1000,
    warn: bool = True,
) -> PartitionEstimate:
    """log Z and its standard error from `chains` chains of `steps` sweeps each.

    `base` is the visible bias of the machine they start from: log-odds of the data's means, or these means where units
    are numbers, make a good start; unless given, it is the bias of the machine itself.
    """
    chains = whole("annealed_log_partition", "chains", chains, least=2)
    begin = machine.visible_bias if base is None else jnp.asarray(base, machine.weights.dtype)
    found = weight_report(_weights(machine, begin, key, chains, steps), warn=warn)
    start = machine.between(begin, 0.0)
    nowhere = jnp.zeros(machine.weights.shape[1], machine.weights.dtype)
    known = float(start.log_mass(nowhere)) + machine.weights.shape[1] * math.log(2)
    return PartitionEstimate(known + float(found.log_mean), float(found.standard_error), found)


@eqx.filter_jit
def _weights(
    machine: RestrictedBoltzmannMachine, base: Float[Array, " visible"], key: Key, chains: int, steps: int
) -> Float[Array, " chains"]:
    for_start, for_moves = jax.random.split(key)
    nowhere = jnp.zeros((chains, machine.weights.shape[1]), machine.weights.dtype)
    start = machine.between(base, 0.0).draw_visible(for_start, nowhere)

    def gain(v: Array, before: Array, after: Array) -> Array:
        return machine.between(base, before).free_energy(v) - machine.between(base, after).free_energy(v)

    def move(key: Key, v: Array, b: Array) -> Array:
        here = machine.between(base, b)
        up, down = jax.random.split(key)
        return here.draw_visible(down, here.draw_hidden(up, v))

    return annealed_chains(start, gain, move, for_moves, steps=steps).log_weights


__all__ = ["PartitionEstimate", "annealed_log_partition"]
