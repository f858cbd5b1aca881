"""Attention masks as small rules, joined with `&` and evaluated only for the block that is needed.

A rule knows positions, not matrices. The same `Causal()` serves a whole sequence, one chunk of a long one and a single
step of decoding, and nothing of the size of the score matrix exists before the scores themselves do. True means "may
be seen". Rows are queries and columns are keys, so what a causal mask hides lies above the diagonal.
"""

import abc
from typing import final

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Int


class Mask(eqx.Module):
    """A rule that says which keys a query may see; `first & second` holds where both hold."""

    @abc.abstractmethod
    def seen(self, queries: Int[Array, " queries"], keys: Int[Array, " keys"]) -> Bool[Array, "..."]:
        """For positions of queries and of keys, whether each may see each.

        The result broadcasts against (batch, heads, queries, keys), or against (queries, keys) alone where examples
        do not differ.
        """

    def table(self, queries: int, keys: int) -> Bool[Array, "..."]:
        """Default: the rule for the first so many positions of both.

        >>> Causal().table(2, 3).astype(int)
        Array([[1, 0, 0],
               [1, 1, 0]], dtype=int32)
        """
        return self.seen(jnp.arange(queries), jnp.arange(keys))

    def parts(self) -> "tuple[Mask, ...]":
        """Default: the rules that must all hold, which is this one alone."""
        return (self,)

    def __and__(self, other: "Mask") -> "Mask":
        return JointMask(self, other)


@final
class JointMask(Mask):
    """Two rules at once."""

    first: Mask
    second: Mask

    def seen(self, queries: Int[Array, " queries"], keys: Int[Array, " keys"]) -> Bool[Array, "..."]:
        return _joined(self.first.seen(queries, keys), self.second.seen(queries, keys))

    def table(self, queries: int, keys: int) -> Bool[Array, "..."]:
        return _joined(self.first.table(queries, keys), self.second.table(queries, keys))

    def parts(self) -> tuple[Mask, ...]:
        return (*self.first.parts(), *self.second.parts())


@final
class Causal(Mask):
    """A position sees itself and what came before."""

    def seen(self, queries: Int[Array, " queries"], keys: Int[Array, " keys"]) -> Bool[Array, "..."]:
        return queries[:, None] >= keys[None, :]


@final
class Window(Mask):
    """A position sees itself, `back - 1` positions before it and `ahead` after it.

    >>> Window(2).table(3, 3).astype(int)
    Array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]], dtype=int32)
    """

    back: int = eqx.field(static=True)
    ahead: int = eqx.field(static=True)

    def __init__(self, back: int, ahead: int = 0) -> None:
        if back < 1 or ahead < 0:
            raise ArgumentError(
                f"Window(back={back}, ahead={ahead}): back counts the position itself, so back >= 1 and ahead >= 0"
            )
        self.back = back
        self.ahead = ahead

    def seen(self, queries: Int[Array, " queries"], keys: Int[Array, " keys"]) -> Bool[Array, "..."]:
        distance = queries[:, None] - keys[None, :]
        return (distance < self.back) & (distance >= -self.ahead)


@final
class Padding(Mask):
    """Nobody sees the keys that are padding: `valid` is False there. Keys beyond its end are none."""

    valid: Bool[Array, "batch keys"]

    def seen(self, queries: Int[Array, " queries"], keys: Int[Array, " keys"]) -> Bool[Array, "..."]:
        del queries
        return jnp.take(self.valid, keys, axis=1, mode="fill", fill_value=True)[:, None, None, :]


@final
class LeftPadding(Mask):
    """Padding on the left: keys before the `first` of each row are masked."""

    first: Int[Array, " batch"]

    def seen(self, queries: Int[Array, " queries"], keys: Int[Array, " keys"]) -> Bool[Array, "..."]:
        del queries
        return (keys[None, :] >= self.first[:, None])[:, None, None, :]


@final
class PackedDocuments(Mask):
    """Several documents in one row: a position sees its own document only. `documents` numbers them."""

    documents: Int[Array, "batch time"]

    def seen(self, queries: Int[Array, " queries"], keys: Int[Array, " keys"]) -> Bool[Array, "..."]:
        own, other = self.documents[:, queries], self.documents[:, keys]
        return (own[:, :, None] == other[:, None, :])[:, None]


@final
class Allowed(Mask):
    """Any table: (queries, keys), or with leading axes (batch, heads) of which either may be 1."""

    allowed: Bool[Array, "*leading queries keys"]

    def seen(self, queries: Int[Array, " queries"], keys: Int[Array, " keys"]) -> Bool[Array, "..."]:
        return self.allowed[..., queries[:, None], keys[None, :]]

    def table(self, queries: int, keys: int) -> Bool[Array, "..."]:
        if self.allowed.shape[-2:] != (queries, keys):
            raise ArgumentError(
                f"Allowed: the table says who sees whom for {self.allowed.shape[-2:]} queries and keys, "
                f"but there are {(queries, keys)}"
            )
        return self.allowed


def joined(first: Mask | None, second: Mask | None) -> Mask | None:
    """Both rules, or the one there is, or none."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _joined(first: Array, second: Array) -> Array:
    shape = jnp.broadcast_shapes(first.shape, second.shape)
    return jnp.broadcast_to(first, shape) & jnp.broadcast_to(second, shape)


__all__ = [
    "Allowed",
    "Causal",
    "JointMask",
    "LeftPadding",
    "Mask",
    "PackedDocuments",
    "Padding",
    "Window",
    "joined",
]
