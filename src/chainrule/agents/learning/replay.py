"""Replay: the latest steps of an agent in a ring on the device, to be learnt from again in any order.

Several environments may run side by side (worlds). They are written in blocks, one after another in time, so that a
block is one slice of the ring and is written in place; what follows a step in its own world lies one row of worlds
further on, which is all that returns over several steps need. Steps are drawn uniformly (Lin, 1992; Mnih et al., 2015)
or in proportion to a priority (Schaul et al., 2016); what the latter distorts, importance weights put right.
"""

import math
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule.core.types import Array, ArrayLike, Float, Int, Tree

_LEAST_ERROR = 1e-6
"""Added to errors, so that a step that was foreseen may still come up."""


@final
class Replay(eqx.Module):
    """A ring of steps; `rows` is any PyTree with one row for each step of each world."""

    rows: Tree
    """Leaves of shape (slots * worlds, ...): slot by slot, in each the worlds in order."""
    written: Int[Array, ""]
    """Slots written since the beginning."""
    worlds: int = eqx.field(static=True)

    @classmethod
    def empty(cls, step: Tree, *, slots: int, worlds: int) -> "Replay":
        """A ring for steps like this one; only shapes and types of it are read."""
        rows = jax.tree.map(lambda leaf: jnp.zeros((slots * worlds, *leaf.shape), leaf.dtype), step)
        return cls(rows, jnp.zeros((), jnp.int32), worlds)

    @property
    def slots(self) -> int:
        """Moments in time that the ring holds, each with a step of every world."""
        return len(jax.tree.leaves(self.rows)[0]) // self.worlds

    @property
    def filled(self) -> Int[Array, ""]:
        """Slots that hold a step."""
        return jnp.minimum(self.written, self.slots)

    def add(self, block: Tree) -> "Replay":
        """The ring with a block of steps in the position of the oldest.

        Leaves of the block have shape (time, worlds, ...); the length of time must divide the slots, and be the same in
        every call: a block then never runs over the end of the ring, and one slice of memory is written.
        """

        def put(rows: Array, new: Array) -> Array:
            flat = new.reshape(-1, *rows.shape[1:]).astype(rows.dtype)
            return jax.lax.dynamic_update_slice_in_dim(rows, flat, self.head, axis=0)

        moved = self.written + len(jax.tree.leaves(block)[0])
        return Replay(jax.tree.map(put, self.rows, block), moved, self.worlds)

    @property
    def head(self) -> Int[Array, ""]:
        """The row that is written next."""
        return (self.written % self.slots) * self.worlds

    def first_rows(self, levels: Float[Array, " batch"], span: int) -> Int[Array, " batch"]:
        """Uniform rows, from numbers in [0, 1), after each of which `span` - 1 more steps of its world are known."""
        choices = jnp.maximum(self.filled - (span - 1), 1) * self.worlds
        # Multiplying by whole numbers of single precision rounds up to the end now and then.
        chosen = jnp.minimum((levels * choices).astype(jnp.int32), choices - 1)
        return (self._oldest * self.worlds + chosen) % (self.slots * self.worlds)

    def complete(self, span: int) -> Array:
        """For each row whether it holds a step after which `span` - 1 more steps of its world are known."""
        age = (jnp.arange(self.slots) - self._oldest) % self.slots
        return jnp.repeat(age < self.filled - (span - 1), self.worlds)

    def following(self, rows: Int[Array, " batch"], span: int) -> Int[Array, "batch span"]:
        """For each row itself and the rows of the next steps of its world."""
        ahead = jnp.arange(span) * self.worlds
        return (rows[:, None] + ahead[None, :]) % (self.slots * self.worlds)

    @property
    def _oldest(self) -> Int[Array, ""]:
        return (self.written - self.filled) % self.slots


class Summed(NamedTuple):
    """Rewards of some steps in a row as one."""

    reward: Float[Array, " batch"]
    """Σ_k gamma^k r_k, up to an end."""
    discount: Float[Array, " batch"]
    """What the value of what follows counts: gamma^(steps), and nothing after a true end."""
    last: Int[Array, " batch"]
    """Index of the last step that counts: what follows it is what stands for the rest."""


