"""Boltzmann machines: distributions of binary units by their energy, and what it takes to normalise and learn them."""

from chainrule.probability.boltzmann.free_energy import free_energy, mean_field, mean_field_free_energy
from chainrule.probability.boltzmann.general import BoltzmannMachine, PairMoments
from chainrule.probability.boltzmann.partition import PartitionEstimate, annealed_log_partition
from chainrule.probability.boltzmann.restricted import (
    BinaryRBM,
    GaussianRBM,
    RestrictedBoltzmannMachine,
    contrastive_loss,
)
from chainrule.probability.boltzmann.states import (
    MOST_UNITS,
    binary_states,
    check_binary,
    log_sum_over_states,
)

__all__ = [
    "MOST_UNITS",
    "BinaryRBM",
    "BoltzmannMachine",
    "GaussianRBM",
    "PairMoments",
    "PartitionEstimate",
    "RestrictedBoltzmannMachine",
    "annealed_log_partition",
    "binary_states",
    "check_binary",
    "contrastive_loss",
    "free_energy",
    "log_sum_over_states",
    "mean_field",
    "mean_field_free_energy",
]
