"""Exact likelihood: nats per example of the original data and, where these have levels, bits per dimension."""

from typing import Any

import numpy as np

from chainrule.core.types import Array, Key
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.generated.known_entropy import entropy_of
from chainrule.data.schema import Schema
from chainrule.models.protocol import HasConditionalDensity, HasDensity, HasLogProb, Model
from chainrule.networks import units
from chainrule.networks.flows.dequantization import dequantized_bound
from chainrule.train.evaluation import over
from chainrule.train.scores import documents, text
from chainrule.train.scoring import Evaluation, Metric, Score, mean


def likelihood(log_prob: np.ndarray, data: Data, kind: str = "exact") -> dict[str, Metric]:
    """Mean negative log-likelihood in nats per example of the original data and, of levels, in bits per dimension.

    The density of continuous data has no bits per dimension: they would change with the unit of measurement. Where bits
    of the data were dropped, the unit says how many levels are left. `kind` says whether the numbers are exact, a bound
    or an estimate.
    """
    found = {"nll": mean(data.nats(log_prob), "nats", kind)}
    if data.schema.levels:
        scale = f" of {data.schema.levels} levels" if data.source.get("bits") else ""
        found["bits_per_dim"] = mean(data.bits_per_dim(log_prob), f"bits/dim{scale}", kind)
    return found


def needs_noise(model: Model, schema: Schema) -> bool:
    """Whether a density is asked of values that lie apart, which noise has to fill."""
    return isinstance(model, HasDensity) and (bool(schema.levels) or model.gaps is not None)


def by_token(evaluation: Evaluation) -> bool:
    """Whether the likelihood is that of a text, told token by token."""
    return text.score.applies(evaluation) or documents.score.applies(evaluation)


def _applies(evaluation: Evaluation) -> bool:
    return isinstance(evaluation.model, HasLogProb) and not by_token(evaluation)


def _measure(evaluation: Evaluation) -> dict[str, Metric]:
    return _unconditional(evaluation) | _given(evaluation)


def _filled(model: Model, schema: Schema, batch: Batch, key: Key) -> Batch:
    """A batch with noise in the gaps between its values, where there are any."""
    if not needs_noise(model, schema):
        return batch
    assert isinstance(model, HasDensity)
    return batch._replace(x=units.dequantized(schema, batch.x, key, model.gaps))


def _unconditional(evaluation: Evaluation) -> dict[str, Metric]:
    data, model = evaluation.data, evaluation.model

    def log_prob(model: Any, batch: Batch, key: Key) -> Array:
        return model.log_prob(_filled(model, data.schema, batch, key).x)

    found = over("likelihood", log_prob, model, evaluation.split, evaluation.key)
    if not needs_noise(model, data.schema):
        return likelihood(found, data) | _above_the_entropy(found, data)
    # The mean over the noise of a logarithm is no more than the logarithm of the mean, the probability of the level.
    bounds = _dequantised(found, data, "bound")
    draws = evaluation.k or 1
    if draws == 1:
        return bounds

    def weighted(model: Any, batch: Batch, key: Key) -> Array:
        return dequantized_bound(model.log_prob, data.schema, batch.x, key, draws, model.gaps)

    tighter = over("likelihood by more noise", weighted, model, evaluation.split, evaluation.key)
    return bounds | _dequantised(tighter, data, "weighted_bound", f", k={draws:,} draws of noise")


def _above_the_entropy(log_prob: np.ndarray, data: Data) -> dict[str, Metric]:
    """KL(data, model), of data whose distribution is known: below zero by more than its error, a density is wrong."""
    entropy = entropy_of(data.source)
    if entropy is None:
        return {}
    return {
        "kl_from_data": mean(data.nats(log_prob) - entropy, "nats above the entropy of the data", "exact")
    }


def _given(evaluation: Evaluation) -> dict[str, Metric]:
    """The same given the target of each example, for a model that is told targets and examples that have any."""
    data, model, split = evaluation.data, evaluation.model, evaluation.split
    conditional = isinstance(model, HasConditionalDensity) and model.conditional
    if not conditional or split.batch(np.arange(1)).y is None:
        return {}

    def log_prob(model: Any, batch: Batch, key: Key) -> Array:
        return model.log_prob_given(_filled(model, data.schema, batch, key))

    found = over("likelihood given targets", log_prob, model, split, evaluation.key)
    if needs_noise(model, data.schema):
        return _dequantised(found, data, "given_condition")
    return {f"{name}_given_condition": one for name, one in likelihood(found, data).items()}


def _dequantised(log_prob: np.ndarray, data: Data, name: str, more: str = "") -> dict[str, Metric]:
    found = likelihood(log_prob, data, f"bound, uniform dequantisation{more}")
    return {f"{what}_{name}": one for what, one in found.items()}


score = Score("The likelihood of the examples.", _applies, _measure, order=20)

__all__ = ["by_token", "likelihood", "needs_noise", "score"]
