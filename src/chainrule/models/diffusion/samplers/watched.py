"""A sampler with a function that is called after every step, and may replace what the step arrived at.

The function is part of the compiled loop, as fast as a step of the sampler itself; `on_host` makes one of an ordinary
Python function, to which the loop then hands its arrays at every step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Int, Key, Tree
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.samplers.sampler import Estimator, Sampler, Span


class SamplerStep(NamedTuple):
    """What a callback is told after a step, in the units of the network."""

    number: Int[Array, ""]
    """From 0 on."""
    total: Int[Array, ""]
    """Of the whole walk."""
    level: Level
    """Where the step has led to: a and s; at the end 1 and 0."""
    x: Array
    """The examples there."""
    x0: Array
    """The estimate of the clean examples that the step used."""


Callback: TypeAlias = Callable[[SamplerStep], Any]
"""From a step to the examples to go on with, or to nothing."""


@final
@dataclass(frozen=True)
class WatchedSampler(Sampler):
    """Another sampler, and a callback after each of its steps."""

    inner: Sampler
    callback: Callback

    @property
    def deterministic(self) -> bool:
        """As the sampler that is watched."""
        return self.inner.deterministic

    def start(self, x: Array) -> Tree:
        """As the sampler that is watched."""
        return self.inner.start(x)

    def check(self, levels: Level) -> None:
        """As the sampler that is watched."""
        self.inner.check(levels)

    def step(
        self, estimate: Estimator, x: Array, memory: Tree, span: Span, key: Key
    ) -> tuple[Array, Tree, Array]:
        """The step, and what the callback makes of it."""
        moved, memory, guess = self.inner.step(estimate, x, memory, span, key)
        said = self.callback(SamplerStep(span.number, span.total, span.there, moved, guess))
        return (moved if said is None else _replaced(said, moved)), memory, guess


def on_host(function: Callable[[SamplerStep], Any]) -> Callback:
    """A callback from an ordinary Python function, which gets NumPy arrays and may print, plot or store them.

    The device waits for it at every step.

    >>> seen = []
    >>> callback = on_host(lambda step: seen.append(int(step.number)))
    """

    def callback(step: SamplerStep) -> Array:
        like = jax.ShapeDtypeStruct(step.x.shape, step.x.dtype)

        def call(step: SamplerStep) -> np.ndarray:
            said = function(jax.tree.map(np.asarray, step))
            return np.asarray(step.x) if said is None else np.asarray(_replaced(said, step.x), like.dtype)

        found: Array = io_callback(call, like, step, ordered=True)
        return found

    return callback


def _replaced(said: Any, x: Array) -> Array:
    """What a callback returned, if it can take the place of the examples."""
    if np.shape(said) != np.shape(x):
        raise ArgumentError(
            f"callback: returned an array of shape {np.shape(said)} for examples of shape {np.shape(x)}",
            remedy="return examples of the same shape, or None to leave them as they are",
        )
    return jnp.asarray(said, x.dtype)


__all__ = ["Callback", "SamplerStep", "WatchedSampler", "on_host"]
