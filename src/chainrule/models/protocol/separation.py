"""Separation of mixtures into the sources they are the sum of."""

import abc

from jaxtyping import Inexact

from chainrule.core.types import Array, Float
from chainrule.models.protocol.model import Model
from chainrule.nn.spectral import STFT


class CanSeparate(Model):
    """Finds the sources of a mixture of sound by masks over its spectrum."""

    @property
    @abc.abstractmethod
    def source_names(self) -> tuple[str, ...]:
        """What the signals it gives are called, in their order."""

    @property
    @abc.abstractmethod
    def ordered(self) -> bool:
        """Whether each of them is the source of that name; otherwise any order of them is as good."""

    @property
    @abc.abstractmethod
    def transform(self) -> STFT:
        """The spectrum that its masks are over."""

    @abc.abstractmethod
    def masks(
        self, x: Float[Array, "batch samples channels"]
    ) -> Inexact[Array, "batch sources channels bins frames"]:
        """What the spectrum of the mixture is multiplied by for each source; sound of any length."""

    @abc.abstractmethod
    def separate(
        self, x: Float[Array, "batch samples channels"]
    ) -> Float[Array, "batch sources samples channels"]:
        """The signal of each source in a mixture of any length."""

    @abc.abstractmethod
    def wanted(
        self, y: Float[Array, "batch all samples channels"]
    ) -> Float[Array, "batch sources samples channels"]:
        """What it should give, from all sources of the data: these, or one of them and the rest."""


__all__ = ["CanSeparate"]
