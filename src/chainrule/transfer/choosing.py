"""Choosing a model for the target without its targets: what validation examples of the source can tell, and what not.

The error on source examples says nothing of the target. Weighted by how much likelier each is in the target it is an
unbiased estimate of the target's error, as noisy as the weights are uneven. Reverse validation goes the other way:
a classifier learns the answers a model gives for the target, and is judged on the source, whose truth is known.

References: Sugiyama, Krauledat and Müller, Covariate shift adaptation by importance weighted cross validation, 2007;
Zhong, Fan, Yang, Verscheure and Ren, Cross validation framework to choose amongst models and datasets for transfer
learning, 2010.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.data.dataset import Data
from chainrule.data.splits import Rows
from chainrule.models.protocol import CanPredict, Model
from chainrule.transfer.adaptation import accuracy_of, train_seeds
from chainrule.transfer.importance import importance_weights

METHODS = ("source", "weighted", "reverse")


class DomainChoice(NamedTuple):
    """The model that was chosen, and why."""

    best: int
    """The position of it among the candidates."""
    errors: np.ndarray
    """The estimated error of each candidate."""
    method: str


def choose(
    candidates: Sequence[Model],
    data: Data,
    method: str = "weighted",
    *,
    seed: int = 0,
    network: str = "mlp",
    settings: Mapping[str, Any] | None = None,
    **training: Any,
) -> DomainChoice:
    """The candidate with the least estimated error on the other domain of `data`; targets of that domain are not used.

    `source` is the error on validation examples of the source, `weighted` the same with importance weights, `reverse`
    that on the source of a `network` that has learned a candidate's answers for the target.
    """
    check_choice("choose", "method", method, METHODS)
    if data.other is None or not candidates:
        raise ArgumentError(
            "choose: candidates and data with another domain are needed", remedy="see data.with_target"
        )
    val, other = data.val, data.other.train
    truth = np.asarray(val.y)
    if method == "reverse":
        errors = [_reverse(one, data, network, dict(settings or {}), training) for one in candidates]
        return DomainChoice(int(np.argmin(errors)), np.array(errors), method)
    weights = np.ones(len(truth))
    if method == "weighted":
        flat = [np.asarray(part.x, np.float64).reshape(len(part), -1) for part in (val, other)]
        weights = importance_weights(flat[0], flat[1], seed=seed).values
    wrong = [_answers(one, val.x) != truth for one in candidates]
    errors = [float((weights * miss).mean()) for miss in wrong]
    return DomainChoice(int(np.argmin(errors)), np.array(errors), method)


def _answers(model: Model, x: Any) -> np.ndarray:
    assert isinstance(model, CanPredict), "classifiers are compared"
    return np.asarray(model.predict(jnp.asarray(x))).argmax(axis=1)


def _reverse(
    model: Model, data: Data, network: str, settings: Mapping[str, Any], training: Mapping[str, Any]
) -> float:
    assert data.other is not None, "checked"
    x = np.asarray(data.other.train.x)
    taught = Rows({"x": x, "y": _answers(model, x).astype(np.int32)})
    (pupil,) = train_seeds(network, replace(data, other=None, labels=0, train=taught), 1, settings, training)
    return 1 - accuracy_of(pupil, data.val)


__all__ = ["DomainChoice", "choose"]
