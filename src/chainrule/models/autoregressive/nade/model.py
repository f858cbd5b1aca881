"""NADE: conditionals that share one hidden layer (Larochelle and Murray, 2011)."""

from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.types import Array, Float, Int, Key
from chainrule.data.schema import Schema
from chainrule.information.compression.direct import SymbolDistributions
from chainrule.information.compression.distributions import BinarySymbols
from chainrule.models.autoregressive.conditionals import Conditionals, Continuation, EnsembleConfig
from chainrule.models.autoregressive.vectors import VectorModel, ensemble
from chainrule.models.protocol import require_binary
from chainrule.probability.distributions.outputs import BernoulliOutput

BLOCK = 8
"""Entries whose running sum is one matrix product: much larger wastes multiplications, smaller ones memory traffic."""
CACHED = 1 << 21
"""Hidden activities held at a time on a CPU: 8 MB, what its caches hold."""
STORED = 1 << 28
"""The same on an accelerator, where one long sweep beats many short ones."""


@final
class NADEConfig(EnsembleConfig):
    """Settings of NADE."""

    width: int = Field(500, ge=1, description="hidden units")


@final
class SharedHidden(Conditionals):
    """`a_1 = c, h_t = sigmoid(a_t), p(x_t = 1 | x_<t) = sigmoid(b_t + V_t h_t), a_{t+1} = a_t + W_t x_t`.

    All D conditionals of a vector cost D·H multiplications together, as much as a single pass of a network with H
    hidden units, and 2DH + D + H parameters.
    """

    inputs: Float[Array, "entries width"]
    outputs: Float[Array, "entries width"]
    hidden_bias: Float[Array, " width"]
    bias: Float[Array, " entries"]
    output: BernoulliOutput

    def __init__(self, entries: int, width: int, key: Key) -> None:
        key_in, key_out = jax.random.split(key)
        limit = (6 / (entries + width)) ** 0.5
        self.inputs = jax.random.uniform(key_in, (entries, width), minval=-limit, maxval=limit)
        self.outputs = jax.random.uniform(key_out, (entries, width), minval=-limit, maxval=limit)
        self.hidden_bias = jnp.zeros(width)
        self.bias = jnp.zeros(entries)
        self.output = BernoulliOutput()

    def __call__(self, x: Float[Array, "batch entries"]) -> Float[Array, "batch entries 1"]:
        """All conditionals, strip by strip: the running sums `a_t` are matrix products, not steps."""
        batch, entries = x.shape
        width = len(self.hidden_bias)
        strip = strip_of(batch, entries, width)
        strips = -(-entries // strip)
        missing = strips * strip - entries
        columns = jnp.pad(x, ((0, 0), (0, missing))).reshape(batch, strips, strip).swapaxes(0, 1)
        rows = (
            jnp.pad(w, ((0, missing), (0, 0))).reshape(strips, strip, width)
            for w in (self.inputs, self.outputs)
        )
        wide = jnp.promote_types(x.dtype, jnp.float32)  # a long sum
        start = jnp.broadcast_to(self.hidden_bias[None, :].astype(wide), (batch, width))
        # The activities of a strip are computed again for the gradient: keeping all of them takes D times the memory.
        _, logits = jax.lax.scan(jax.checkpoint(_sweep), start, (columns, *rows))
        logits = logits.swapaxes(0, 1).reshape(batch, strips * strip)[:, :entries]
        return (logits + self.bias[None, :])[..., None]

    def distributions(
        self, rows: int, known: np.ndarray | None, entries: int, levels: int
    ) -> SymbolDistributions:
        """Entry after entry, whether they are known or not: long sums in another order would be other numbers."""
        del known, levels
        a = jnp.broadcast_to(self.hidden_bias[None].astype(jnp.float32), (rows, len(self.hidden_bias)))
        for t in range(entries):
            symbols = yield BinarySymbols(np.asarray(_share(self, a, jnp.int32(t))))
            a = _heard(self, a, jnp.int32(t), jnp.asarray(symbols))

    def held(self, entries: int) -> int:
        """One after another."""
        del entries
        return 1

    def continued(self, x: Float[Array, "batch entries"], how: Continuation) -> Float[Array, "batch entries"]:
        """Entry after entry, with the activities carried along."""

        def step(t: Int[Array, ""], carry: tuple[Array, Array]) -> tuple[Array, Array]:
            x, a = carry
            logit = jax.nn.sigmoid(a) @ self.outputs[t] + self.bias[t]
            x = x.at[:, t].set(self.drawn(logit[:, None], t, x[:, t], how))
            return x, a + x[:, t, None] * self.inputs[t][None, :]

        start = jnp.broadcast_to(self.hidden_bias[None, :], (len(x), len(self.hidden_bias)))
        return jax.lax.fori_loop(0, x.shape[1], step, (x, start))[0]


@eqx.filter_jit
def _share(member: SharedHidden, a: Float[Array, "rows width"], t: Int[Array, ""]) -> Float[Array, " rows"]:
    """The probability of a one at an entry, from the activities before it."""
    return jax.nn.sigmoid(jax.nn.sigmoid(a) @ member.outputs[t] + member.bias[t])


@eqx.filter_jit
def _heard(
    member: SharedHidden, a: Float[Array, "rows width"], t: Int[Array, ""], symbols: Int[Array, " rows"]
) -> Float[Array, "rows width"]:
    """The activities after an entry."""
    return a + symbols[:, None] * member.inputs[t][None, :]


def strip_of(batch: int, entries: int, width: int) -> int:
    """How many entries are worked on at a time: whole blocks, as many as memory of the right speed holds.

    >>> strip_of(batch=4, entries=10, width=8)
    16
    """
    most = CACHED if jax.default_backend() == "cpu" else STORED
    blocks = max(1, most // (batch * width * BLOCK))
    return BLOCK * min(blocks, -(-entries // BLOCK))


def _sweep(
    a: Float[Array, "batch width"], strip: tuple[Array, Array, Array]
) -> tuple[Float[Array, "batch width"], Float[Array, "batch entries"]]:
    """Logits of a strip of entries from the activities before it, and the activities after it."""
    x, inputs, outputs = strip
    batch, entries = x.shape
    blocks = entries // BLOCK
    x = x.reshape(batch, blocks, BLOCK).swapaxes(0, 1)
    inputs, outputs = (w.reshape(blocks, BLOCK, -1) for w in (inputs, outputs))
    moves = jnp.einsum("kbt,kth->kbh", x, inputs, preferred_element_type=a.dtype)
    after = a[None] + jnp.cumsum(moves, axis=0)
    earlier = jnp.tril(jnp.ones((BLOCK, BLOCK), x.dtype), -1)
    seen = (x[:, :, None, :] * earlier[None, None]).reshape(blocks, batch * BLOCK, BLOCK)
    within = jnp.einsum("kns,ksh->knh", seen, inputs).reshape(blocks, batch, BLOCK, -1)
    hidden = jax.nn.sigmoid(within + (after - moves)[:, :, None, :].astype(within.dtype))
    logits = (hidden * outputs[:, None]).sum(axis=-1)
    return after[-1], logits.swapaxes(0, 1).reshape(batch, entries)


def build(config: NADEConfig, schema: Schema, key: Key) -> VectorModel:
    """A fresh model."""
    require_binary("nade", schema, "chainrule train made")
    key_order, *keys = jax.random.split(key, 1 + config.ensemble)
    members = tuple(SharedHidden(schema.dimensions, config.width, k) for k in keys)
    return ensemble(members, config, schema, key_order)


__all__ = ["BLOCK", "NADEConfig", "SharedHidden", "build", "strip_of"]
