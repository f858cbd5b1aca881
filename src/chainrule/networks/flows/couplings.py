"""Coupling layers: some entries stay and say how the others are moved, which is as cheap one way as the other.

`B' = tau(B; h(A))` with A as it was (Dinh, Sohl-Dickstein and Bengio, 2017: real-valued non-volume-preserving maps).
One layer leaves A untouched, so that layers take turns; a stack in which some entry is never moved is refused.
"""

from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.errors import ArgumentError, check_choice
from chainrule.core.types import Array, Float, Key
from chainrule.networks.flows.base import Bijection, Conditions, Events, Mapped
from chainrule.networks.flows.conditioners import compressed
from chainrule.networks.flows.synthesisers import Synthesiser
from chainrule.nn import Linear
from chainrule.nn.constructions import Network, mlp


@final
class Coupling(Bijection):
    """Entries where `moved` is true are moved by a function of the others, and of what is told of the example.

    `scale` is a learned factor on what the network says, so that its first steps are small.
    """

    network: Network
    synthesiser: Synthesiser
    scale: Float[Array, " numbers"]
    moved: tuple[bool, ...] = eqx.field(static=True)
    shape: tuple[int] = eqx.field(static=True)

    def __init__(
        self,
        moved: Sequence[bool],
        synthesiser: Synthesiser,
        *,
        width: int = 64,
        depth: int = 2,
        condition: int = 0,
        key: Key,
    ) -> None:
        self.moved = tuple(bool(one) for one in moved)
        self.shape = (len(self.moved),)
        check_roles([self.moved])
        count = sum(self.moved)
        sizes = [len(self.moved) - count + condition, *[width] * depth, synthesiser.numbers * count]
        network = mlp(sizes, "silu", key=key)
        last = network.layers[-1]
        assert isinstance(last, Linear)
        self.network = eqx.tree_at(lambda n: n.layers[-1], network, jax.tree.map(jnp.zeros_like, last))
        self.synthesiser, self.scale = synthesiser, jnp.ones(synthesiser.numbers)

    def forward(self, z: Events, condition: Conditions = None) -> Mapped:
        """By the function."""
        value, slopes = self._moved(z, condition, self.synthesiser.forward)
        return Mapped(value, slopes.sum(axis=1))

    def inverse(self, x: Events, condition: Conditions = None) -> Mapped:
        """By its inverse: what it depends on has stayed."""
        value, slopes = self._moved(x, condition, self.synthesiser.inverse)
        return Mapped(value, slopes.sum(axis=1))

    def inverse_by_entry(
        self, x: Float[Array, "batch entries"], condition: Conditions = None
    ) -> tuple[Float[Array, "batch entries"], Float[Array, "batch entries"]]:
        """The inverse, with the share of every entry in the logarithm of the volume: none for those that stay."""
        value, slopes = self._moved(x, condition, self.synthesiser.inverse)
        return value, jnp.zeros_like(x).at[:, np.flatnonzero(self.moved)].set(slopes)

    def _moved(
        self, x: Events, condition: Conditions, function: Any
    ) -> tuple[Events, Float[Array, "batch moved"]]:
        """Values, and the logarithm of the slope of each entry that is moved."""
        moves = np.asarray(self.moved)
        stay, move = np.flatnonzero(~moves), np.flatnonzero(moves)
        kept, others = _picked(x, stay), _picked(x, move)
        seen = compressed(kept)
        if condition is not None:
            seen = jnp.concatenate([seen, condition], axis=1)
        said = self.network(seen).reshape(len(x), self.synthesiser.numbers, len(move))
        h = said.transpose(1, 0, 2).reshape(len(self.scale), -1) * self.scale[:, None]
        value, slope = function(others.reshape(-1), h)
        parts = [(stay, kept), (move, value.reshape(others.shape))]
        numbers, joined = zip(*sorted(parts, key=lambda part: part[0][0]), strict=True)
        back = np.argsort(np.concatenate(numbers))
        return _picked(jnp.concatenate(joined, axis=1), back), slope.reshape(others.shape)


def _picked(x: Float[Array, "batch entries"], at: np.ndarray) -> Float[Array, "batch picked"]:
    """Entries by their numbers; neighbours are cut out, which is faster."""
    if np.array_equal(at, np.arange(at[0], at[0] + len(at))):
        return x[:, at[0] : at[0] + len(at)]
    return x[:, at]


def roles(split: str, size: int, layers: int, key: Key) -> list[tuple[bool, ...]]:
    """Which entries each of some layers moves: halves, every second one, or half of them drawn anew for each pair.

    Each second layer moves what the one before it kept.

    >>> roles("halves", 3, 2, jax.random.key(0))
    [(False, True, True), (True, False, False)]
    """
    check_choice("roles", "split", split, ["halves", "alternate", "random"])
    found: list[Bool[np.ndarray, " size"]] = []
    for number in range(layers):
        if number % 2:
            found.append(~found[-1])
            continue
        first = np.arange(size) >= size // 2 if split != "alternate" else np.arange(size) % 2 == 1
        if split == "random":
            first = first[np.asarray(jax.random.permutation(jax.random.fold_in(key, number), size))]
        found.append(first)
    return [tuple(map(bool, one)) for one in found]


def check_roles(stack: Sequence[Sequence[bool]]) -> None:
    """Raise unless every layer of a stack keeps and moves something, and together they move everything.

    >>> check_roles([(False, True), (False, True)])
    Traceback (most recent call last):
    chainrule.core.errors.ArgumentError: couplings: entry 0 is not moved by any of 2 layers
           use layers=2 or more, each second one moving what the one before it kept
    """
    size = len(stack[0])
    if size < 2:
        raise ArgumentError(
            "couplings: one entry has no others that could say how it is moved",
            remedy="use an autoregressive flow: maf or spline-flow",
        )
    for number, one in enumerate(stack):
        if all(one) or not any(one):
            raise ArgumentError(f"couplings: layer {number} {'keeps' if all(one) else 'moves'} no entry")
    if len(stack) > 1:
        still = [i for i in range(size) if not any(one[i] for one in stack)]
        if still:
            raise ArgumentError(
                f"couplings: entry {still[0]} is not moved by any of {len(stack)} layers",
                remedy="use layers=2 or more, each second one moving what the one before it kept",
            )


__all__ = ["Coupling", "check_roles", "roles"]
