"""Beam search: several texts at once, of which the prefixes that an order puts first are kept and extended.

`BestFirst` keeps the likeliest prefixes. The two stochastic orders draw texts without replacement: `Resampled` draws
anew which prefixes live on at every step; `GumbelTopK` perturbs every complete text once, consistently from step to
step, so that its beams are an exact sample of distinct texts from the model (Kool, van Hoof and Welling, "Stochastic
beams and where to find them", 2019). With a beam wider than the tree, all three see every text.
"""

import abc
from collections.abc import Sequence
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Bool

from chainrule.core import random
from chainrule.core.types import Array, Float, Int, Key
from chainrule.models.protocol.decoding.rules import Rules
from chainrule.models.protocol.decoding.sampling import END, Advance, mark
from chainrule.models.protocol.text import DecodingState


class BeamOrder(eqx.Module):
    """Which prefixes come first."""

    @abc.abstractmethod
    def rank(
        self,
        key: Key,
        totals: Float[Array, "beams choices"],
        parents: Float[Array, " beams"],
        lengths: Int[Array, " beams"],
    ) -> Float[Array, "beams choices"]:
        """The rank of each extension, the higher the better: from its log-probability, the rank of the prefix it
        extends, and how long it is."""


@final
class BestFirst(BeamOrder):
    """By log-probability over `((5 + length) / 6)^penalty`: above zero longer texts gain (Wu et al., 2016)."""

    penalty: Float[Array, ""]

    def rank(
        self,
        key: Key,  # noqa: ARG002  # nothing is drawn
        totals: Float[Array, "beams choices"],
        parents: Float[Array, " beams"],  # noqa: ARG002  # the log-probability says it all
        lengths: Int[Array, " beams"],
    ) -> Float[Array, "beams choices"]:
        """Log-probabilities, made comparable across lengths."""
        return totals / (((5.0 + lengths) / 6.0) ** self.penalty)[:, None]


@final
class Resampled(BeamOrder):
    """Drawn without replacement with probability proportional to `exp(log p / temperature)`, anew at every step."""

    temperature: Float[Array, ""]

    def rank(
        self,
        key: Key,
        totals: Float[Array, "beams choices"],
        parents: Float[Array, " beams"],  # noqa: ARG002  # every step is drawn by itself
        lengths: Int[Array, " beams"],  # noqa: ARG002
    ) -> Float[Array, "beams choices"]:
        """Log-probabilities with Gumbel noise, whose largest entries are such a draw."""
        return totals / self.temperature + jax.random.gumbel(key, totals.shape, totals.dtype)


@final
class GumbelTopK(BeamOrder):
    """Perturbed log-probabilities, drawn so that the largest among the extensions of a prefix has its rank."""

    def rank(
        self,
        key: Key,
        totals: Float[Array, "beams choices"],
        parents: Float[Array, " beams"],
        lengths: Int[Array, " beams"],  # noqa: ARG002  # a text is perturbed once, whatever its length
    ) -> Float[Array, "beams choices"]:
        """`-log(exp(-parent) - exp(-largest) + exp(-noisy))`, without overflow."""
        alive = totals > -jnp.inf
        noisy = jnp.where(alive, totals + jax.random.gumbel(key, totals.shape, totals.dtype), -jnp.inf)
        largest = noisy.max(axis=1, keepdims=True)
        below = jnp.where(alive, noisy - largest, -1.0)  # -1: any number, for entries that do not count
        v = jnp.where(alive, parents[:, None] - noisy, 0.0) + jnp.log(-jnp.expm1(below))
        rank = parents[:, None] - jnp.maximum(v, 0.0) - jnp.log1p(jnp.exp(-jnp.abs(v)))
        return jnp.where(alive, rank, -jnp.inf)


@final
class Beams(eqx.Module):
    """Texts for each row, the first in the order first."""

    tokens: Int[Array, "batch beams length"]
    """`END` from the end of a text on; the token that stopped it is not kept."""
    log_probs: Float[Array, "batch beams"]
    """Log-probability of each text under the rules, its end included; minus infinity where there were fewer texts."""
    ranks: Float[Array, "batch beams"]
    """What they are ordered by."""


@final
class _Search(eqx.Module):
    """Everything that changes from step to step; rows are those of all beams, one batch row after the other."""

    state: DecodingState
    tokens: Int[Array, "rows length"]
    totals: Float[Array, " rows"]
    ranks: Float[Array, " rows"]
    lengths: Int[Array, " rows"]
    ended: Bool[Array, " rows"]
    seen: Bool[Array, "rows vocabulary"] | None