def summed(
    rewards: Float[Array, "batch span"], terminated: Array, truncated: Array, gamma: ArrayLike
) -> Summed:
    """The first steps of an n-step return: they stop at an end of either kind.

    >>> no = jnp.zeros((1, 3), bool)
    >>> cut = jnp.array([[False, True, False]])
    >>> [float(x[0]) for x in summed(jnp.ones((1, 3)), no, cut, 0.5)]
    [1.5, 0.25, 1.0]
    >>> [float(x[0]) for x in summed(jnp.ones((1, 3)), cut, no, 0.5)]
    [1.5, 0.0, 1.0]
    """
    span = rewards.shape[1]
    over = (terminated | truncated)[:, :-1].astype(jnp.int32)
    reached = jnp.concatenate([jnp.ones((len(rewards), 1), bool), jnp.cumsum(over, axis=1) == 0], axis=1)
    gamma = jnp.asarray(gamma)
    powers = gamma ** jnp.arange(span)
    last = reached.sum(1) - 1
    ended = jnp.take_along_axis(terminated, last[:, None], axis=1)[:, 0]
    return Summed(
        (rewards * reached * powers[None, :]).sum(1), jnp.where(ended, 0.0, gamma ** (last + 1)), last
    )


class Priorities(NamedTuple):
    """How likely each row of a ring is to be drawn, up to a factor; new rows are as likely as any has been."""

    mass: Float[Array, " rows"]
    largest: Float[Array, ""]

    @staticmethod
    def empty(rows: int) -> "Priorities":
        """For a ring without steps."""
        return Priorities(jnp.zeros(rows), jnp.ones(()))

    def added(self, head: Int[Array, ""], count: int) -> "Priorities":
        """With so many new rows from `head` on."""
        new = jnp.broadcast_to(self.largest, (count,))
        return Priorities(jax.lax.dynamic_update_slice_in_dim(self.mass, new, head, axis=0), self.largest)

    def updated(self, rows: Int[Array, " batch"], errors: Array, exponent: ArrayLike) -> "Priorities":
        """With |error|^exponent for rows that were learnt from."""
        new = (jnp.abs(errors) + _LEAST_ERROR) ** exponent
        return Priorities(self.mass.at[rows].set(new), jnp.maximum(self.largest, new.max()))


class Prioritised(NamedTuple):
    """Rows drawn in proportion to their priorities."""

    rows: Int[Array, " batch"]
    weights: Float[Array, " batch"]
    """(n p)^-beta, over the largest of the batch: what makes an expectation over rows of an average over these."""


def prioritised(
    priorities: Float[Array, " rows"], levels: Float[Array, " batch"], beta: ArrayLike
) -> Prioritised:
    """Rows in proportion to their priorities, one from each of equal shares of the sum, and importance weights.

    `levels` are uniform numbers in [0, 1), one for each row that is wanted. A row of priority 0 is never drawn; where
    all are 0, weights are 0.
    """
    shares = (jnp.arange(len(levels)) + levels) / len(levels)
    rows = stratified(priorities, shares)
    count, total = (priorities > 0).sum(), priorities.sum()
    probabilities = priorities[rows] / jnp.where(total > 0, total, 1)
    weights = (count * probabilities) ** -jnp.asarray(beta)
    return Prioritised(rows, jnp.where(total > 0, weights / weights.max(), 0))


def stratified(mass: Float[Array, " rows"], shares: Float[Array, " batch"]) -> Int[Array, " batch"]:
    """For each share in [0, 1) of the whole mass the row at which the cumulated mass exceeds it.

    The mass is summed in blocks of about the square root of its length; the block is found first, then the row in it.
    That is a fixed handful of vector operations, where a tree of sums takes a scatter and a gather for each level; and
    sums made afresh do not drift.

    >>> stratified(jnp.array([1.0, 0.0, 3.0]), jnp.array([0.2, 0.3, 0.9])).tolist()
    [0, 2, 2]
    """
    width = max(1, math.isqrt(len(mass)))
    blocks = -(-len(mass) // width)
    table = jnp.pad(mass, (0, blocks * width - len(mass))).reshape(blocks, width)
    sums = table.sum(1)
    block, rest = _exceeding(jnp.broadcast_to(sums, (len(shares), blocks)), shares * sums.sum())
    column, _ = _exceeding(table[block], rest)
    return block * width + column


def _exceeding(mass: Float[Array, "batch n"], level: Float[Array, " batch"]) -> tuple[Array, Array]:
    """Where the cumulated mass exceeds a level, and how far into that entry the level lies."""
    ends = jnp.cumsum(mass, axis=1)
    above = ends - level[:, None]
    # Cumulated sums are rounded: the nearest entry that has any mass, first among those above the level.
    distance = jnp.where(above > 0, above, 2 * ends[:, -1:] - above)
    found = jnp.argmin(jnp.where(mass > 0, distance, jnp.inf), axis=1)
    before = jnp.take_along_axis(ends - mass, found[:, None], axis=1)[:, 0]
    return found, level - before


__all__ = ["Priorities", "Prioritised", "Replay", "Summed", "prioritised", "stratified", "summed"]
