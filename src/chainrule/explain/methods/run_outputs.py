"""Outputs of trained models as functions of raw examples: what is explained, asked for by name.

An explanation is of one number. What numbers a model has depends on what it can do: logits, log-odds and probabilities
of classes, values in their own units, the variance of a prediction, the log-likelihood of the example itself. Each is
one entry of a table here, and `RunOutput` is a function of examples in raw units, as every method that takes a function
of one's own expects. `out=logit:cat` names a number as the command line and Python do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Num

from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError, suggest
from chainrule.core.types import Array, Float, Key
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol import (
    CanPredict,
    HasBound,
    HasLogits,
    HasLogProb,
    HasPredictiveDistribution,
    Model,
)
from chainrule.networks import units
from chainrule.train import Run
from chainrule.train.scores.exact_likelihood import needs_noise

Read: TypeAlias = Callable[[Any, Array, Schema], Array]
"""From a model and examples in model units to outputs (batch, outputs), in model units too."""


def _logits(model: HasLogits, x: Array, schema: Schema) -> Array:
    del schema
    return model.logits(x)


def _log_odds(model: CanPredict, x: Array, schema: Schema) -> Array:
    """log p - log (1 - p): for one class of several, what is left of the softmax's arbitrary offset is gone."""
    if targets.of(schema).has_labels:
        p = model.predict(x)
        return model.logits(x) if isinstance(model, HasLogits) else jnp.log(p) - jnp.log1p(-p)
    if isinstance(model, HasLogits):
        scores = model.logits(x)
    else:
        p = model.predict(x)
        scores = jnp.log(jnp.maximum(p, jnp.finfo(p.dtype).tiny))
    others = jnp.where(jnp.eye(scores.shape[-1], dtype=bool)[None], -jnp.inf, scores[:, None, :])
    return scores - jax.nn.logsumexp(others, axis=-1)


def _probabilities(model: CanPredict, x: Array, schema: Schema) -> Array:
    del schema
    return model.predict(x)


def _values(model: CanPredict, x: Array, schema: Schema) -> Array:
    del schema
    found = model.predict(x)
    return found.reshape(len(found), -1)


def _variances(model: HasPredictiveDistribution, x: Array, schema: Schema) -> Array:
    del schema
    found = model.predictive(x).variance
    return found.reshape(len(found), -1)


def _log_likelihood(model: Any, x: Array, schema: Schema) -> Array:
    """Exact where it is known; otherwise a bound, or one of dequantised values, by the same noise for every example.

    Common noise makes it a function of the example alone, so that differences are due to features. Numbers outside of
    the range of data that have one are judged at its edge: there is no density beyond.
    """
    key = random.key(0, "explained likelihood")
    x = jnp.clip(x, 0, 1) if units.unit(schema) else x
    if not isinstance(model, HasLogProb):
        return jax.vmap(lambda one: model.elbo(one[None], key)[0])(x)[:, None]
    if needs_noise(model, schema):
        x = jax.vmap(lambda one: _filled(model, schema, one, key))(x)
    return model.log_prob(x)[:, None]


def _filled(model: Any, schema: Schema, one: Array, key: Key) -> Array:
    return units.dequantized(schema, one[None], key, model.gaps)[0]


@final
@dataclass(frozen=True)
class _Number:
    """One kind of number: which models have it, how it is read, and its unit."""

    has: Callable[[Model, Schema], bool]
    read: Read
    of_target: bool
    """Whether there is one for each output of the target, in the target's units."""
    unit: str
    power: int = 0
    """By which power of the target's factor model units become raw ones."""


def _of_classes(model: Model, schema: Schema) -> bool:
    target = targets.of(schema)
    return isinstance(model, CanPredict) and (target.one_class or target.has_labels)


def _of_values(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanPredict) and targets.of(schema).has_values


def _likely(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasLogProb | HasBound) and not kinds.of(schema).has_tokens


_NUMBERS: Mapping[str, _Number] = {
    "logit": _Number(
        lambda model, schema: _of_classes(model, schema) and isinstance(model, HasLogits), _logits, True, ""
    ),
    "log-odds": _Number(
        lambda model, schema: _of_classes(model, schema) and targets.of(schema).outputs(schema) > 1,
        _log_odds,
        True,
        "nats",
    ),
    "probability": _Number(_of_classes, _probabilities, True, ""),
    "value": _Number(_of_values, _values, True, "", power=1),
    "variance": _Number(
        lambda model, schema: _of_values(model, schema) and isinstance(model, HasPredictiveDistribution),
        _variances,
        True,
        "",
        power=2,
    ),
    "log-likelihood": _Number(_likely, _log_likelihood, False, "nats"),
}
"""By the word of `out=`, the first that a model has is the default."""


@final
class RunOutput(eqx.Module):
    """Numbers of one kind of a trained model, for examples in raw units: (batch, ...) to (batch, outputs)."""

    model: Any
    shift: Num[Array, "1 *shape"]
    factor: Num[Array, "1 *shape"]
    out_shift: Float[Array, "1 outputs"]
    out_factor: Float[Array, "1 outputs"]
    read: Read = eqx.field(static=True)
    schema: Schema = eqx.field(static=True)
    kind: str = eqx.field(static=True)
    names: tuple[str, ...] = eqx.field(static=True)
    unit: str = eqx.field(static=True)

    def __call__(self, raw: Array) -> Float[Array, "batch outputs"]:
        """The numbers of a batch, in raw units where they have any."""
        return _traced_once(self, raw)

    def title(self, output: int) -> str:
        """What one of the numbers is called."""
        name = self.names[output]
        return f"{self.kind} of {name}" if name else self.kind


