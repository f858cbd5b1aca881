"""Conditional distributions `p(x_t | x_<t)` of the entries of a vector, and the settings of models made of them."""

import abc
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.settings import Config
from chainrule.core.types import Array, Float, Int, Key
from chainrule.information.compression.direct import SymbolDistributions
from chainrule.models.autoregressive.coding import pass_by_pass
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


class Continuation(NamedTuple):
    """How entries are drawn one after the other."""

    given: Int[Array, ""]
    """The first so many entries stay as they are."""
    key: Key
    temperature: Float[Array, ""]


class Conditionals(eqx.Module):
    """All conditionals of a vector whose entries come in the order in which they are listed."""

    output: eqx.AbstractVar[OutputDistribution]

    @abc.abstractmethod
    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries parameters"]:
        """Parameters of the distribution of each entry, which depend on the entries before it and on no others."""

    def of_classes(self, labels: Int[Array, " batch"]) -> "Conditionals":
        """Default: the same conditionals whatever the class of each vector."""
        del labels
        return self

    def continued(self, x: Float[Array, "batch entries"], how: Continuation) -> Float[Array, "batch entries"]:
        """Default: the entries that are not given are drawn one by one with a whole pass for each."""

        def step(t: Int[Array, ""], x: Array) -> Array:
            return x.at[:, t].set(self.drawn(self(x)[:, t], t, x[:, t], how))

        return jax.lax.fori_loop(0, x.shape[1], step, x)

    def distributions(
        self, rows: int, known: np.ndarray | None, entries: int, levels: int
    ) -> SymbolDistributions:
        """Default: distributions of entries one after another, a whole pass for each, or for all that are known."""
        return pass_by_pass(self, rows, known, entries, levels)

    def held(self, entries: int) -> int:
        """Default: all. Entries whose distributions `distributions` has in memory at a time."""
        return entries

    def drawn(
        self,
        parameters: Float[Array, "batch parameters"],
        t: Int[Array, ""],
        known: Float[Array, " batch"],
        how: Continuation,
    ) -> Float[Array, " batch"]:
        """The value of entry `t` of each vector: from its distribution, or the one that is known if it is given."""
        value = self.output.sample(parameters, jax.random.fold_in(how.key, t), how.temperature)
        return jnp.where(t < how.given, known, value.astype(known.dtype))


__all__ = ["Conditionals", "Continuation", "EnsembleConfig"]
