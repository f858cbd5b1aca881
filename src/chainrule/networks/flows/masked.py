"""A masked residual network: what comes out for an entry sees the entries before it alone (Germain et al., 2015).

All outputs take one pass. Where entries become known one after another, hidden units of a degree can be computed as
soon as the entries they see are there, and never again: the whole sequence then costs about as much as one pass, not
one for each entry.
"""

import math
from typing import NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool

from chainrule.core.checks import whole
from chainrule.core.types import Array, Float, Int, Key
from chainrule.networks.flows.base import Conditions
from chainrule.networks.flows.conditioners import (
    AutoregressiveConditioner,
    EntryNumbers,
    MakeEntry,
    compressed,
)
from chainrule.networks.masked_mlp import autoregressive_masks
from chainrule.nn import Linear


@final
class MaskedBlock(eqx.Module):
    """What a block adds to the stream: two masked layers behind activations."""

    first: Linear
    second: Linear
    given: Linear | None
    """Of the condition, which every unit may see."""


@final
class MaskedResidualNetwork(AutoregressiveConditioner):
    """`numbers` outputs for each entry, strictly autoregressive, from a masked layer and residual blocks.

    Degrees of hidden units rise evenly over 1 to D - 1. Conditions pass around the masks; units of degree 0, which see
    nothing else, tell them to the first entry. Entries come in `compressed`. Outputs begin at zero.
    """

    inward: Linear
    inward_given: Linear | None
    blocks: tuple[MaskedBlock, ...]
    outward: Linear
    entries: int = eqx.field(static=True)
    numbers: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(
        self, entries: int, numbers: int, *, width: int, blocks: int, condition: int = 0, key: Key
    ) -> None:
        self.entries, self.numbers = whole("MaskedResidualNetwork", "entries", entries), numbers
        self.width = whole("MaskedResidualNetwork", "width", width)
        keys = iter(jax.random.split(key, 3 + 3 * blocks))
        # About half of the inputs of a unit are masked, which the factor 2 under the root makes up for.
        gain = math.sqrt(2)

        def conditioned() -> Linear | None:
            k = next(keys)
            return Linear(condition, width, bias=False, key=k) if condition else None

        self.inward = Linear(entries, width, gain=gain, key=next(keys))
        self.inward_given = conditioned()
        self.blocks = tuple(
            MaskedBlock(
                Linear(width, width, gain=2.0, key=next(keys)),
                Linear(width, width, gain=0.1, key=next(keys)),
                conditioned(),
            )
            for _ in range(blocks)
        )
        last = Linear(width, numbers * entries, key=next(keys))
        self.outward = jax.tree.map(jnp.zeros_like, last)

    @property
    def degrees(self) -> Int[np.ndarray, " width"]:
        """Of the hidden units, rising: a unit of degree m sees the entries 1 to m, and is seen by those after m."""
        lowest = 0 if self.inward_given is not None else 1
        count = max(self.entries - lowest, 1)
        return lowest + (np.arange(self.width) * count) // self.width

    def masks(
        self,
    ) -> tuple[Bool[Array, "entries width"], Bool[Array, "width width"], Bool[Array, "width _"]]:
        """Into hidden units, between them, and out to the entries."""
        degrees = jnp.asarray(self.degrees)
        inward, between, outward = autoregressive_masks(
            self.entries, [self.width] * 2, 1, degrees=[degrees, degrees]
        )
        return inward, between, jnp.tile(outward, (1, self.numbers))

    def __call__(self, x: Float[Array, "batch entries"], condition: Conditions = None) -> EntryNumbers:
        """The numbers of all entries in one pass."""
        inward, between, outward = self.masks()
        stream = _masked(self.inward, inward)(compressed(x)) + _said(self.inward_given, condition)
        for block in self.blocks:
            inner = _masked(block.first, between)(jax.nn.silu(stream)) + _said(block.given, condition)
            stream = stream + _masked(block.second, between)(jax.nn.silu(inner))
        out = _masked(self.outward, outward)(jax.nn.silu(stream))
        return out.reshape(len(x), self.numbers, self.entries).transpose(1, 0, 2)

    def in_sequence(
        self, known: Float[Array, "batch entries"], condition: Conditions, entry: MakeEntry
    ) -> Float[Array, "batch entries"]:
        """Entries one after another, every hidden unit computed once."""
        plan = self._plan(condition, known)
        batch, slots = len(known), plan.slots
        empty = jnp.zeros((batch, slots), known.dtype)

        def step(carry: _Carry, at: _Step) -> tuple[_Carry, Array]:
            seen = carry.x @ at.inward + at.offset
            fresh, layers = seen, []
            for number, (first, second) in enumerate(at.blocks):
                outer, inner = carry.layers[number]
                outer = _put(outer, jax.nn.silu(fresh), at.start)
                within = outer @ first[0] + first[1]
                inner = _put(inner, jax.nn.silu(within), at.start)
                fresh = fresh + inner @ second[0] + second[1]
                layers.append((outer, inner))
            last = _put(carry.last, jax.nn.silu(fresh), at.start)
            numbers = (last @ at.outward[0] + at.outward[1][None]).T
            made = entry(at.known, numbers)
            return _Carry(_put(carry.x, compressed(made[:, None]), at.position), tuple(layers), last), made

        begin = _Carry(jnp.zeros_like(known), ((empty, empty),) * len(self.blocks), empty)
        return jax.lax.scan(step, begin, plan.steps)[1].T

    def _plan(self, condition: Conditions, known: Float[Array, "batch entries"]) -> "_Plan":
        """Weights cut into the steps at which units become computable, each step's as many, empty ones among them."""
        inward, between, outward = self.masks()
        # A unit of degree m is computed in step m, before entry m + 1: with lowest degree 1, step 0 has none.
        degrees = self.degrees
        counts = np.bincount(degrees, minlength=self.entries)[: self.entries]
        size = max(int(counts.max()), 1)
        slots = self.entries * size
        of_slot = np.full(slots, self.width)  # the position after the last unit: an empty one
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        for m, (start, count) in enumerate(zip(starts, counts, strict=True)):
            of_slot[m * size : m * size + count] = start + np.arange(count)

        def columns(matrix: Array) -> Array:
            """Columns by step: `[step, rows, size]`."""
            padded = jnp.concatenate([matrix, jnp.zeros((matrix.shape[0], 1), matrix.dtype)], axis=1)
            return padded[:, of_slot].reshape(-1, self.entries, size).transpose(1, 0, 2)

        def rows(matrix: Array) -> Array:
            padded = jnp.concatenate([matrix, jnp.zeros((1, matrix.shape[1]), matrix.dtype)])
            return padded[of_slot]

        def offsets(bias: Array, said: Array) -> Array:
            """What is added for each example, by step: `[step, batch, size]`."""
            return columns(jnp.broadcast_to(bias[None], (len(known), self.width)) + said)

        blocks = []
        for block in self.blocks:
            first = columns(rows(jnp.where(between, block.first.weight, 0)))
            second = columns(rows(jnp.where(between, block.second.weight, 0)))
            assert block.first.bias is not None
            assert block.second.bias is not None
            quiet = jnp.zeros((1, 1), known.dtype)
            blocks.append(
                (
                    (first, offsets(block.first.bias, _said(block.given, condition))),
                    (second, offsets(block.second.bias, quiet)),
                )
            )
        assert self.inward.bias is not None
        assert self.outward.bias is not None
        out = rows(jnp.where(outward, self.outward.weight, 0)).reshape(slots, self.numbers, self.entries)
        out_bias = self.outward.bias.reshape(self.numbers, self.entries)
        steps = _Step(
            position=jnp.arange(self.entries),
            start=jnp.arange(self.entries) * size,
            known=known.T,
            inward=columns(jnp.where(inward, self.inward.weight, 0)),
            offset=offsets(self.inward.bias, _said(self.inward_given, condition)),
            blocks=tuple(blocks),
            outward=(out.transpose(2, 0, 1), out_bias.T),
        )
        return _Plan(steps, slots)


class _Step(NamedTuple):
    """What one step needs; stacked, what all of them do."""

    position: Array
    start: Array
    known: Array
    inward: Array
    offset: Array
    blocks: tuple[tuple[tuple[Array, Array], tuple[Array, Array]], ...]
    outward: tuple[Array, Array]


class _Plan(NamedTuple):
    steps: _Step
    slots: int


class _Carry(NamedTuple):
    """Entries made, and what units computed so far give, by layer."""

    x: Array
    layers: tuple[tuple[Array, Array], ...]
    last: Array


def _put(rows: Array, part: Array, start: Array) -> Array:
    return jax.lax.dynamic_update_slice_in_dim(rows, part.astype(rows.dtype), start, axis=1)


def _masked(layer: Linear, mask: Bool[Array, "_ _"]) -> Linear:
    return eqx.tree_at(lambda one: one.weight, layer, jnp.where(mask, layer.weight, 0))


def _said(layer: Linear | None, condition: Conditions) -> Array:
    """What a condition adds to every unit; a zero that fits anything where there is none."""
    if layer is None or condition is None:
        return jnp.zeros((1, 1))
    return layer(condition)


__all__ = ["MaskedBlock", "MaskedResidualNetwork"]
