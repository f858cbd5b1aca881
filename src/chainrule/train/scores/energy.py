"""Models known up to a factor: free energies, which need none, and the likelihood by an estimate of it.

Importance sampling gets Z right on average, and log Z therefore too low: the negative log-likelihood comes out too low
on average, unlike the estimates of models with a code, which err to the other side.
"""

import math
from typing import Any

import numpy as np

from chainrule.core import random
from chainrule.core.types import Array, Key
from chainrule.data.batches import Batch
from chainrule.data.splits import Split, Subset
from chainrule.models.protocol import HasEnergy, HasLogProb
from chainrule.networks import units
from chainrule.train.evaluation import over
from chainrule.train.scores.exact_likelihood import likelihood
from chainrule.train.scoring import Evaluation, Metric, Score, mean

_SEEN = 2048
"""Training examples, drawn at random, that stand for all."""


def _free_energies(evaluation: Evaluation, split: Split) -> np.ndarray:
    schema = evaluation.data.schema
    model = evaluation.model
    assert isinstance(model, HasEnergy), "ask what applies first"
    noisy = bool(schema.levels) and model.is_density

    def free_energy(model: Any, batch: Batch, key: Key) -> Array:
        return model.free_energy(units.dequantized(schema, batch.x, key) if noisy else batch.x)

    return np.asarray(over("free energy", free_energy, model, split, evaluation.key), np.float64)


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    model, train = evaluation.model, evaluation.data.train
    assert isinstance(model, HasEnergy), "ask what applies first"
    energy = _free_energies(evaluation, evaluation.split)
    found = {"free_energy": mean(energy, "nats, up to log Z")}
    if len(train):
        seen = Subset.drawn(train, min(len(train), len(evaluation.split), _SEEN))
        known = _free_energies(evaluation, seen)
        error = math.hypot(*(values.std() / math.sqrt(len(values)) for values in (energy, known)))
        found["free_energy_gap"] = Metric(float(energy.mean() - known.mean()), "nats above training", error)
    if isinstance(model, HasLogProb):
        return found
    partition = model.log_partition(random.named(evaluation.key, "partition"))
    dequantised = ", dequantised" if evaluation.data.schema.levels and model.is_density else ""
    kind = f"estimate by {partition.method}{dequantised}"
    # Where one chain holds all weight, nothing is known of the error.
    sure = partition.standard_error if math.isfinite(partition.standard_error) else None
    estimates = likelihood(-energy - partition.value, evaluation.data, kind)
    return (
        found
        | {f"{name}_estimate": value for name, value in estimates.items()}
        | ({} if sure is None else {"nll_estimate_error": Metric(sure, "nats, of log Z")})
        | {
            "log_partition": Metric(
                partition.value,
                "nats",
                sure,
                "estimate, low on average" + (", one chain holds all weight" if sure is None else ""),
            ),
            "effective_chains": Metric(partition.effective, "of the chains"),
        }
    )


score = Score(
    "Free energies, and the likelihood by an estimate of its factor.",
    lambda evaluation: isinstance(evaluation.model, HasEnergy),
    _measure,
    order=22,
)

__all__ = ["score"]
