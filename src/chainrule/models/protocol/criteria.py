"""Losses of outputs and targets by name, and the settings that choose among them.

A *criterion* is a function from the outputs of a network and its targets to one number per example. Which of them make
sense follows from the link function of the target: of classes and labels the outputs are logits, of values the values.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, final

import jax.numpy as jnp
import numpy as np
import pydantic
from pydantic import Field

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.settings import Config
from chainrule.core.types import Array, Float
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.data.target import Link
from chainrule.nn import losses

Criterion: TypeAlias = Callable[[Any, Any], Array]
"""From outputs and targets, examples along the first axis, to the loss of each example."""


@final
class LossSettings(Config):
    """What training minimises, for models that predict targets; validation loss is the same."""

    name: (
        Literal[
            "cross-entropy", "focal", "squared-error", "absolute-error", "huber", "quantile", "earth-mover"
        ]
        | None
    ) = Field(
        None,
        description="none: cross-entropy of classes and labels, squared error of values, earth mover's "
        "distance of votes",
    )
    class_weights: Literal["balanced"] | dict[str, float] | tuple[float, ...] | None = Field(
        None,
        description="weight of each class, in their order or by name (loss.class_weights.cat=2); balanced: all classes "
        "count alike. Labels: weight of having the label",
    )
    smoothing: float = Field(
        0.0, ge=0, lt=1, description="cross-entropy: share of the target that is spread over all classes"
    )
    gamma: float = Field(
        2.0, ge=0, le=100, description="focal: how much less an example counts that is right already"
    )
    delta: float = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="huber: error beyond which the loss is linear, in standard deviations of the target",
    )
    quantile: float = Field(0.5, gt=0, lt=1, description="quantile: share of the targets to lie below")

    @pydantic.field_validator("class_weights", mode="before")
    @classmethod
    def _numbers(cls, given: Any) -> Any:
        """One sentence instead of one for each form that weights may have."""
        if given is None or (isinstance(given, str) and given == "balanced"):
            return given
        numbers = given.values() if isinstance(given, Mapping) else given
        if isinstance(given, str) or not isinstance(numbers, Iterable) or not all(map(_is_weight, numbers)):
            raise ValueError("give balanced, or a number of at least 0 for each class")
        return given


def _is_weight(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


def _smooth(y: Array, settings: LossSettings) -> Array:
    return y.astype(jnp.float32) * (1 - settings.smoothing) + settings.smoothing / 2


_CRITERIA: Mapping[str, Mapping[Link, Callable[[LossSettings, Array | None], Criterion]]] = {
    "cross-entropy": {
        "softmax": lambda s, weights: (
            lambda out, y: losses.cross_entropy(out, y, smoothing=s.smoothing, class_weights=weights)
        ),
        "sigmoid": lambda s, weights: (
            lambda out, y: losses.binary_cross_entropy(out, _smooth(y, s), positive_weights=weights)
        ),
        "ordered": lambda s, _: lambda out, y: losses.cross_entropy(out, y, smoothing=s.smoothing),
    },
    "focal": {
        "softmax": lambda s, weights: (
            lambda out, y: losses.focal(out, y, gamma=s.gamma, class_weights=weights)
        ),
        "sigmoid": lambda s, weights: (
            lambda out, y: losses.binary_focal(
                out, y.astype(jnp.float32), gamma=s.gamma, positive_weights=weights
            )
        ),
    },
    "earth-mover": {"ordered": lambda s, _: losses.earth_mover},
    "squared-error": {"identity": lambda s, _: lambda out, y: losses.squared_error(_like(out, y), y)},
    "absolute-error": {"identity": lambda s, _: lambda out, y: losses.absolute_error(_like(out, y), y)},
    "huber": {"identity": lambda s, _: lambda out, y: losses.huber(_like(out, y), y, delta=s.delta)},
    "quantile": {
        "identity": lambda s, _: lambda out, y: losses.quantile_error(_like(out, y), y, quantile=s.quantile)
    },
}
"""By name, then by the link functions of the targets that each of them is a loss of."""
_USUAL: Mapping[Link, str] = {
    "softmax": "cross-entropy",
    "sigmoid": "cross-entropy",
    "identity": "squared-error",
    "ordered": "earth-mover",
}
_USED_BY = {
    "smoothing": ("cross-entropy",),
    "gamma": ("focal",),
    "delta": ("huber",),
    "quantile": ("quantile",),
}


def _like(out: Array, y: Array) -> Array:
    """Outputs in the shape of their targets: a column of numbers and a row of them must never be subtracted."""
    return out.reshape(y.shape)


def names(link: Link | None = None) -> list[str]:
    """The losses there are, or those for one link function.

    >>> names("identity")
    ['squared-error', 'absolute-error', 'huber', 'quantile']
    """
    return [name for name, by_link in _CRITERIA.items() if link is None or link in by_link]


def links(name: str) -> list[Link]:
    """The link functions of the targets that a loss is one of."""
    if name not in _CRITERIA:
        raise ArgumentError(
            f"unknown loss {name!r}{suggest(name, _CRITERIA)}",
            remedy=f"there are {', '.join(_CRITERIA)}; or give a function of outputs and targets",
        )
    return list(_CRITERIA[name])


def usual(link: Link, name: str | None = None) -> Criterion:
    """The negative log-likelihood that goes with a link function, or the loss of a name, with the usual options."""
    return _CRITERIA[name or _USUAL[link]][link](LossSettings(), None)


def criterion(settings: LossSettings, schema: Schema, y: np.ndarray) -> Criterion:
    """The loss that settings ask for, of data with this schema and these training targets.

    Class weights are divided by their mean over the training examples: they change what examples count for, not the
    learning rate. For all examples in one batch this is the weighted mean.
    """
    link = targets.of(schema).link
    name = settings.name or _USUAL[link]
    if link not in _CRITERIA[name]:
        raise ArgumentError(
            f"loss.name={name}: this is no loss of a target that is a {schema.target}",
            remedy=f"use one of {', '.join(names(link))}",
        )
    for option, by in _USED_BY.items():
        value = getattr(settings, option)
        if name not in by and value != LossSettings.model_fields[option].default:
            raise ArgumentError(
                f"loss.{option}={value:g}: {name} does not use it", remedy=f"it is for loss.name={by[0]}"
            )
    return _CRITERIA[name][link](settings, _weights(settings.class_weights, schema, np.asarray(y)))


def _weights(given: Any, schema: Schema, y: np.ndarray) -> Float[Array, " classes"] | None:
    """A weight for each class, of mean one over the training examples; for labels as they were given."""
    target, classes = targets.of(schema), schema.classes
    if given is None:
        return None
    if not (target.one_class or target.has_labels):
        raise ArgumentError(
            f"loss.class_weights={_shown(given)}: a target that is a {schema.target} has no classes"
        )
    labels = target.has_labels
    counts = y.sum(axis=0, dtype=np.float64) if labels else np.bincount(y, minlength=len(classes))
    if given == "balanced":
        # A class without training examples has nothing to weigh.
        some = np.maximum(counts, 1)
        weights = (len(y) - counts) / some if labels else len(y) / (np.count_nonzero(counts) * some)
        return jnp.asarray(weights, jnp.float32)
    weights = np.array(_in_order(given, classes), np.float64)
    if not weights.any():
        raise ArgumentError(f"loss.class_weights={_shown(given)}: at least one must be above 0")
    mean = 1.0 if labels else float((weights * counts).sum() / len(y))
    if mean == 0:
        raise ArgumentError(
            f"loss.class_weights={_shown(given)}: every training example would count for nothing"
        )
    return jnp.asarray(weights / mean, jnp.float32)


def _in_order(given: Any, classes: tuple[str, ...]) -> list[float]:
    if isinstance(given, Mapping):
        for name in given:
            if name not in classes:
                raise ArgumentError(
                    f"loss.class_weights.{name}: there is no such class{suggest(name, classes)}",
                    remedy=f"classes: {', '.join(classes[:8])}{', ...' if len(classes) > 8 else ''}",
                )
        return [float(given.get(name, 1.0)) for name in classes]
    if len(given) != len(classes):
        raise ArgumentError(
            f"loss.class_weights={_shown(given)}: {len(given)} weights for {len(classes)} classes",
            remedy=f"one for each of {', '.join(classes[:8])}{', ...' if len(classes) > 8 else ''}, in this order",
        )
    return [float(weight) for weight in given]


def _shown(given: Any) -> str:
    if isinstance(given, str):
        return given
    return ",".join(f"{weight:g}" for weight in (given.values() if isinstance(given, Mapping) else given))


__all__ = ["Criterion", "LossSettings", "criterion", "links", "names", "usual"]
