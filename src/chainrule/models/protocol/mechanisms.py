"""Mechanisms that can be inspected: attention, alignment, logit lens, recurrence, pictures of a model's own."""

import abc
from collections.abc import Sequence
from typing import Self

import equinox as eqx

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.protocol.model import Model
from chainrule.nn import Norm, TransformerBlock
from chainrule.nn.recurrent import Recurrent


class HasAlignment(Model):
    """Looks back at a source while it writes, and can tell where it looked."""

    @abc.abstractmethod
    def alignment_names(self) -> Sequence[str]:
        """What each of its maps is called, "layer 1, head 2"; empty if it has been built without any."""

    @abc.abstractmethod
    def alignment(
        self, x: Int[Array, "batch source"], y: Int[Array, "batch target"]
    ) -> Float[Array, "batch maps target source"]:
        """How much each token of a target was read from each of its source; rows sum to one."""


class HasAttention(Model):
    """Lets positions of a sequence attend to each other, in heads that can be looked at one by one."""

    schema: eqx.AbstractVar[Schema]

    @abc.abstractmethod
    def attention(self, x: Int[Array, "batch time"]) -> Float[Array, "batch layers heads time time"]:
        """How much each position (a row) takes from each (a column), in every head of every layer."""

    @abc.abstractmethod
    def without_head(self, layer: int, head: int) -> Self:
        """The same model in which what this head gathers is not passed on."""


class HasLens(Model):
    """Can say what it would predict if its layers ended early."""

    @abc.abstractmethod
    def lens(self, x: Int[Array, "batch time"]) -> Float[Array, "depth batch time vocabulary"]:
        """Logits read out before the first layer and after each of them; the last are those of the model."""


class HasResidualStream(Model):
    """Adds what its layers find to one vector for each position, and reads logits from the sum.

    What its blocks compute can be read and replaced by name: see `chainrule.explain.run_with_cache`.
    """

    blocks: eqx.AbstractVar[tuple[TransformerBlock, ...]]
    norm: eqx.AbstractVar[Norm | None]
    """The normalisation of the sum after the last block."""

    @property
    @abc.abstractmethod
    def adds_positions(self) -> bool:
        """Whether the sum begins with more than the vectors of the tokens."""

    @abc.abstractmethod
    def logits(self, x: Int[Array, "batch time"]) -> Float[Array, "batch time vocabulary"]:
        """Logits at each position."""

    @abc.abstractmethod
    def read_out(self, features: Float[Array, "batch time width"]) -> Float[Array, "batch time vocabulary"]:
        """Logits of normalised sums: an affine function of each."""


class HasRecurrence(Model):
    """Carries states along time in recurrent layers that can be looked at one by one."""

    @abc.abstractmethod
    def recurrence(self, x: Array) -> Sequence[tuple[Recurrent, Float[Array, "batch time inputs"]]]:
        """Every recurrent layer with what it reads, for a batch of sequences."""


class HasPictures(Model):
    """Offers pictures of its own beyond those its capabilities give."""

    @abc.abstractmethod
    def pictures(self, data: Data, key: Key) -> Sequence[Picture]:
        """Pictures of the trained model on its data."""


__all__ = ["HasAlignment", "HasAttention", "HasLens", "HasPictures", "HasRecurrence", "HasResidualStream"]
