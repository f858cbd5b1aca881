"""Bound of the likelihood, and what it is made of."""

import math
from typing import Any

import numpy as np

from chainrule.core.types import Array, Key
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.splits import Split
from chainrule.models.protocol import HasBound, HasBoundParts, HasImportanceBound, HasLogProb
from chainrule.networks.flows.dequantization import weighted_bound
from chainrule.train.evaluation import over
from chainrule.train.scores.exact_likelihood import by_token, likelihood
from chainrule.train.scoring import Evaluation, Metric, Score, mean


def bound(model: HasBound, split: Split, key: Key, data: Data) -> dict[str, Metric]:
    """The bound of the likelihood as in `likelihood`, and what it is made of where the model says so.

    The parts add up to the bound: nats of the original data, bits per dimension where these have levels.
    """
    if not isinstance(model, HasBoundParts):
        elbo = over("bound", lambda model, batch, key: model.elbo(batch.x, key), model, split, key)
        return _named(elbo, data, model)
    found = over("bound", lambda model, batch, key: model.bound(batch, key), model, split, key)
    nats = {name: np.asarray(part, np.float64) for name, part in found.parts.items()}
    nats["reconstruction"] = data.nats(found.elbo) - sum(nats.values())
    nats |= {f"given_{name}": data.nats(log_density) for name, log_density in found.given.items()}
    scale, unit = (
        (data.schema.dimensions * math.log(2.0), "bits/dim") if data.schema.levels else (1.0, "nats")
    )
    return _named(found.elbo, data, model) | {
        f"bound_{name}": mean(values / scale, unit) for name, values in sorted(nats.items())
    }


def _named(elbo: np.ndarray, data: Data, model: HasBound) -> dict[str, Metric]:
    kind = f"bound, {model.likelihood_note}" if model.likelihood_note else "bound"
    return {f"{name}_bound": value for name, value in likelihood(elbo, data, kind).items()}


def _applies(evaluation: Evaluation) -> bool:
    known = isinstance(evaluation.model, HasLogProb) or by_token(evaluation)
    return isinstance(evaluation.model, HasBound) and not known


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    assert isinstance(evaluation.model, HasBound), "ask what applies first"
    model, split, key, data = evaluation.model, evaluation.split, evaluation.key, evaluation.data
    found = bound(model, split, key, data)
    draws = evaluation.k or 1
    if draws == 1 or not isinstance(model, HasImportanceBound):
        return found

    def weighted(model: Any, batch: Batch, key: Key) -> Array:
        return weighted_bound(lambda one: model.elbo(batch.x, one), key, draws)

    tighter = over("bound by more draws", weighted, model, split, key)
    kind = ", ".join(filter(None, ["bound", model.likelihood_note, f"k={draws:,} draws of noise"]))
    return found | {
        f"{name}_weighted_bound": value for name, value in likelihood(tighter, data, kind).items()
    }


score = Score("A bound of the likelihood.", _applies, _measure, order=20, costly=lambda evaluation: True)

__all__ = ["bound", "score"]
