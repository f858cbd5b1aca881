"""Rate and distortion over the weight of the rate: one model trained on from weight to weight."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data.dataset import Data
from chainrule.explain.methods.training import train
from chainrule.models.protocol import HasRateWeight, Model
from chainrule.train.evaluation import over


class RateDistortion(NamedTuple):
    """Means over held-out examples, in nats, for each weight."""

    betas: np.ndarray
    rates: np.ndarray
    distortions: np.ndarray
    errors: np.ndarray
    """Standard errors of the sum of both."""
    models: Sequence[Model]
    """The trained models."""


def rd_sweep(
    model: Model, data: Data, betas: Sequence[float], *, steps: int = 1000, **settings: Any
) -> RateDistortion:
    """Rate and distortion of a model trained with each weight of the rate, smallest first, each from the one before.

    `settings` are those of training. A small weight buys a low distortion with a high rate; the bound, their sum, is
    best near a weight of one. The sum is never below the entropy of the data, so no curve passes below such a line
    (Alemi et al., 2018).
    """
    if not isinstance(model, HasRateWeight):
        raise CapabilityError("rd_sweep: this model has no weight of its rate", remedy="use a vae or a cvae")
    if not betas or min(betas) < 0:
        raise ArgumentError(f"betas={list(betas)}: give at least one weight, none below 0")
    part, _ = data.held_out()
    rates, distortions, errors, models = [], [], [], []
    for beta in sorted(betas):
        found = train(model.with_beta(beta), data, steps=steps, every=steps, **settings).model
        assert isinstance(found, HasRateWeight)
        rate, distortion = over(
            f"beta {beta:g}",
            lambda model, batch, key: model.rate_and_distortion(batch, key),
            *(eqx.nn.inference_mode(found), part, random.key(0, "rate and distortion")),
        )
        nats = data.nats(-distortion)
        rates.append(float(np.mean(rate)))
        distortions.append(float(np.mean(nats)))
        errors.append(float(np.std(rate + nats) / np.sqrt(len(part))))
        models.append(found)
        model = found
    return RateDistortion(
        np.sort(np.asarray(betas, float)), np.array(rates), np.array(distortions), np.array(errors), models
    )


__all__ = ["RateDistortion", "rd_sweep"]
