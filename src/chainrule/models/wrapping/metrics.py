"""Numbers to watch beside the loss, by name or as functions of outputs and targets."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, suggest
from chainrule.core.types import Array
from chainrule.data import targets
from chainrule.data.schema import Schema
from chainrule.models.protocol import criteria
from chainrule.models.protocol.criteria import links
from chainrule.models.protocol.criteria import names as losses

MetricFunction: TypeAlias = Callable[[Any, Any], Array]
"""From outputs and targets of a batch to a number for each example, or one for all."""


def _among_likeliest(k: int) -> MetricFunction:
    """Whether the true class is among the `k` likeliest; of equal logits the lower class comes first."""

    def metric(out: Array, y: Array) -> Array:
        own, classes = jnp.take_along_axis(out, y[:, None], axis=-1), jnp.arange(out.shape[-1])[None, :]
        return ((out > own) | ((out == own) & (classes < y[:, None]))).sum(axis=-1) < k

    return metric


_NAMED: Mapping[str, MetricFunction] = {
    "accuracy": lambda out, y: out.argmax(axis=-1) == y,
    "top_5_accuracy": _among_likeliest(5),
    "exact_match": lambda out, y: ((out > 0) == (y > 0)).all(axis=-1),
}
_USUAL: Mapping[str, tuple[str, ...]] = {
    "softmax": ("accuracy",),
    "sigmoid": ("exact_match",),
    "identity": (),
    "ordered": (),
}
_LINKS = {"accuracy": "softmax", "top_5_accuracy": "softmax", "exact_match": "sigmoid"}


def named(
    metrics: Sequence[str | MetricFunction] | Mapping[str, MetricFunction],
) -> tuple[tuple[str, Any], ...]:
    """Each metric with the name it is logged under."""
    if isinstance(metrics, Mapping):
        return tuple(metrics.items())
    if isinstance(metrics, str):
        raise ArgumentError(f"wrap(metrics={metrics!r}): give a list", remedy=f"metrics=[{metrics!r}]")
    return tuple((one, one) if isinstance(one, str) else (_name(one), one) for one in metrics)


def usual(schema: Schema) -> tuple[tuple[str, Any], ...]:
    """What is watched unless told otherwise: how often predictions of classes or labels are right."""
    return named(_USUAL[targets.of(schema).link])


def _name(function: Any) -> str:
    name = getattr(function, "__name__", "")
    if not name.isidentifier():
        raise ArgumentError(
            f"wrap(metrics=...): {function!r} has no name to be logged under",
            remedy='give it one: metrics={"error": function}',
        )
    return str(name)


def resolved(metric: str | MetricFunction, schema: Schema) -> MetricFunction:
    """The function of a metric, for data of this schema."""
    if not isinstance(metric, str):
        return metric
    link = targets.of(schema).link
    top = re.fullmatch(r"top_([1-9]\d*)_accuracy", metric)
    if top and link == _LINKS["top_5_accuracy"]:
        return _among_likeliest(int(top[1]))
    if metric not in _NAMED and metric not in losses():
        known = [*_NAMED, *losses()]
        raise ArgumentError(
            f"wrap(metrics=[{metric!r}]): there is no such metric{suggest(metric, known)}",
            remedy=f"there are {', '.join(known)}; or give a function of outputs and targets",
        )
    if link not in ([_LINKS[metric]] if metric in _NAMED else links(metric)):
        raise ArgumentError(
            f"wrap(metrics=[{metric!r}]): this is no number about a target that is a {schema.target}"
        )
    if metric in _NAMED:
        return _NAMED[metric]
    return criteria.usual(link, metric)


__all__ = ["MetricFunction", "named", "resolved", "usual"]
