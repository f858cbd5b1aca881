"""Games of features: what a function gives when only some features of its inputs are present.

One compiled program runs over inputs x coalitions x samples of the masker, in blocks of one shape that fit a memory
budget and, on a CPU, its caches; what is left of the last block is filled up, so that nothing is compiled twice.
Functions on the host get their mixed inputs in the same blocks.
"""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from chainrule.core.compiling import compiled
from chainrule.core.errors import DataError
from chainrule.derive import memory_budget
from chainrule.derive.jaxprs.cost import nbytes
from chainrule.derive.jaxprs.equations import inner_programs
from chainrule.explain.methods.affine_parts import AffineParts, affine_parts
from chainrule.explain.methods.functions import Function, HostFunction, one_output
from chainrule.explain.methods.shapley.games import Masks, Worths, coalition_name
from chainrule.explain.methods.shapley.maskers.masker import Masker
from chainrule.explain.methods.shapley.maskers.replacing import Replacing

_CPU_BLOCK = 12 << 20
"""Bytes that a CPU computes at once: what its caches hold is several times as fast as its memory."""
_LARGEST_BLOCK = 1 << 20
"""Evaluations in one block at most."""
_FEW = 128
"""Coalitions of a call where few are left: a program of its own, so that little is computed in vain."""
_LOOP = 1 << 17
"""Evaluations of one call, in a loop over blocks: calling a program takes as long as a small block."""


