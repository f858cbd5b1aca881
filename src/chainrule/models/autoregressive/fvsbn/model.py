"""The fully visible sigmoid belief network: every entry is a logistic regression on those before it."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.conditionals import Conditionals, Order, orders, require_binary
from chainrule.models.autoregressive.vectors import VectorModel
from chainrule.models.protocol import Config
from chainrule.probability.distributions.outputs import Bernoulli


@final
class FVSBNConfig(Config):
    """Settings of the fully visible sigmoid belief network."""

    order: Order = Field(
        "data",
        description="which entry comes when: as in the data (images row by row), or a fixed random order",
    )
    ensemble: int = Field(
        1,
        ge=1,
        le=64,
        description="networks whose probabilities are averaged; further ones have random orders",
    )


@final
class Regressions(Conditionals):
    """`p(x_t = 1 | x_<t) = sigmoid(b_t + Σ_{s<t} P_ts x_s)`: D(D + 1)/2 parameters, a convex problem."""

    weight: Float[Array, " pairs"]
    """The entries of P below its diagonal, row by row."""
    bias: Float[Array, " entries"]
    outcome: Bernoulli

    def __init__(self, entries: int) -> None:
        self.weight = jnp.zeros(entries * (entries - 1) // 2)
        self.bias = jnp.zeros(entries)
        self.outcome = Bernoulli()

    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries 1"]:
        """All conditionals in one product with a strictly lower triangular matrix."""
        return (x @ self.matrix.T + self.bias[None, :])[..., None]

    def continued(
        self, x: Float[Array, "batch entries"], given: int | Int[Array, ""], key: Key
    ) -> Float[Array, "batch entries"]:
        """Entry after entry; each needs one row of the matrix."""
        matrix = self.matrix

        def step(t: Int[Array, ""], x: Array) -> Array:
            return self.drawn(x, t, (x @ matrix[t] + self.bias[t])[:, None], given, key)

        return jax.lax.fori_loop(0, x.shape[1], step, x)

    @property
    def matrix(self) -> Float[Array, "entries entries"]:
        """P, with zeros on and above its diagonal."""
        entries = len(self.bias)
        below = np.tril_indices(entries, -1)
        return (
            jnp.zeros((entries, entries), self.weight.dtype).at[below].set(self.weight, unique_indices=True)
        )


def build(config: FVSBNConfig, schema: Schema, key: Key) -> VectorModel:
    """A fresh model: every entry is one half."""
    require_binary("fvsbn", schema)
    members = tuple(Regressions(schema.dimensions) for _ in range(config.ensemble))
    return VectorModel(members, orders(config.order, schema.dimensions, config.ensemble, key), config, schema)


__all__ = ["FVSBNConfig", "Regressions", "build"]