@eqx.filter_jit
def _traced_once(asked: RunOutput, raw: Array) -> Array:
    """A program by itself: methods look at a function dozens of times, and tracing a network takes long."""
    x = (raw - asked.shift) * asked.factor
    return asked.read(asked.model, x, asked.schema) / asked.out_factor + asked.out_shift


@final
@dataclass(frozen=True)
class Asked:
    """A function of raw examples, and which of its outputs is meant."""

    function: RunOutput
    output: int

    @property
    def name(self) -> str:
        """What it is called."""
        return self.function.title(self.output)

    @property
    def label(self) -> str:
        """The same with its unit."""
        return f"{self.name}, {self.function.unit}" if self.function.unit else self.name

    def values(self, raw: Any) -> np.ndarray:
        """The number for every example, on the host."""
        return np.asarray(_compiled(self.function, jnp.asarray(raw)), np.float64)[:, self.output]

    def all_values(self, raw: Any) -> np.ndarray:
        """All outputs of every example, on the host."""
        return np.asarray(_compiled(self.function, jnp.asarray(raw)), np.float64)

    def one(self, raw: Array) -> Float[Array, " batch"]:
        """The number for every example, where JAX traces."""
        return self.function(raw)[:, self.output]


@eqx.filter_jit
def _compiled(f: RunOutput, x: Array) -> Array:
    return f(x)


def numbers_of(model: Model, schema: Schema) -> tuple[str, ...]:
    """The kinds of numbers that a model has, the usual one first."""
    return tuple(name for name, number in _NUMBERS.items() if number.has(model, schema))


def output_function(run: Run, data: Data, kind: str = "") -> RunOutput:
    """The numbers of one kind of a run's model; of the usual kind unless told."""
    known = numbers_of(run.model, run.schema)
    if not known:
        raise CapabilityError(
            f"the model of {run.id} has no number to explain",
            remedy="probe a model that predicts, or one that knows the likelihood of an example",
        )
    if kind and kind not in known:
        raise ArgumentError(
            f"out={kind}: this model has no such number{suggest(kind, known)}",
            remedy=f"it has: {', '.join(known)}",
        )
    word = kind or known[0]
    number, schema = _NUMBERS[word], run.schema
    names: tuple[str, ...] = ("",)
    out_shift, out_factor = np.zeros(1), np.ones(1)
    if number.of_target:
        columns = data.reading.targets if data.reading is not None else ()
        names = targets.of(schema).output_names(schema, columns)
        out_shift, out_factor = np.zeros(len(names)), np.ones(len(names))
        if number.power and run.target_scaling is not None:
            there, shape = run.target_scaling, schema.target_shape
            out_factor = np.broadcast_to(there.factor, shape).ravel() ** number.power
            out_shift = np.broadcast_to(there.shift, shape).ravel() * (number.power == 1)
    elif isinstance(run.model, HasLogProb | HasBound):
        out_shift = out_shift + run.scaling.log_volume(schema.dimensions)
    shown = tuple("" if name == "value" and len(names) == 1 else name for name in names)
    wide = jnp.result_type(float)
    if kinds.of(schema).has_tokens:  # numbers of tokens have no units
        shift, factor = jnp.zeros((1, 1), jnp.int32), jnp.ones((1, 1), jnp.int32)
    else:
        shift, factor = (
            jnp.asarray(np.broadcast_to(part, schema.shape)[None], wide)
            for part in (run.scaling.shift, run.scaling.factor)
        )
    bound = word == "log-likelihood" and not isinstance(run.model, HasLogProb)
    title = "bound of the log-likelihood" if bound else word
    return RunOutput(
        run.model,
        shift,
        factor,
        jnp.asarray(out_shift[None], wide),
        jnp.asarray(out_factor[None], wide),
        read=number.read,
        schema=schema,
        kind=title,
        names=shown,
        unit=number.unit,
    )


def asked_output(run: Run, data: Data, out: str, first: Any) -> Asked:
    """The number that `out` names: a kind, a name, or both as in logit:cat.

    Where several outputs are left, the one that is largest for the example `first` (raw, with a batch axis) is meant.
    """
    word, colon, name = out.partition(":")
    known = numbers_of(run.model, run.schema)
    if not colon and word not in known:
        word, name = "", out
    function = output_function(run, data, word)
    if name:
        if name not in function.names:
            shown = [one for one in function.names[:10] if one]
            raise ArgumentError(
                f"out={out}: no output has the name {name!r}{suggest(name, (*function.names, *known))}",
                remedy=f"kinds of numbers: {', '.join(known)}"
                + (
                    f"; outputs: {', '.join(shown)}{', ...' if len(function.names) > 10 else ''}"
                    if shown
                    else ""
                ),
            )
        return Asked(function, function.names.index(name))
    if len(function.names) == 1:
        return Asked(function, 0)
    return Asked(function, int(np.asarray(_compiled(function, jnp.asarray(first)))[0].argmax()))


__all__ = ["Asked", "RunOutput", "asked_output", "numbers_of", "output_function"]
