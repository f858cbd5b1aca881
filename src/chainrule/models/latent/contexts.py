"""Decoders that also see the entries before an entry: `p(x|z) = Π_t p(x_t | x_<t, z)`.

A masked network adds to what any decoder says of an entry from the code. It is so strong that the code may go unused
(posterior collapse): entries can be hidden from it while training, or be read in small chunks, so that what lies beyond
has to come from the code.
"""

import abc
from typing import Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import ArgumentError
from chainrule.core.settings import Config
from chainrule.core.types import Array, Float, Key
from chainrule.networks.masked_mlp import autoregressive_masks
from chainrule.nn import Dropout, Linear, activation


class ContextSettings(Config, abc.ABC):
    """Whether entries are drawn one by one, and what of each other they see."""

    decoder: Literal["factorised", "autoregressive"] = Field(
        "factorised",
        description="entries given the code: independent, or each given those before it too, row by row",
    )
    context_dropout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="autoregressive: share of the entries before an entry that are hidden while training; word dropout",
    )
    chunk: int | None = Field(
        None,
        ge=1,
        description="autoregressive: entries see only those before them in their own chunk of so many; default: all",
    )


@final
class Context(eqx.Module):
    """What entries add to the parameters of those after them, given the code."""

    layers: tuple[Linear, ...]
    code: Linear
    """From the code to the first layer's outputs."""
    entries: int = eqx.field(static=True)
    numbers: int = eqx.field(static=True)
    chunk: int | None = eqx.field(static=True)
    dropout: Dropout
    """How many entries are hidden while training; what is left is not made larger."""
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        settings: ContextSettings,
        entries: int,
        numbers: int,
        code: int,
        widths: list[int],
        name: str,
        key: Key,
    ) -> None:
        sizes = [entries, *widths, entries * numbers]
        keys = jax.random.split(key, len(sizes))
        # Half of a layer's inputs are masked on average, which the factor 2 under the root makes up for.
        gain = activation(name).gain * 2**0.5
        layers = [
            Linear(n, m, gain=gain if number < len(widths) else 0.1, key=k)
            for number, (n, m, k) in enumerate(zip(sizes[:-1], sizes[1:], keys[1:], strict=True))
        ]
        self.layers = tuple(layers)
        self.code = Linear(code, sizes[1], bias=False, gain=1.0 if widths else 0.1, key=keys[0])
        self.entries, self.numbers, self.chunk = entries, numbers, settings.chunk
        self.dropout, self.activation = Dropout(settings.context_dropout), name

    def __call__(
        self, x: Float[Array, "batch entries"], z: Float[Array, "batch code"], key: Key | None = None
    ) -> Float[Array, "batch entries numbers"]:
        """Numbers to add for every entry; with a key, entries are hidden as in training."""
        if key is not None and self.dropout.p and not self.dropout.inference:
            x = jnp.where(jax.random.bernoulli(key, self.dropout.p, x.shape), 0, x)
        widths = [layer.weight.shape[1] for layer in self.layers[:-1]]
        masks = autoregressive_masks(self.entries, widths, self.numbers, self.chunk)
        for number, (layer, mask) in enumerate(zip(self.layers, masks, strict=True)):
            x = eqx.tree_at(lambda layer: layer.weight, layer, jnp.where(mask, layer.weight, 0))(x)
            x = x + self.code(z).astype(x.dtype) if number == 0 else x
            x = activation(self.activation)(x) if number < len(widths) else x
        return x.reshape(len(x), self.entries, self.numbers)

    @property
    def rounds(self) -> int:
        """Passes that drawing takes: chunks do not see each other and are drawn side by side."""
        return min(self.chunk or self.entries, self.entries)


def check_context(settings: ContextSettings) -> None:
    """Refuse settings of a decoder that was not chosen."""
    if settings.decoder == "autoregressive":
        return
    for name, given in (("context_dropout", settings.context_dropout), ("chunk", settings.chunk)):
        if given:
            raise ArgumentError(
                f"{name}={given}: independent entries see nothing of each other",
                remedy=f"add decoder=autoregressive, or leave {name} out",
            )


__all__ = ["Context", "ContextSettings", "check_context"]