@eqx.filter_jit
def search(
    advance: Advance,
    state: DecodingState,
    logits: Float[Array, "batch vocabulary"],
    key: Key,
    rules: Rules,
    order: BeamOrder,
    *,
    length: int,
    beams: int,
    branch: int | None = None,
    stop: Sequence[int] = (),
    seen: Bool[Array, "batch vocabulary"] | None = None,
) -> Beams:
    """Up to `length` tokens for each of `beams` texts per row, compiled as one loop.

    `state` is the state after the beginning, `logits` are those of what follows. A prefix is extended by every token,
    or by its `branch` likeliest ones. A text that a token of `stop` has ended keeps its place and its
    log-probability, and is compared with the others until the end. `seen` marks tokens that came already, for the
    repetition rule; every beam goes on from there with its own. Log-probabilities are those under the rules.
    """
    batch = len(logits)
    rows = jnp.repeat(jnp.arange(batch), beams)
    first = jnp.arange(batch * beams) % beams == 0  # at first there is one prefix only, the empty one
    kind = rules.apply(logits, seen).dtype
    start = _Search(
        state.fork(rows),
        jnp.full((batch * beams, length), END, jnp.int32),
        jnp.where(first, 0.0, -jnp.inf).astype(kind),
        jnp.where(first, 0.0, -jnp.inf).astype(kind),
        jnp.zeros(batch * beams, jnp.int32),
        jnp.zeros(batch * beams, bool),
        None if seen is None else seen[rows],
    )

    def extend(i: Array, before: _Search, logits: Array) -> _Search:
        return _extend(
            i, before, rules.apply(logits, before.seen), key, order, (batch, beams, branch), tuple(stop)
        )

    def unfinished(carry: tuple[Array, _Search]) -> Array:
        return (carry[0] < length) & ~carry[1].ended.all()

    def body(carry: tuple[Array, _Search]) -> tuple[Array, _Search]:
        i, before = carry
        last = jnp.maximum(before.tokens[:, i - 1], 0)  # what an ended text is given to read does not matter
        logits, state = advance(before.state, last[:, None])
        return i + 1, extend(i, eqx.tree_at(lambda s: s.state, before, state), logits[:, -1])

    carry = (jnp.ones((), jnp.int32), extend(jnp.zeros((), jnp.int32), start, logits[rows]))
    found: _Search = jax.lax.while_loop(unfinished, body, carry)[1]
    shape = (batch, beams)
    return Beams(
        found.tokens.reshape(*shape, length), found.totals.reshape(shape), found.ranks.reshape(shape)
    )


def _extend(
    i: Array,
    before: _Search,
    log_probs: Float[Array, "rows vocabulary"],
    key: Key,
    order: BeamOrder,
    sizes: tuple[int, int, int | None],
    stop: tuple[int, ...],
) -> _Search:
    """One more token for every beam."""
    batch, beams, branch = sizes
    size = log_probs.shape[1]
    width = size if branch is None else min(branch, size)
    values, tokens = log_probs, jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), log_probs.shape)
    if width < size:
        values, tokens = jax.lax.top_k(log_probs, width)
    only = jnp.arange(width) == 0  # an ended text has a single extension, itself
    totals = before.totals[:, None] + jnp.where(
        before.ended[:, None], jnp.where(only, 0.0, -jnp.inf)[None, :], values
    )
    lengths = before.lengths + ~before.ended

    def choose(row: Array, totals: Array, parents: Array, lengths: Array) -> tuple[Array, Array]:
        noise = random.at(random.at(key, row), i)
        ranks, indices = jax.lax.top_k(order.rank(noise, totals, parents, lengths).ravel(), beams)
        return ranks, indices

    by_row: Any = [a.reshape(batch, beams, *a.shape[1:]) for a in (totals, before.ranks, lengths)]
    ranks, chosen = jax.vmap(choose)(jnp.arange(batch), *by_row)
    parent = (jnp.arange(batch)[:, None] * beams + chosen // width).ravel()
    choice = (chosen % width).ravel()
    token = tokens[parent, choice]
    ended = before.ended[parent] | (token[:, None] == jnp.array(stop, token.dtype)[None, :]).any(axis=1)
    return _Search(
        before.state.fork(parent),
        before.tokens[parent].at[:, i].set(jnp.where(ended, END, token)),
        totals[parent, choice],
        ranks.ravel(),
        lengths[parent],
        ended,
        None if before.seen is None else mark(before.seen[parent], token),
    )


__all__ = ["BeamOrder", "Beams", "BestFirst", "GumbelTopK", "Resampled", "search"]
