"""Visual anagrams (Geng et al., 2024): pictures that are one thing as they stand and another in another view.

The noise is predicted in every view, each with its own condition, brought back, and averaged; or the views take turns.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError, CapabilityError, check_choice
from chainrule.core.types import Array, Float
from chainrule.data import kinds
from chainrule.data.schema import Schema
from chainrule.models.diffusion.base import Denoiser
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.steering.views import View, view

_X = Float[Array, "batch ..."]


@final
class Anagram(Denoiser):
    """One denoiser asked in several views; conditions are rows, one for each view.

    `mode="mean"` averages the views in every step; `"alternate"` asks one view in a step, in turn, and needs the
    levels of the walk to know which.
    """

    inner: Denoiser
    levels: Level | None
    views: tuple[View, ...] = eqx.field(static=True)
    mode: str = eqx.field(static=True)
    target: str = eqx.field(static=True)

    def __init__(
        self, inner: Denoiser, views: Sequence[View], mode: str = "mean", levels: Level | None = None
    ) -> None:
        check_choice("Anagram", "mode", mode, ("mean", "alternate"))
        if mode == "alternate" and levels is None:
            raise ArgumentError(
                'Anagram(mode="alternate"): views take turns along a walk', remedy="give levels="
            )
        self.inner, self.levels, self.views, self.mode = inner, levels, tuple(views), mode
        self.target = "eps"

    def predict(self, x: _X, level: Level, condition: Any = None) -> _X:
        def seen(number: int) -> Array:
            mine = None if condition is None else condition[number]
            one = self.views[number]
            return one.undo(self.inner.value("eps", one.apply(x), level, mine))

        if self.mode == "mean":
            return sum((seen(i) for i in range(1, len(self.views))), start=seen(0)) / len(self.views)
        assert self.levels is not None
        step = jnp.argmin(jnp.abs(jnp.asarray(self.levels.a) - jnp.asarray(level.a).reshape(-1)[0]))
        turns = [lambda i=i: seen(i) for i in range(len(self.views))]
        return jax.lax.switch(step % len(self.views), turns)


def anagram(
    denoiser: Denoiser,
    schema: Schema,
    name: str | None,
    classes: Array | None,
    others: Array | None,
) -> tuple[Denoiser, Array | None]:
    """A denoiser of pictures that are `classes` as they stand and `others` in another view, and its conditions."""
    if name is None:
        raise ArgumentError(
            "other= is the class in another view", remedy="name the view too: view=rotate(180)"
        )
    if not kinds.of(schema).spatial:
        raise CapabilityError(f"view={name}: views are of images; these are {schema.kind} data")
    if (classes is None) != (others is None):
        raise ArgumentError(
            f"view={name}: both views need a class, or neither", remedy="give class= and other="
        )
    both = Anagram(denoiser, [view("identity", schema.shape), view(name, schema.shape)])
    return both, None if classes is None or others is None else jnp.stack([classes, others])


__all__ = ["Anagram", "anagram"]
