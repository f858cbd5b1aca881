"""Gradient methods and LIME side by side on the same inputs, with what each says of its own quality.

Every method gets the same function, the same baseline (the mean of the background) and the same groups of entries:
pixels of a patch, numbers that one column became, the vector of a token. Values of groups are sums of those of their
entries, so that all methods rank the same things and can be compared.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from jaxtyping import Float, Int

from chainrule.core.errors import CapabilityError
from chainrule.explain.methods.functions import Function
from chainrule.explain.methods.gradients.deep_lift import deep_lift
from chainrule.explain.methods.gradients.expected_gradients import expected_gradients
from chainrule.explain.methods.gradients.gradient_times_input import gradient_times_input
from chainrule.explain.methods.gradients.integrated_gradients import integrated_gradients
from chainrule.explain.methods.gradients.saliency import saliency
from chainrule.explain.methods.gradients.smooth_grad import smooth_grad
from chainrule.explain.methods.quality.agreement import Agreement, agreement
from chainrule.explain.methods.quality.deletion import DeletionCurves, deletion_curves
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.explain.methods.surrogates.lime import LocalSurrogate, lime

RANDOM = "random order"
"""What the curves of no explanation at all are called."""


@final
@dataclass(frozen=True)
class AttributionTask:
    """What is explained, and with what it is compared."""

    f: Function
    x: np.ndarray
    background: np.ndarray
    outputs: Int[np.ndarray, " batch"]
    membership: Int[np.ndarray, "..."]
    """The number of the group of every entry of an input."""
    samples: int = 256
    nodes: int = 1024
    """Most nodes of integrated gradients."""
    seed: int = 0

    @property
    def baseline(self) -> np.ndarray:
        """The mean of the background."""
        return np.asarray(self.background.mean(axis=0), self.x.dtype)

    @property
    def groups(self) -> int:
        """How many there are."""
        return int(self.membership.max()) + 1

    @property
    def single(self) -> bool:
        """Whether every entry is a group by itself and an input a row of them."""
        return self.membership.ndim == 1 and self.groups == self.membership.size

    def by_group(self, values: Float[np.ndarray, "batch ..."]) -> Float[np.ndarray, "batch groups"]:
        """Sums over the entries of each group."""
        flat = self.membership.ravel()
        return np.stack([np.bincount(flat, row.ravel(), minlength=self.groups) for row in values])

    def moved(self, x: np.ndarray) -> "AttributionTask":
        """The same of other inputs."""
        return replace(self, x=x)


def _integrated(task: AttributionTask) -> Explanation:
    first = min(64, task.nodes)
    return integrated_gradients(task.f, task.x, task.baseline, task.outputs, nodes=first, most=task.nodes)


def _saliency(task: AttributionTask) -> Explanation:
    return saliency(task.f, task.x, task.outputs)


def _smooth(task: AttributionTask) -> Explanation:
    return smooth_grad(task.f, task.x, task.outputs, samples=max(2, task.samples // 4), seed=task.seed)


METHODS: Mapping[str, Callable[[AttributionTask], Explanation]] = {
    "saliency": _saliency,
    "gradient x input": lambda task: gradient_times_input(
        task.f, task.x, task.outputs, baseline=task.baseline
    ),
    "integrated gradients": _integrated,
    "expected gradients": lambda task: expected_gradients(
        task.f, task.x, task.background, task.outputs, samples=task.samples, seed=task.seed
    ),
    "SmoothGrad": _smooth,
    "DeepLIFT": lambda task: deep_lift(task.f, task.x, task.baseline, task.outputs),
}
"""Every method by the name under which it is shown."""


@final
@dataclass(frozen=True)
class MethodComparison:
    """What every method says of the same inputs."""

    explanations: Mapping[str, Explanation]
    """By entries of the inputs; of LIME by groups."""
    values: Mapping[str, Float[np.ndarray, "batch groups"]]
    surrogate: LocalSurrogate
    agreement: Agreement
    curves: Mapping[str, DeletionCurves]
    """Of every method, and of a random order."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Methods that cannot explain this function, and why."""


def side_by_side(task: AttributionTask, *, fits: int = 10, steps: int = 16) -> MethodComparison:
    """All methods on all inputs, how alike they rank groups, and curves of deletion and insertion by each."""
    explanations: dict[str, Explanation] = {}
    left_out: dict[str, str] = {}
    for name, method in METHODS.items():
        try:
            explanations[name] = method(task)
        except CapabilityError as error:
            left_out[name] = error.message
    values = {name: task.by_group(found.values) for name, found in explanations.items()}
    surrogate = lime(
        *(task.f, task.x, task.background, task.outputs),
        samples=task.samples,
        fits=fits,
        groups=None if task.single else task.membership,
        seed=task.seed,
    )
    explanations["LIME"] = surrogate.explanation
    values["LIME"] = surrogate.explanation.values
    orders = {**values, RANDOM: np.random.default_rng(task.seed).uniform(size=values["LIME"].shape)}
    curves = {
        name: deletion_curves(
            task.f, task.x, found[:, task.membership], task.baseline, task.outputs, steps=steps
        )
        for name, found in orders.items()
    }
    return MethodComparison(explanations, values, surrogate, agreement(values), curves, left_out)


def attributor(task: AttributionTask, name: str) -> Callable[[np.ndarray], Any]:
    """From inputs like those of a task to the values of their groups by one method."""
    return lambda x: task.by_group(METHODS[name](task.moved(x)).values)


__all__ = ["METHODS", "RANDOM", "AttributionTask", "MethodComparison", "attributor", "side_by_side"]
