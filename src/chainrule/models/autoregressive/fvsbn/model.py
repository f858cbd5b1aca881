"""The fully visible sigmoid belief network: every entry is a logistic regression on those before it."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.schema import Schema
from chainrule.models.autoregressive.conditionals import Conditionals, Continuation, EnsembleConfig
from chainrule.models.autoregressive.vectors import VectorModel, ensemble
from chainrule.models.protocol import require_binary
from chainrule.probability.distributions.outputs import BernoulliOutput


@final
class FVSBNConfig(EnsembleConfig):
    """Settings of the fully visible sigmoid belief network."""


@final
class Regressions(Conditionals):
    """`p(x_t = 1 | x_<t) = sigmoid(b_t + Σ_{s<t} P_ts x_s)`: D(D + 1)/2 parameters, a convex problem."""

    weight: Float[Array, " pairs"]
    """The entries of P below its diagonal, row by row."""
    bias: Float[Array, " entries"]
    output: BernoulliOutput

    def __init__(self, entries: int) -> None:
        self.weight = jnp.zeros(entries * (entries - 1) // 2)
        self.bias = jnp.zeros(entries)
        self.output = BernoulliOutput()

    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries 1"]:
        """All conditionals in one product with a strictly lower triangular matrix."""
        return (x @ self.matrix.T + self.bias[None, :])[..., None]

    def continued(self, x: Float[Array, "batch entries"], how: Continuation) -> Float[Array, "batch entries"]:
        """Entry after entry; each needs one row of the matrix."""
        matrix = self.matrix

        def step(t: Int[Array, ""], x: Array) -> Array:
            logit = x @ matrix[t] + self.bias[t]
            return x.at[:, t].set(self.drawn(logit[:, None], t, x[:, t], how))

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
    require_binary("fvsbn", schema, "chainrule train made")
    members = tuple(Regressions(schema.dimensions) for _ in range(config.ensemble))
    return ensemble(members, config, schema, key)


__all__ = ["FVSBNConfig", "Regressions", "build"]
