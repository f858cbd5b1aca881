"""Drawing new examples, and the options one can draw them with."""

import abc
from collections.abc import Sequence
from typing import Any

from chainrule.core.types import Array, Float, Key
from chainrule.models.protocol.model import Model
from chainrule.models.protocol.options import OptionGroup, from_signature, option_fields


class CanSample(Model):
    """Draws new examples."""

    @abc.abstractmethod
    def sample(self, key: Key, n: int, **options: Any) -> Array:
        """`n` new examples, in model units; the options are those that `sample_options` describes.

        An option named `condition` is the class, caption or value that examples are to have: the command line says it
        as `class=`, `text=` or `y=`.
        """

    @classmethod
    def sample_options(cls) -> Sequence[OptionGroup]:
        """Default: the keyword-only parameters of `sample`.

        A model with many options returns groups of its own, and reads with `read_options` what `sample` is given.
        """
        return from_signature(cls.sample)

    @property
    def conditional(self) -> bool:
        """Default: examples can be asked for by a condition if that is an option."""
        return "condition" in option_fields(self.sample_options())

    @property
    def needs_condition(self) -> bool:
        """Default: examples can be drawn without naming a condition."""
        return False


class HasSampleControls(CanSample):
    """Draws examples that follow control pictures, which can be shown beside them."""

    @abc.abstractmethod
    def sample_controls(self, n: int, **options: Any) -> Array | None:
        """The picture in [0, 1] that each of `n` examples is to follow under these options of `sample`, if any."""


class HasSampleCaption(CanSample):
    """Says how samples were drawn, for the caption of a picture of them."""

    @abc.abstractmethod
    def sample_caption(self, **options: Any) -> str:
        """How `sample` draws under these options, what is not given included, in a few words."""


class HasGenerator(CanSample):
    """Makes of every vector of noise one example, by a function that can be differentiated."""

    @abc.abstractmethod
    def noise(self, key: Key, n: int) -> Float[Array, "n size"]:
        """Noise as examples are made of."""

    @abc.abstractmethod
    def generate(self, z: Float[Array, "n size"], condition: Any = None) -> Array:
        """The example of each vector of noise, in model units; a condition is that of `sample`."""

    def some_conditions(self, n: int, repeat: int = 1) -> Array | None:
        """Default: examples need no conditions to be shown.

        Otherwise those to show `n` times `repeat` examples by, each condition as often as that in a row.
        """
        del n, repeat
        return None


class HasDiscriminator(HasGenerator):
    """Was trained against a network that tells its examples from those of the data."""

    @abc.abstractmethod
    def judge(self, x: Array, condition: Any = None) -> Float[Array, " n"]:
        """The score of each example, in model units: the higher, the more it looks like the data."""


__all__ = ["CanSample", "HasDiscriminator", "HasGenerator", "HasSampleCaption", "HasSampleControls"]
