"""Rate against distortion as the weight of the rate changes."""

from typing import final

import numpy as np
from pydantic import Field

from chainrule.core.formatting import measured
from chainrule.core.pictures import Lines, Table
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.rate_distortion import rd_sweep
from chainrule.explain.protocol import Count, NonNegative, Outcome, Probe, Settings
from chainrule.models.protocol import HasRateWeight, Model
from chainrule.train import Run


@final
class RateDistortionSettings(Settings):
    """The weights, and how long the model is trained with each."""

    betas: tuple[NonNegative, ...] = Field(
        (0.1, 0.5, 1, 2, 4, 10), min_length=1, description="weights of the rate"
    )
    steps: Count = Field(500, description="steps of training with each, from the model of the weight before")


def examine(run: Run, data: Data, settings: RateDistortionSettings) -> Outcome:
    """Train the model of the run on with every weight of its rate, and compare what both parts come to."""
    own = run.settings
    training = {"batch": own.batch, "optimizer": own.optimizer.model_dump(), "ema": own.ema}
    found = rd_sweep(run.model, data, settings.betas, steps=settings.steps, **training)
    total = found.rates + found.distortions
    best = int(total.argmin())
    order = np.argsort(found.rates)
    ends = np.array([0.0, found.rates.max()])
    picture = Lines(
        "rate-distortion",
        "What a code buys",
        "rate in nats",
        "distortion in nats",
        {
            "trained": (found.rates[order], found.distortions[order]),
            f"bound of {total[best]:.4g} nats": (ends, total[best] - ends),
        },
        marks=[(float(rate), f"β {beta:g}") for beta, rate in zip(found.betas, found.rates, strict=True)],
        caption="Marks are weights of the rate. On the straight line the sum of both, the bound of the negative "
        "log-likelihood, is the lowest that was found.",
    )
    rows = [
        [f"{beta:g}", rate, distortion, measured(float(both), float(error))]
        for beta, rate, distortion, both, error in zip(
            found.betas, found.rates, found.distortions, total, found.errors, strict=True
        )
    ]
    table = Table(
        "rate-distortion", "By the weight of the rate", ["beta", "rate", "distortion", "bound"], rows
    )
    few, many = found.rates.argmin(), found.rates.argmax()
    return Outcome(
        [
            f"The bound is lowest, {total[best]:.4g} nats, with beta {found.betas[best]:g}.",
            f"Between beta {found.betas[many]:g} and {found.betas[few]:g} the rate falls from {found.rates[many]:.4g} "
            f"to {found.rates[few]:.4g} nats, and the distortion rises from {found.distortions[many]:.4g} to "
            f"{found.distortions[few]:.4g}.",
        ],
        [picture],
        table,
        {
            "betas": found.betas.tolist(),
            "rate": found.rates.tolist(),
            "distortion": found.distortions.tolist(),
            "stderr": found.errors.tolist(),
        },
    )


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, HasRateWeight)


probe = Probe(
    "Rate and distortion as the weight of the rate changes: what a code buys.",
    "a variational auto-encoder with a weight of its rate",
    _applies,
    examine,
    RateDistortionSettings,
    toy={"betas": (0.1, 10.0), "steps": 3},
)

__all__ = ["RateDistortionSettings", "examine", "probe"]
