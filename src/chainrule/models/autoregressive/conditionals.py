"""Conditional distributions `p(x_t | x_<t)` of the entries of a vector, and the settings of models made of them."""

import abc
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from pydantic import Field

from chainrule.core.errors import CapabilityError
from chainrule.core.settings import Config
from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.schema import Schema
from chainrule.probability.distributions.outputs import OutputDistribution


class EnsembleConfig(Config, abc.ABC):
    """Settings that models of this kind share: the order of the entries, and how many networks there are."""

    order: Literal["data", "random"] = Field(
        "data",
        description="which entry comes when: as in the data (images row by row), or a fixed random order",
    )
    ensemble: int = Field(
        1,
        ge=1,
        le=64,
        description="networks whose probabilities are averaged; further ones have random orders",
    )

    def orders(self, entries: int, key: Key) -> tuple[Int[Array, " entries"], ...]:
        """Which entry comes when, for each of the networks: the first as the settings say, the others at random.

        >>> [order.tolist() for order in EnsembleConfig().orders(3, jax.random.key(0))]
        [[0, 1, 2]]
        """
        keys = jax.random.split(key, self.ensemble)
        return tuple(
            jnp.arange(entries)
            if self.order == "data" and number == 0
            else jax.random.permutation(one, entries)
            for number, one in enumerate(keys)
        )


class Conditionals(eqx.Module):
    """All conditionals of a vector whose entries come in the order in which they are listed."""

    output: eqx.AbstractVar[OutputDistribution]

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries parameters"]:
        """Parameters of the distribution of each entry, which depend on the entries before it and on no others."""

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
        parameters: Float[Array, "batch parameters"],
        given: int | Int[Array, ""],
        key: Key,
    ) -> Float[Array, "batch entries"]:
        """The vectors with entry `t` drawn from its distribution, unless it is one of the first `given`."""
        value = self.output.sample(parameters, jax.random.fold_in(key, t)).astype(x.dtype)
        return x.at[:, t].set(jnp.where(t < given, x[:, t], value))


def require_binary(name: str, schema: Schema) -> None:
    """Raise unless the data are zeros and ones."""
    if schema.levels != 2:
        what = f"{schema.levels} levels" if schema.levels else "numbers that are read as continuous"
        already = "" if schema.levels else "if they are zeros and ones already: data.levels=2\n"
        raise CapabilityError(
            f"{name} models zeros and ones; these {schema.kind} data have {what}",
            remedy=f"{already}make them binary: data.binarize=threshold, or data.binarize=stochastic\n"
            "or keep them as they are, with conditionals that fit: chainrule train made",
        )


__all__ = ["Conditionals", "EnsembleConfig", "require_binary"]
