"""Conditioners: what gives the parameters of every entry of a vector from the entries before it.

All parameters take one pass. Where entries become known one after another, the simplest way is a pass for each; a
network that knows better says so.
"""

import abc
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.checks import whole
from chainrule.core.types import Array, Float, Int
from chainrule.networks.flows.base import Conditions
from chainrule.networks.masked_mlp import autoregressive_masks
from chainrule.nn import Linear

EntryNumbers: TypeAlias = Float[Array, "numbers batch entries"]
MakeEntry: TypeAlias = Callable[
    [Float[Array, " batch"], Float[Array, "numbers batch"]], Float[Array, " batch"]
]
"""From a number that is known and the parameters of an entry to the entry, of every example."""


_FAR = 1e18
"""Beyond it entries look alike: their squares would overflow."""


class AutoregressiveConditioner(eqx.Module):
    """So many numbers for every entry, which depend on the entries before it and on no others."""

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "batch entries"], condition: Conditions = None) -> EntryNumbers:
        """The numbers of all entries in one pass."""

    def in_sequence(
        self, known: Float[Array, "batch entries"], condition: Conditions, entry: MakeEntry
    ) -> Float[Array, "batch entries"]:
        """Default: entries one after another, a pass for each; `entry` makes each of a `known` number."""

        def step(i: Int[Array, ""], x: Array) -> Array:
            return x.at[:, i].set(entry(known[:, i], self(x, condition)[:, :, i]))

        return jax.lax.fori_loop(0, known.shape[1], step, jnp.zeros_like(known))


@jax.custom_jvp
def compressed(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Entries as the networks of layers see them: themselves near zero, their logarithms far out.

    A layer moves an outlier by what its network says of it, and the next layer sees it moved: with entries as they are,
    a value of five standard deviations is sent thousands away within five layers, and the mean likelihood with it.
    The function is arcsinh, without the care that the last digits of small entries would take: XLA's own took half of
    the time of a draw.

    >>> [f"{x:.2f}" for x in compressed(jnp.array([0.01, 5.0, -1000.0]))]
    ['0.01', '2.31', '-7.60']
    """
    size = jnp.minimum(jnp.abs(x), _FAR)
    return jnp.sign(x) * jnp.log(size + jnp.sqrt(1 + size * size))


@compressed.defjvp
def _compressed_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    size = jnp.minimum(jnp.abs(primals[0]), _FAR)
    return compressed(primals[0]), tangents[0] * jax.lax.rsqrt(1 + size * size)


_Layer = TypeVar("_Layer", bound=eqx.Module)


def scaled_weights(layer: _Layer, gain: float) -> _Layer:
    """The same layer with the weights of its dense layers, biases not, times a factor.

    Functions that begin flat stay smooth for longer: of few examples they learn less that is not there.
    """

    def scaled(node: Any) -> Any:
        return eqx.tree_at(lambda n: n.weight, node, gain * node.weight) if isinstance(node, Linear) else node

    return jax.tree.map(scaled, layer, is_leaf=lambda node: isinstance(node, Linear))


@final
class LinearConditioner(AutoregressiveConditioner):
    """Numbers that are linear in the entries before, and in the condition; all begin at zero.

    >>> LinearConditioner(3, 2)(jnp.ones((1, 3))).shape
    (2, 1, 3)
    """

    weight: Float[Array, "numbers entries entries"]
    given: Float[Array, "numbers features entries"] | None
    bias: Float[Array, "numbers entries"]

    def __init__(self, entries: int, numbers: int, condition: int = 0) -> None:
        whole("LinearConditioner", "entries", entries)
        self.weight = jnp.zeros((numbers, entries, entries))
        self.given = jnp.zeros((numbers, condition, entries)) if condition else None
        self.bias = jnp.zeros((numbers, entries))

    def __call__(self, x: Float[Array, "batch entries"], condition: Conditions = None) -> EntryNumbers:
        """One product."""
        (before,) = autoregressive_masks(x.shape[1], [], 1)
        masked = jnp.where(before[None], self.weight, 0)
        out = jnp.einsum("bi,nij->nbj", x, masked) + self.bias[:, None]
        if self.given is None or condition is None:
            return out
        return out + jnp.einsum("bi,nij->nbj", condition, self.given)


__all__ = [
    "AutoregressiveConditioner",
    "EntryNumbers",
    "LinearConditioner",
    "MakeEntry",
    "compressed",
    "scaled_weights",
]