@final
class MaskedFunction:
    """The worth of coalitions of features, for a batch of inputs: a function of masks, as `CoalitionGame` takes it."""

    def __init__(
        self,
        f: Function,
        x: np.ndarray,
        masker: Masker,
        output: int = 0,
        memory: str | int | None = None,
    ) -> None:
        self.f, self.x, self.masker, self.output = f, x, masker, output
        self.evaluations = 0
        """Inputs that the function was evaluated at."""
        self.inputs = jnp.asarray(x)
        # Without products the mean over background rows takes a tenth less time.
        self._even = isinstance(masker, Replacing) and bool(np.ptp(np.asarray(masker.weights)) == 0)
        self.most, self.loops = self._limits(memory_budget.parse("shapley", memory))
        most, loops = self.most, self.loops
        samples = masker.samples
        parts = -(-len(x) * samples // most)
        self._rows = -(-len(x) // min(parts, len(x)))
        possible = 1 << min(len(masker.names), 20)
        each = self._rows * samples
        self._block = _power(min(most // each, possible))
        large = self._block * _power(min(loops // (self._block * each), possible // self._block))
        self._sizes = (large, min(large, _FEW))
        self._pieces = -(-samples // most)

    def cost(self, coalitions: int) -> int:
        """Evaluations of the function for so many coalitions of every input."""
        return coalitions * len(self.x) * self.masker.samples

    def __call__(self, masks: Masks) -> Worths:
        """What each coalition is worth for each input, (batch, coalitions)."""
        found = np.empty((len(self.x), len(masks)))
        # Results are fetched after all blocks have been started: devices work while the host prepares the next.
        pending = []
        start = 0
        while start < len(masks):
            size = next((size for size in self._sizes if size <= len(masks) - start), self._sizes[-1])
            columns = _filled(start, size, len(masks))
            for first in range(0, len(self.x), self._rows):
                rows = _filled(first, self._rows, len(self.x))
                pending.append((first, start, self._worths(rows, masks[columns])))
            start += size
        for first, start, block in pending:
            part = found[first : first + self._rows, start : start + block.shape[1]]
            part[...] = np.asarray(block)[: part.shape[0], : part.shape[1]]
        self.evaluations += self.cost(len(masks))
        self._check(found, masks)
        return found

    def _worths(self, rows: np.ndarray, masks: np.ndarray) -> Any:
        given = (self.masker, self.inputs[rows] if len(rows) < len(self.x) else self.inputs, rows, masks)
        if self._pieces == 1 and not isinstance(self.f, HostFunction):
            return _compiled_worths(self.f, *given, self.output, min(self._block, len(masks)), self._even)
        inputs, weights = _mixed_inputs(*given)
        flat = inputs.reshape(-1, *inputs.shape[3:])
        size = -(-len(flat) // (self._pieces * len(rows) * len(masks))) if self._pieces > 1 else len(flat)
        together = self.values(flat, size).reshape(weights.shape)
        return (together * np.asarray(weights)).sum(axis=-1).T

    def values(self, inputs: Array, size: int) -> np.ndarray:
        """The output in question at many inputs, `size` of them at a time."""
        of = _called if not isinstance(self.f, HostFunction) else lambda f, x: f(np.asarray(x))
        parts = (inputs[start : start + size] for start in range(0, len(inputs), size))
        return np.concatenate([np.asarray(one_output(of(self.f, part), self.output)) for part in parts])

    def _limits(self, budget: int) -> tuple[int, int]:
        """How many inputs may be evaluated at once, and how many in a loop that is one program."""
        one = jax.ShapeDtypeStruct((1, *self.inputs.shape[1:]), self.inputs.dtype)
        each, loops = 4 * one.size * one.dtype.itemsize, 0
        if not isinstance(self.f, HostFunction):
            program = jax.make_jaxpr(lambda x: self.f(x))(one)
            each += _bytes_of(program)
            # XLA's convolutions use one core inside of loops on CPUs, and take many times as long.
            loops = 0 if _convolves(program) else _LOOP
        on_cpu = jax.default_backend() == "cpu"
        wanted = min(budget, _CPU_BLOCK) if on_cpu else budget // 4
        return int(min(max(wanted // each, 1), _LARGEST_BLOCK)), loops if on_cpu else 0

    def _check(self, found: np.ndarray, masks: Masks) -> None:
        bad = np.argwhere(~np.isfinite(found))
        if bad.size:
            row, column = bad[0]
            raise DataError(
                f"shapley: f gives {found[row, column]} for row {row} with "
                f"{coalition_name(masks[column], self.masker.names)} present",
                remedy="f must be finite for mixtures of the input and the background",
            )


def _power(most: int) -> int:
    """The largest power of two that is at most so large, or 1: blocks then fit into each other."""
    return 1 << (max(most, 1).bit_length() - 1)


def _filled(start: int, size: int, count: int) -> np.ndarray:
    """Indices of a block of one size; past the end the last one is repeated."""
    return np.minimum(np.arange(start, start + size), count - 1)


def _bytes_of(program: Any) -> int:
    """Bytes of all that a program computes: more than are ever alive at once."""
    total = 0
    for equation in program.eqns:
        inner = [_bytes_of(part) for part in inner_programs(equation)]
        total += sum(inner) if inner else nbytes(equation.outvars)
    return total


def _convolves(program: Any) -> bool:
    return any(
        "conv_" in equation.primitive.name
        or equation.primitive.name == "convolution"
        or any(_convolves(part) for part in inner_programs(equation))
        for equation in program.eqns
    )


def _mixed(
    masker: Masker, x: Array, rows: Any, masks: Any
) -> tuple[Array, Float[Array, "coalitions rows samples"]]:
    def of(mask: Bool[Array, " players"]) -> tuple[Array, Array]:
        inputs, weights = jax.vmap(lambda row, which: masker.mixed(row, mask, which))(x, rows)
        return inputs, weights

    found: tuple[Array, Array] = jax.vmap(of)(jnp.asarray(masks))
    return found


@compiled
def _mixed_inputs(masker: Masker, x: Array, rows: Any, masks: Any) -> tuple[Array, Array]:
    return _mixed(masker, x, rows, masks)


@compiled
def _compiled_worths(
    f: Function, masker: Masker, x: Array, rows: Any, masks: Any, output: int, block: int, even: bool
) -> Array:
    def of_output(x: Any) -> Any:
        return one_output(f(x), output)

    parts = None
    if isinstance(masker, Replacing) and not masker.for_each:
        parts = affine_parts(of_output, x.shape[1:], x.dtype)

    def of_block(masks: Any) -> Array:
        if parts is not None and isinstance(masker, Replacing):
            return _worths_in_parts(parts, masker, x, masks, even)
        inputs, weights = _mixed(masker, x, rows, masks)
        out = of_output(inputs.reshape(-1, *inputs.shape[3:]))
        return (out.reshape(weights.shape) * weights).sum(axis=-1)

    blocks = jnp.asarray(masks).reshape(-1, block, masks.shape[1])
    found = of_block(blocks[0]) if len(blocks) == 1 else jax.lax.map(of_block, blocks)
    return found.reshape(len(masks), len(x)).T


def _worths_in_parts(
    parts: AffineParts, masker: Replacing, x: Array, masks: Any, even: bool
) -> Float[Array, "coalitions batch"]:
    """The same without computing affine layers for every pair of an input and a background row."""
    own, lent = jax.vmap(lambda mask: masker.summands(x, mask))(jnp.asarray(masks))
    flat = [part.reshape(-1, *x.shape[1:]) for part in (own, lent, jnp.zeros_like(x[:1]))]
    ones, others, zeros = (parts.first(part) for part in flat)
    sizes = (len(own), own.shape[1], lent.shape[1])
    mixed = []
    for one, other, zero in zip(ones, others, zeros, strict=True):
        shape = one.shape[1:]
        rows = one.reshape(sizes[0], sizes[1], 1, *shape)
        columns = (other - zero).reshape(sizes[0], 1, sizes[2], *shape)
        mixed.append((rows + columns).reshape(-1, *shape))
    weights = None if even else masker.weights
    means = [_mean_over_samples(value, sizes, weights) for value in parts.middle(mixed)]
    return parts.last(means).reshape(sizes[:2])


def _mean_over_samples(
    value: Array, sizes: tuple[int, int, int], weights: Float[Array, " samples"] | None
) -> Array:
    apart = value.reshape(sizes[0] * sizes[1], sizes[2], *value.shape[1:])
    if weights is None:
        return apart.mean(axis=1)
    scale = weights.astype(value.dtype).reshape(1, -1, *(1 for _ in value.shape[1:]))
    return (apart * scale).sum(axis=1)


@compiled
def _called(f: Function, x: Array) -> Array:
    return f(x)


__all__ = ["MaskedFunction"]
