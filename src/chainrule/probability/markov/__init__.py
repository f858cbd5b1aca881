"""Markov chains: finite ones exactly, functions of them, chains of higher order, hidden ones, general kernels."""

from chainrule.probability.markov.checks import transition_matrix
from chainrule.probability.markov.finite import (
    FittedChain,
    Reversal,
    distributions,
    fit,
    log_prob,
    reverse,
    sample,
)
from chainrule.probability.markov.hidden import BaumWelchTrace, HiddenMarkov, HiddenPath
from chainrule.probability.markov.kernels import (
    AR1,
    FunctionKernel,
    GaussianWalk,
    HasDistributionAfter,
    SimpleWalk,
    TransitionKernel,
    ornstein_uhlenbeck,
)
from chainrule.probability.markov.lifting import LiftedChain, lift
from chainrule.probability.markov.lumping import Lumpability, LumpingWitness, is_lumpable, next_symbol
from chainrule.probability.markov.observations import pad
from chainrule.probability.markov.structure import (
    CommunicatingClass,
    NotUniqueError,
    Reversibility,
    classes,
    is_reversible,
    period,
    stationary,
    stationary_basis,
)
from chainrule.probability.markov.times import Absorption, Hitting, absorption, hitting, mixing

__all__ = [
    "AR1",
    "Absorption",
    "BaumWelchTrace",
    "CommunicatingClass",
    "FittedChain",
    "FunctionKernel",
    "GaussianWalk",
    "HasDistributionAfter",
    "HiddenMarkov",
    "HiddenPath",
    "Hitting",
    "LiftedChain",
    "Lumpability",
    "LumpingWitness",
    "NotUniqueError",
    "Reversal",
    "Reversibility",
    "SimpleWalk",
    "TransitionKernel",
    "absorption",
    "classes",
    "distributions",
    "fit",
    "hitting",
    "is_lumpable",
    "is_reversible",
    "lift",
    "log_prob",
    "mixing",
    "next_symbol",
    "ornstein_uhlenbeck",
    "pad",
    "period",
    "reverse",
    "sample",
    "stationary",
    "stationary_basis",
    "transition_matrix",
]
