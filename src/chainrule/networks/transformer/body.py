"""Stacks of transformer blocks, and what can be read from them.

The fields stay with the model that has them (`blocks.0.attention...` in its checkpoint); these classes say how vectors
pass through.
"""

import abc
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import ArgumentError
from chainrule.core.recomputation import recomputed
from chainrule.core.types import Array, Float, Int, Key
from chainrule.nn import Dropout, Embedding, TransformerBlock
from chainrule.nn.attention import Mask
from chainrule.nn.hooks import inside, watched


class Transformer(eqx.Module):
    """Blocks, one after another, between an embedding and an output layer."""

    blocks: eqx.AbstractVar[tuple[TransformerBlock, ...]]
    dropout: eqx.AbstractVar[Dropout]

    @abc.abstractmethod
    def read(
        self, vectors: Float[Array, "batch time width"], *, mask: Mask | None = None, key: Key | None = None
    ) -> Float[Array, "batch time width"]:
        """What the last block makes of the vectors of tokens, normalised; a key switches dropout on."""

    def through(
        self,
        h: Float[Array, "batch time width"],
        *,
        mask: Mask | None = None,
        key: Key | None = None,
        scan: bool = False,
        recompute: bool = False,
    ) -> Float[Array, "batch time width"]:
        """All blocks: as one compiled loop with `scan`, and with their insides computed again on the way back.

        While somebody watches they are written out one by one, which computes the same.
        """
        key = self.drops(key)

        def one(block: TransformerBlock, h: Array, i: Any) -> Array:
            return block(h, mask=mask, dropout_key=None if key is None else jax.random.fold_in(key, i))

        step = recomputed(one) if recompute and not watched() else one
        if not scan or watched():
            for i, block in enumerate(self.blocks):
                with inside(f"blocks.{i}"):
                    h = step(block, h, i)
            return h
        arrays = [eqx.filter(block, eqx.is_array) for block in self.blocks]
        static = eqx.filter(self.blocks[0], eqx.is_array, inverse=True)
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *arrays)

        def body(h: Array, layer: tuple[Any, Array]) -> tuple[Array, None]:
            return step(eqx.combine(layer[0], static), h, layer[1]), None

        return jax.lax.scan(body, h, (stacked, jnp.arange(len(self.blocks))))[0]

    def dropped(
        self, h: Float[Array, "batch time width"], key: Key | None
    ) -> Float[Array, "batch time width"]:
        """What goes into the first block, with dropout if there is a key."""
        key = self.drops(key)
        return h if key is None else self.dropout(h, jax.random.fold_in(key, len(self.blocks)))

    def drops(self, key: Key | None) -> Key | None:
        """The key, where anything is dropped at all."""
        anything = self.dropout.p or any(block.stochastic_depth for block in self.blocks)
        return None if self.dropout.inference or not anything else key

    def attention_maps(
        self, h: Float[Array, "batch time width"]
    ) -> Float[Array, "batch layers heads time time"]:
        """How much each position takes from each in every head, given what goes into the first block."""
        found = []
        for block in self.blocks:
            found.append(block.weights(h))
            h = block(h)
        return jnp.stack(found, axis=1)

    def without_head(self, layer: int, head: int) -> Self:
        """The same model in which what this head gathers is not passed on."""
        attention = self.blocks[layer].attention
        size = attention.outward.weight.shape[0] // attention.heads
        return eqx.tree_at(
            lambda model: model.blocks[layer].attention.outward.weight,
            self,
            replace_fn=lambda weight: weight.at[head * size : (head + 1) * size].set(0.0),
        )


class TokenTransformer(Transformer):
    """A transformer whose tokens are numbers of a vocabulary."""

    embedding: eqx.AbstractVar[Embedding | None]
    """One row for each token; `None` where something else makes the vectors."""
    context: eqx.AbstractVar[int | None]
    """The most tokens it can read."""

    @abc.abstractmethod
    def vectors(self, x: Int[Array, "batch time"]) -> Float[Array, "batch time width"]:
        """The vectors of tokens, before positions are added."""

    def check_length(self, x: Int[Array, "batch time"]) -> None:
        """Raise if there are more tokens than the model can read."""
        if self.context is not None and x.shape[1] > self.context:
            raise ArgumentError(
                f"{x.shape[1]} tokens do not fit into a context of {self.context}",
                remedy="cut the text into windows, or build the model with a longer context",
            )


__all__ = ["TokenTransformer", "Transformer"]
