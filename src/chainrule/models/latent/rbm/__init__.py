"""Restricted Boltzmann machine."""

from chainrule.models.latent.rbm.model import (
    RBM,
    CountedGaussianRBM,
    CountedRBM,
    EstimatedRBM,
    RBMConfig,
    build,
)
from chainrule.models.protocol import Entry

entry = Entry(
    name="rbm",
    summary="Restricted Boltzmann machine: an energy over visible and hidden units, learned from Gibbs chains.",
    config=RBMConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "labels", "value", "none"),
    data="binary-digits",
    toy={"hidden": 8, "chains": 16},
    toy_data="binary-digits",
    citation="Hinton, Training products of experts by minimizing contrastive divergence, Neural Computation 2002",
    training={
        "batch": 100,
        "ema": 0.99,
        "optimizer": {"name": "adamw", "lr": 2e-2, "decay": 0.0},
        "schedule": {"name": "linear"},
    },
    surrogate_gradient="the likelihood has no value to follow, only a gradient: data minus model statistics",
)

__all__ = ["RBM", "CountedGaussianRBM", "CountedRBM", "EstimatedRBM", "RBMConfig", "build", "entry"]
