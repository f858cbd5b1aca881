"""Surprisal of held-out tokens or steps of series, one by one: given the past, and with time order ignored."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Int
from chainrule.data.batches import predicted
from chainrule.data.dataset import Data
from chainrule.data.splits import Split
from chainrule.data.text.packing import Packed
from chainrule.data.text.windows import Windows, counts
from chainrule.information.sequence_rates import symbol_surprisal, value_surprisal
from chainrule.models.protocol import CanPack, HasStepDensity, HasSurprisal, Model
from chainrule.train.surprisal import window_spans

_AT_ONCE = 64
_PAST = 20_000
"""Training samples that the density of single values is found from, at most."""


class StepSurprisal(NamedTuple):
    """Nats of each sample in order, and the samples."""

    predictive: Float[np.ndarray, " samples"]
    unordered: Float[np.ndarray, " samples"]
    tokens: Int[np.ndarray, " samples"] | None
    """Of texts."""
    values: Float[np.ndarray, " samples"] | None
    """Of series: the first number of each step, in the units of the model."""
    block: int | None
    """Samples that belong together, where the data say so."""


def step_surprisal(model: Model, data: Data, split: Split, most: int) -> StepSurprisal:
    """Of the first samples of a split, at most so many."""
    if isinstance(model, HasStepDensity):
        return _of_series(model, data, split, most)
    assert isinstance(model, HasSurprisal), "ask what applies first"
    if isinstance(split, Packed):
        tokens, nats = _of_documents(model, split, most)
    else:
        assert isinstance(split, Windows), "a text that predicts itself is cut into windows"
        tokens, nats = _of_text(model, split, most)
    known = counts(data.train.arrays["tokens"], len(data.schema.tokens))
    return StepSurprisal(nats, symbol_surprisal(tokens, known), tokens, None, None)


def _of_text(model: HasSurprisal, split: Windows, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Windows that end half a window apart: every token but the first is predicted once, most from a long past."""
    text = np.asarray(split.arrays["tokens"][: most + 1]).astype(np.int32)
    length = min(split.length, len(text) - 1)
    starts, judged = window_spans(len(text), length, max(1, length // 2))
    size = min(_AT_ONCE, len(starts))
    nats = []
    for first in range(0, len(starts), size):
        chosen = np.resize(starts[first : first + size], size)  # the last batch is filled up, so that it fits
        x = text[chosen[:, None] + np.arange(length + 1)[None]]
        nats.append(np.asarray(_nats(model, jnp.asarray(x)), np.float64))
    every = np.concatenate(nats)[: len(starts)]
    kept = np.arange(length)[None] >= length - judged[:, None]
    return text[1:], every[kept]


def _of_documents(model: Any, split: Packed, most: int) -> tuple[np.ndarray, np.ndarray]:
    assert isinstance(model, CanPack), "documents are packed for models that can read them so"
    rows = min(len(split), max(1, most // split.length))
    size = min(_AT_ONCE, rows)
    tokens, nats = [], []
    for first in range(0, rows, size):
        chosen = np.resize(np.arange(first, min(first + size, rows)), size)
        batch = split.batch(chosen)
        found = np.asarray(
            _packed_nats(model, jnp.asarray(batch.x), jnp.asarray(batch.documents)), np.float64
        )
        real = min(size, rows - first)
        asked = predicted(batch.documents)[:real]
        tokens.append(np.asarray(batch.x)[:real, 1:][asked])
        nats.append(found[:real][asked])
    return np.concatenate(tokens), np.concatenate(nats)


def _of_series(model: HasStepDensity, data: Data, split: Split, most: int) -> StepSurprisal:
    steps = data.schema.shape[0]
    apart = split.apart
    rows = np.arange(min(len(apart), max(1, most // steps)))
    x = np.asarray(apart.batch(rows).x, np.float32)
    nats = np.concatenate(
        [
            np.asarray(_anomaly(model, jnp.asarray(x[first : first + _AT_ONCE])), np.float64)
            for first in range(0, len(x), _AT_ONCE)
        ]
    )
    scored = nats.shape[1]
    values = x[:, steps - scored :].reshape(-1, x.shape[-1])
    train = data.train.apart
    past = np.unique(np.linspace(0, len(train) - 1, min(len(train), max(1, _PAST // steps))).astype(int))
    others = np.asarray(train.batch(past).x, np.float64).reshape(-1, x.shape[-1])
    unordered = value_surprisal(values, others)
    return StepSurprisal(nats.ravel(), unordered, None, values[:, 0].astype(np.float64), scored)


@eqx.filter_jit
def _nats(model: HasSurprisal, x: Array) -> Array:
    return model.surprisal(x)


@eqx.filter_jit
def _packed_nats(model: CanPack, x: Array, documents: Array) -> Array:
    return model.packed_surprisal(x, documents)


@eqx.filter_jit
def _anomaly(model: HasStepDensity, x: Array) -> Array:
    return model.anomaly(x)


__all__ = ["StepSurprisal", "step_surprisal"]
