"""Ways of steering: each changes a draw that is being prepared, by options of its own."""

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Array, Float, Key
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.process import Level, noised
from chainrule.models.diffusion.samplers.sampler import Sampler
from chainrule.models.protocol import SampleOptions

if TYPE_CHECKING:
    from chainrule.models.diffusion.generative import Generative


@final
@dataclass(frozen=True)
class Draw:
    """A draw that is being prepared: who denoises, given what, along which levels, from where."""

    model: "Generative"
    n: int
    given: Any
    """The condition as the user gave it."""
    denoiser: Denoiser
    sampler: Sampler
    levels: Level
    condition: Array | None = None
    """The conditions of all examples."""
    axis: int = 0
    """The axis of the examples among those of the conditions."""
    examples: Float[Array, "some ..."] | None = None
    """What to start from, as the network sees it; none: noise."""

    def begin(self, key: Key, first: int, count: int) -> Float[Array, "batch ..."]:
        """`count` starting points, from the `first` on: noise, or examples noised to the first level."""
        noise = jax.random.normal(key, (count, *self.model.schema.shape))
        if self.examples is None:
            prior = self.model.schedule.process.prior_std(self.levels.at(0))
            return jnp.asarray(prior, jnp.float32) * noise
        mine = jnp.take(self.examples, jnp.arange(first, first + count), axis=0, mode="wrap")
        return noised(mine, noise, Level(*(jnp.asarray(v[0], mine.dtype) for v in self.levels)))

    def conditions(self, first: int, count: int) -> Array | None:
        """The conditions of `count` examples from the `first` on; past the end, from the start again."""
        if self.condition is None:
            return None
        return jnp.take(self.condition, jnp.arange(first, first + count), axis=self.axis, mode="wrap")


class Steering(SampleOptions):
    """A way of steering: its options, and what they do to a draw. One file of this folder holds one."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line."""
    order: ClassVar[int]
    """Ways are applied in rising order: conditions first, then what stands around the guided denoiser."""

    @property
    def shows_what(self) -> bool:
        """Default: nothing but a condition says what is to be drawn; where none is named, a class is drawn first."""
        return False

    @abc.abstractmethod
    def steer(self, draw: Draw) -> Draw:
        """The draw under these options; as it came where none is given."""


__all__ = ["Draw", "Steering"]
