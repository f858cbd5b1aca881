"""Visual anagrams (Geng et al., 2024): images that are one thing as they stand and another in another view.

The noise is predicted in every view, each with its own condition, brought back, and averaged; or the views take turns.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError, CapabilityError, check_choice
from chainrule.core.types import Array, Float
from chainrule.data import kinds
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.steering.draw import Draw, Steering
from chainrule.models.diffusion.steering.views import NAMES, View, view

_X = Float[Array, "batch ..."]


@final
class Anagram(Denoiser):
    """One denoiser evaluated in several views; conditions are rows, one for each view.

    `mode="mean"` averages the views in every step; `"alternate"` evaluates one view in a step, in turn, and needs the
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


@final
class Views(Steering):
    """Images that are one thing as they stand and another in another view."""

    name: ClassVar[str] = "views"
    summary: ClassVar[str] = "Visual anagrams: one class as the image stands, another in another view."
    order: ClassVar[int] = 1

    view: str | None = Field(None, description=f"the other view: {', '.join(NAMES)}")
    other: Any = Field(None, description="the class in the other view")

    @property
    def shows_what(self) -> bool:
        """Whether there is a view: it has a class of its own."""
        return self.view is not None or self.other is not None

    def steer(self, draw: Draw) -> Draw:
        """The draw with a denoiser that is evaluated in both views, and conditions for each."""
        if self.view is None and self.other is None:
            return draw
        if self.view is None:
            raise ArgumentError(
                "other= is the class in another view", remedy="name the view too: view=rotate(180)"
            )
        schema = draw.model.schema
        if not kinds.of(schema).spatial:
            raise CapabilityError(f"view={self.view}: views are of images; these are {schema.kind} data")
        others = None if self.other is None else draw.model.conditions(self.other, draw.n)
        if (draw.condition is None) != (others is None):
            raise ArgumentError(
                f"view={self.view}: both views need a class, or neither", remedy="give class= and other="
            )
        both = Anagram(draw.denoiser, [view("identity", schema.shape), view(self.view, schema.shape)])
        pair = None if draw.condition is None or others is None else jnp.stack([draw.condition, others])
        return replace(draw, denoiser=both, condition=pair, axis=1)


__all__ = ["Anagram", "Views"]
