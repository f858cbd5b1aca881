"""Mechanisms that can be inspected: attention, alignment, logit lens, recurrence, pictures of a model's own."""

import abc
from collections.abc import Sequence
from typing import NamedTuple, Self

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Shaped

from chainrule.core.pictures import Picture
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.batches import Batch
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


class ResidualStream(NamedTuple):
    """The layers that a residual stream passes, and the names of what they compute (`nn.hooks`)."""

    embedding: str
    """The name of the vectors that the sum begins with."""
    names: tuple[str, ...]
    """The names of the blocks, from the first to the last."""
    blocks: tuple[TransformerBlock, ...]
    norm: Norm | None
    """The normalisation of the sum after the last block."""


class StreamQuestions(NamedTuple):
    """What a model is shown of some examples, and the right answers at the positions of its residual stream."""

    inputs: tuple[Array, ...]
    """Arguments of `stream_logits`."""
    answers: Int[Array, "batch time"]
    asked: Bool[Array, "batch time"]
    """Positions at which something is asked; elsewhere the answer is any."""


class Posed(NamedTuple):
    """One input as a question: what follows a text, what is hidden in it, what an image shows."""

    inputs: tuple[Shaped[np.ndarray, "..."], ...]
    """Arguments of `stream_logits`, without their batch axis."""
    position: int
    """Where the logits of the answer are read."""


class PatchSite(NamedTuple):
    """Activations of one kind, one in each layer, that patching exchanges part by part."""

    name: str
    names: str
    """Names of the activations, with a star for the number of the layer."""
    title: str
    over: int | None
    """The input whose positions the parts are, as an argument of `stream_logits`; none: the parts are heads."""
    of: str = ""
    """Whose heads they are, where a model has several kinds: " of the encoder"."""


def patch_sites(path: str, over: int = 0, of: str = "", prefix: str = "") -> tuple[PatchSite, ...]:
    """What blocks under one path compute: the stream before each, what its parts add, and its heads."""
    return (
        PatchSite(
            f"{prefix}resid_pre", f"{path}.*.resid_pre", f"The residual stream{of} before each layer", over
        ),
        PatchSite(f"{prefix}attn_out", f"{path}.*.attn_out", f"What attention{of} adds", over),
        PatchSite(f"{prefix}mlp_out", f"{path}.*.mlp_out", f"What the MLP{of} adds", over),
        PatchSite(f"{prefix}heads", f"{path}.*.attention.z", f"What each head{of} brings back", None, of),
    )


class HasResidualStream(Model):
    """Adds what its layers find to one vector for each position, and reads logits from the sum.

    What its blocks compute can be read and replaced by name: see `chainrule.explain.run_with_cache`.
    """

    @abc.abstractmethod
    def residual_stream(self) -> ResidualStream:
        """The layers of the stream that logits are read from."""

    @property
    @abc.abstractmethod
    def adds_positions(self) -> bool:
        """Whether the sum begins with more than the vectors of the tokens."""

    @abc.abstractmethod
    def stream_logits(self, *inputs: Array) -> Float[Array, "batch time outputs"]:
        """Logits at each position of the stream."""

    @abc.abstractmethod
    def read_out(self, features: Float[Array, "batch time width"]) -> Float[Array, "batch time outputs"]:
        """Logits of normalised sums: an affine function of each."""

    @abc.abstractmethod
    def questions(self, batch: Batch, key: Key) -> StreamQuestions:
        """What it has to answer of some examples."""

    @abc.abstractmethod
    def posed(self, *given: str | Shaped[np.ndarray, "..."]) -> Posed:
        """Texts or arrays of one example, in the order of `stream_logits`, as the model is asked about them."""

    def patch_sites(self) -> tuple[PatchSite, ...]:
        """Default: those of the blocks of the stream, over the first input."""
        return patch_sites(self.residual_stream().names[0].rpartition(".")[0])

    def stream_grid(self) -> tuple[int, int] | None:
        """Default: none; otherwise the rows and columns of patches that the last positions of the stream are."""
        return None


class HasTokenStream(HasResidualStream):
    """Has one residual stream over the tokens of a text."""

    blocks: eqx.AbstractVar[tuple[TransformerBlock, ...]]
    norm: eqx.AbstractVar[Norm | None]
    context: eqx.AbstractVar[int | None]

    @abc.abstractmethod
    def logits(self, x: Int[Array, "batch time"]) -> Float[Array, "batch time vocabulary"]:
        """Logits at each position."""

    def residual_stream(self) -> ResidualStream:
        """Default: all blocks, under the name of their field."""
        names = tuple(f"blocks.{i}" for i in range(len(self.blocks)))
        return ResidualStream("embedding", names, self.blocks, self.norm)

    def stream_logits(self, *inputs: Array) -> Float[Array, "batch time vocabulary"]:
        """Default: those of the tokens."""
        return self.logits(*inputs)


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


__all__ = [
    "HasAlignment",
    "HasAttention",
    "HasLens",
    "HasPictures",
    "HasRecurrence",
    "HasResidualStream",
    "HasTokenStream",
    "PatchSite",
    "Posed",
    "ResidualStream",
    "StreamQuestions",
    "patch_sites",
]
