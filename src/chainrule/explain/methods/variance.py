"""Variance through depth: sizes of activations and gradients from layer to layer, before training.

The mean square of the activations after each layer, and of the gradient that comes back to it, should neither fade
nor blow up; each layer multiplies both, so a factor of 0.5 a layer leaves a millionth after twenty. The gain of the
initialiser decides (Glorot and Bengio, 2010; He et al., 2015, arXiv:1502.01852).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines
from chainrule.core.types import Array, Scalar
from chainrule.data.batches import Batch
from chainrule.models import layer_activations
from chainrule.models.protocol import Model

_HEALTHY = 1.3
"""A mean square that changes by less than this factor a layer is healthy; narrow layers alone scatter by that much."""
_SUGGESTION = {
    "vanishing": "use a larger gain: initializer he with the gain of the activation (sqrt 2 for ReLU, 5/3 for tanh)",
    "exploding": "use a smaller gain: initializer he with the gain of the activation, or normalise the layers",
    "healthy": "",
}


@final
@dataclass(frozen=True)
class VarianceReport:
    """Mean squares layer by layer, and what they mean."""

    layers: Sequence[str]
    activations: np.ndarray
    """Mean square of what each layer passes on: the input of the next one; for the last layer its output."""
    gradients: np.ndarray
    """Mean square of the derivative with respect to the output of each layer, relative to the last hidden one."""
    forward_factor: float
    """By which the mean square of the activations changes from layer to layer."""
    backward_factor: float
    """By which the mean square of the gradients changes from layer to layer, on the way back."""
    verdict: str
    """vanishing, healthy or exploding."""
    suggestion: str

    def __str__(self) -> str:
        lines = [f"{'layer':24} {'activations':>12} {'gradients':>12}"]
        for name, a, g in zip(self.layers, self.activations, self.gradients, strict=True):
            lines.append(f"{name:24} {a:12.3g} {g:12.3g}")
        end = f": {self.suggestion}" if self.suggestion else ""
        return "\n".join(
            [
                *lines,
                f"{self.verdict} ({self.forward_factor:.3g} forward, {self.backward_factor:.3g} back){end}",
            ]
        )

    def picture(self, name: str = "variance", title: str = "Variance through depth") -> Lines:
        """Both mean squares by layer."""
        depth = np.arange(1, len(self.layers) + 1)
        return Lines(
            name,
            title,
            "layer",
            "mean square",
            {"activations": (depth, self.activations), "gradients": (depth, self.gradients)},
            log_y=True,
            caption=f"{self.verdict.capitalize()}: a factor of {self.forward_factor:.3g} a layer forward and "
            f"{self.backward_factor:.3g} back.",
        )


def variance_report(model: Any, x: Any, y: Any = None, *, seed: int = 0) -> VarianceReport:
    """Mean squares of activations and gradients in every layer, and a verdict.

    A model of the registry is judged by its loss on the batch (x, y). Any other callable is judged as a function of
    x: the gradient of its outputs times standard normal numbers.

    >>> from chainrule.nn import constructions
    >>> network = constructions.mlp([64] * 21, "relu", key=jax.random.key(0), gain=1.0)
    >>> variance_report(network, jax.random.normal(jax.random.key(1), (64, 64))).verdict
    'vanishing'
    """
    if isinstance(model, Model):
        batch, key = (
            Batch(jnp.asarray(x), None if y is None else jnp.asarray(y)),
            random.key(seed, "variance"),
        )
        flows = layer_activations.gradients(model, lambda model: model.loss(batch, key)[0])
    else:
        flows = layer_activations.gradients(model, _with_noise(jnp.asarray(x), seed))
    if len(flows) < 2:
        raise ArgumentError(f"variance_report: the model has {len(flows)} layer; depth starts at two")
    passed = [*[flow.input for flow, _ in flows.values()][1:], list(flows.values())[-1][0].output]
    activations = np.array([_mean_square(value) for value in passed])
    gradients = np.array([_mean_square(slope) for _, slope in flows.values()])
    relative = gradients / max(gradients[-2], np.finfo(float).tiny)
    # The last layer has a gain of its own, so the trend is that of the hidden ones.
    hidden = slice(0, max(len(activations) - 1, 2))
    forward, backward = _factor(activations[hidden]), 1 / _factor(gradients[hidden])
    verdict = _verdict(forward, backward)
    return VarianceReport(
        list(flows), activations, relative, forward, backward, verdict, _SUGGESTION[verdict]
    )


def _with_noise(x: Array, seed: int) -> Callable[[Any], Scalar]:
    def loss(model: Any) -> Scalar:
        out = model(x)
        return (out * jax.random.normal(random.key(seed, "variance"), out.shape, out.dtype)).sum()

    return loss


def _mean_square(values: Array) -> float:
    return float(jnp.mean(jnp.square(values.astype(jnp.float32))))


def _factor(values: np.ndarray) -> float:
    """The factor from one value to the next, by a line through the logarithms."""
    logs = np.log(np.maximum(values, np.finfo(np.float64).tiny))
    return math.exp(float(np.polyfit(np.arange(len(logs)), logs, 1)[0]))


def _verdict(forward: float, backward: float) -> str:
    worst = max((forward, backward), key=lambda factor: abs(math.log(factor)))
    if abs(math.log(worst)) <= math.log(_HEALTHY):
        return "healthy"
    return "vanishing" if worst < 1 else "exploding"


__all__ = ["VarianceReport", "variance_report"]
