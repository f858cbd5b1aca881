"""One entry after another: the networks behind `p(x) = Π_t p(x_t | x_<t)` for vectors of fixed length."""

import abc
from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.schema import Schema
from chainrule.probability.distributions.outputs import Outcome

Order: TypeAlias = Literal["data", "random"]


class Conditionals(eqx.Module):
    """All conditionals of a vector whose entries come in the order in which they are listed."""

    outcome: eqx.AbstractVar[Outcome]

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries numbers"]:
        """Parameters of the law of each entry, which depend on the entries before it and on no others."""

    def continued(
        self, x: Float[Array, "batch entries"], given: int | Int[Array, ""], key: Key
    ) -> Float[Array, "batch entries"]:
        """Default: the first `given` entries stay, the others are drawn one by one with a whole pass for each."""

        def step(t: Int[Array, ""], x: Array) -> Array:
            return self.drawn(x, t, self(x)[:, t], given, key)

        return jax.lax.fori_loop(0, x.shape[1], step, x)

    def drawn(
        self,
        x: Float[Array, "batch entries"],
        t: Int[Array, ""],
        parameters: Float[Array, "batch numbers"],
        given: int | Int[Array, ""],
        key: Key,
    ) -> Float[Array, "batch entries"]:
        """The vectors with entry `t` drawn from its law, unless it is one of the first `given`."""
        value = self.outcome.draw(parameters, jax.random.fold_in(key, t)).astype(x.dtype)
        return x.at[:, t].set(jnp.where(t < given, x[:, t], value))


def orders(first: Order, entries: int, count: int, key: Key) -> tuple[Int[Array, " entries"], ...]:
    """Which entry comes when, for each of `count` networks: the first as asked for, the others at random.

    >>> [order.tolist() for order in orders("data", 3, 1, jax.random.key(0))]
    [[0, 1, 2]]
    """
    keys = jax.random.split(key, count)
    return tuple(
        jnp.arange(entries) if first == "data" and number == 0 else jax.random.permutation(one, entries)
        for number, one in enumerate(keys)
    )


def require_binary(name: str, schema: Schema) -> None:
    """Raise unless the data are zeros and ones."""
    if schema.levels != 2:
        what = f"{schema.levels} levels" if schema.levels else "continuous numbers"
        raise CapabilityError(
            f"{name} models zeros and ones; these {schema.kind} data have {what}",
            remedy="make them binary: data.binarize=threshold, or data.binarize=stochastic\n"
            "or keep them as they are, with conditionals that fit: chainrule train made",
        )


__all__ = ["Conditionals", "Order", "orders", "require_binary"]
