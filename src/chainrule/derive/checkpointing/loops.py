"""Loops with a fixed number of steps (`jax.lax.scan`), run so that the reverse pass stores less.

Segments are a scan of scans: the outer one stores the state at the start of every segment, the inner one is computed
again. A binomial schedule is a loop over the steps, the last first, with a stack of snapshots: the program is as long
for a thousand steps as for ten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from chainrule.core.recomputation import (
    Function,
    Recomputation,
    chosen,
    is_inexact,
    merged,
    recomputed,
    run,
)
from chainrule.core.scans import scan_parts
from chainrule.derive.checkpointing import binomial
from chainrule.derive.jaxprs import cost
from chainrule.derive.jaxprs import equations as eqs
from chainrule.derive.memory_timeline.roles import moving_through_loop


@final
@dataclass(frozen=True, eq=False)
class CountedLoop:
    """`length` runs of a body: (constants, state, slices) -> (state, slices)."""

    body: ClosedJaxpr
    constants: int
    carried: int
    length: int
    reverse: bool

    @classmethod
    def of_equation(cls, equation: Any) -> "CountedLoop":
        """The loop of a `scan` equation."""
        parts = scan_parts(equation)
        body = eqs.closed(equation.params["jaxpr"])
        return cls(body, parts.constants, parts.carried, parts.length, parts.reverse)

    @property
    def flops(self) -> int:
        """Operations of one step."""
        return cost.program_flops(self.body)

    @property
    def nbytes(self) -> int:
        """Bytes of all values that are computed in all steps."""
        return self.length * sum(cost.nbytes(equation.outvars) for equation in self.body.eqns)

    @property
    def state(self) -> Sequence[Any]:
        """The variables of the state."""
        return self.body.jaxpr.outvars[: self.carried]

    @property
    def slices(self) -> Sequence[Any]:
        """The variables of the slices that go in and out."""
        inner = self.body.jaxpr
        return [*inner.invars[self.constants + self.carried :], *inner.outvars[self.carried :]]

    def divide(self, operands: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Constants, state and arrays of slices."""
        end = self.constants + self.carried
        return list(operands[: self.constants]), list(operands[self.constants : end]), list(operands[end:])

    def step(self, constants: Sequence[Any], state: Any, now: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The next state and what is put out."""
        results = jaxpr_as_fun(self.body)(*constants, *state, *now)
        return tuple(results[: self.carried]), list(results[self.carried :])

    def index(self, step: Any) -> Any:
        """Which slice a step consumes."""
        return self.length - 1 - step if self.reverse else step


def stored(loop: CountedLoop, *operands: Any) -> list[Any]:
    """The loop as JAX runs it: the reverse pass stores every step."""
    constants, state, slices = loop.divide(operands)
    return _scan(loop, constants, tuple(state), slices, loop.length)


def segments(loop: CountedLoop, segment: int) -> tuple[int, int]:
    """How many segments are computed again, and how many steps after them are stored."""
    count, rest = divmod(loop.length, segment)
    small = loop.length * cost.nbytes(loop.slices) <= cost.nbytes(loop.state)
    if not rest and (small or count == 1):
        # The last segment is reversed as soon as it has run; setting it apart copies slices, so these must be small.
        return count - 1, segment
    return count, rest


def segmented(loop: CountedLoop, segment: int, *operands: Any) -> list[Any]:
    """The loop in segments of so many steps, which the reverse pass computes again one by one."""
    constants, state, slices = loop.divide(operands)
    count, rest = segments(loop, segment)
    if not count:
        return stored(loop, *operands)
    whole = count * segment
    # A loop over slices from the last to the first leaves the odd ones at the start.
    first = slice(rest, None) if loop.reverse else slice(0, whole)
    second = slice(0, rest) if loop.reverse else slice(whole, None)

    def inner(constants: Any, state: Any, slices: Any) -> Any:
        results = _scan(loop, constants, state, slices, segment)
        return tuple(results[: loop.carried]), results[loop.carried :]

    parts = [one[first].reshape(count, segment, *one.shape[1:]) for one in slices]
    if count == 1:  # the compiler would write out a loop of one step
        after, made = recomputed(inner)(constants, tuple(state), [one[0] for one in parts])
        made = [one[None] for one in made]
    else:
        again = jax.checkpoint(inner, prevent_cse=False)  # loops are not merged
        after, made = jax.lax.scan(
            lambda carry, now: again(constants, carry, now),
            tuple(state),
            parts,
            length=count,
            reverse=loop.reverse,
        )
    made = [one.reshape(whole, *one.shape[2:]) for one in made]
    if not rest:
        return [*after, *made]
    results = _scan(loop, constants, after, [one[second] for one in slices], rest)
    last = results[loop.carried :]
    pairs = zip(last, made, strict=True) if loop.reverse else zip(made, last, strict=True)
    return [*results[: loop.carried], *(jnp.concatenate(pair) for pair in pairs)]


def revolved(loop: CountedLoop, snapshots: int, *operands: Any) -> list[Any]:
    """The loop with so many snapshots, placed for the fewest steps computed again."""
    if loop.length < 2:
        return stored(loop, *operands)
    return run(_Revolved(loop, snapshots), *operands)


def _scan(loop: CountedLoop, constants: Any, state: Any, slices: Any, length: int) -> list[Any]:
    after, made = jax.lax.scan(
        lambda carry, now: loop.step(constants, carry, now),
        state,
        slices,
        length=length,
        reverse=loop.reverse,
    )
    return [*after, *made]


@final
class _Revolved(Recomputation):
    """A loop under a binomial schedule."""

    def __init__(self, loop: CountedLoop, snapshots: int) -> None:
        self._loop = loop
        self._snapshots = snapshots
        self._schedule = binomial.schedule(loop.length, snapshots)

    def run(self, *operands: Any) -> Sequence[Any]:
        return stored(self._loop, *operands)

    def definition(self, *operands: Any) -> Sequence[Any]:
        return segmented(self._loop, max(int(self._loop.length**0.5), 1), *operands)

    def reverse(self, moving: Sequence[bool], operands: Sequence[Any]) -> tuple[Function, Function]:
        del operands
        return self._forward, lambda *values: self._backward(moving, values)

    def batched(
        self, operands: Sequence[Any], axes: Sequence[int | None]
    ) -> tuple[Recomputation, Sequence[Any], Sequence[int]]:
        loop = self._loop
        (size,) = {x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None}
        constants, state, slices = loop.divide(operands)
        of_constants, of_state, of_slices = loop.divide(axes)
        state = [_front(one, axis, size) for one, axis in zip(state, of_state, strict=True)]
        slices = [
            one if axis is None else jnp.moveaxis(one, axis, 1)
            for one, axis in zip(slices, of_slices, strict=True)
        ]
        inside = (*of_constants, *[0] * len(state), *(None if axis is None else 0 for axis in of_slices))
        body = jax.vmap(jaxpr_as_fun(loop.body), inside)
        now = [jax.ShapeDtypeStruct(one.shape[1:], one.dtype) for one in slices]
        program = jax.make_jaxpr(body)(*constants, *state, *now)
        rule = _Revolved(
            CountedLoop(program, loop.constants, loop.carried, loop.length, loop.reverse), self._snapshots
        )
        made = len(loop.body.jaxpr.outvars) - loop.carried
        return rule, (*constants, *state, *slices), (*[0] * loop.carried, *[1] * made)

    def _forward(self, *operands: Any) -> list[Any]:
        """The results, and the states at the snapshots."""
        loop = self._loop
        constants, state, slices = loop.divide(operands)
        sweep = np.array(self._schedule.sweep)
        begins = np.cumsum(sweep) - sweep
        shapes = jax.eval_shape(self.run, *operands)[loop.carried :]
        made = [jax.lax.full_like(one, 0) for one in shapes]
        snapshots = [jnp.broadcast_to(one, (self._schedule.slots, *one.shape)) for one in state]

        def one_step(step: Any, carry: Any) -> Any:
            state, made = carry
            index = loop.index(step)
            state, out = loop.step(constants, state, _at(slices, index))
            return state, _put(made, out, index)

        def one_run(carry: Any, table: Any) -> Any:
            state, made, snapshots = carry
            slot, begin, steps = table
            snapshots = _put(snapshots, state, slot)
            state, made = jax.lax.fori_loop(begin, begin + steps, one_step, (state, made))
            return (state, made, snapshots), None

        tables = (np.arange(len(sweep)), begins, sweep)
        (after, made, snapshots), _ = jax.lax.scan(one_run, (tuple(state), made, snapshots), tables)
        return [*after, *made, *snapshots]

    def _backward(self, moving: Sequence[bool], values: Sequence[Any]) -> list[Any]:
        """The cotangents of the moving operands."""
        loop, schedule = self._loop, self._schedule
        count = len(moving)
        constants, initial, slices = loop.divide(values[:count])
        snapshots, seeds = list(values[count : count + loop.carried]), list(values[count + loop.carried :])
        depends = moving_through_loop(loop.body, moving, loop.constants, loop.carried)[: loop.carried]
        numbers = [is_inexact(one) for one in initial]
        active = [yes and one for yes, one in zip(depends, numbers, strict=True)]
        seeds_of_state = chosen(chosen(numbers, active), seeds[: sum(numbers)])
        seeds_of_made = seeds[sum(numbers) :]
        of_constants, of_state, of_slices = loop.divide(moving)
        stores = [np.array(column) for column in zip(*(schedule.stores or [(0, 0, 0)]), strict=True)]

        def advance(state: Any, begin: Any, steps: Any) -> Any:
            return jax.lax.fori_loop(
                begin,
                begin + steps,
                lambda step, state: loop.step(constants, state, _at(slices, loop.index(step)))[0],
                state,
            )

        def store(number: Any, snapshots: Any) -> Any:
            slot, begin, steps = (jnp.asarray(column)[number] for column in stores)
            return _put(snapshots, advance(tuple(_at(snapshots, slot)), begin, steps), slot + 1)

        def reverse(carry: Any, row: Any) -> Any:
            done, snapshots, pulled, sums, made = carry
            number, slot, begin, steps = row
            snapshots = jax.lax.fori_loop(done, done + number, store, snapshots)
            state = advance(tuple(_at(snapshots, slot)), begin, steps)
            index = loop.index(begin + steps)
            now = _at(slices, index)

            def step(constants_: Any, state_: Any, now_: Any) -> list[Any]:
                after, out = loop.step(
                    merged(of_constants, constants_, constants),
                    merged(active, state_, state),
                    merged(of_slices, now_, now),
                )
                return [*chosen(active, after), *(one for one in out if is_inexact(one))]

            _, pull = jax.vjp(
                step, chosen(of_constants, constants), chosen(active, state), chosen(of_slices, now)
            )
            by_constants, pulled, by_now = pull([*pulled, *_at(seeds_of_made, index)])
            sums = [a + b for a, b in zip(sums, by_constants, strict=True)]
            return (done + number, snapshots, pulled, sums, _put(made, by_now, index)), None

        rows = tuple(np.array(column) for column in zip(*schedule.reversals, strict=True))
        sums = [jnp.zeros_like(one) for one in chosen(of_constants, constants)]
        made = [jnp.zeros_like(one) for one in chosen(of_slices, slices)]
        start = (np.zeros((), rows[0].dtype), snapshots, seeds_of_state, sums, made)
        (_, _, pulled, sums, made), _ = jax.lax.scan(reverse, start, rows)
        return [*sums, *chosen(chosen(active, of_state), pulled), *made]


def _at(arrays: Sequence[Any], index: Any) -> list[Any]:
    return [jax.lax.dynamic_index_in_dim(one, index, 0, keepdims=False) for one in arrays]


def _put(arrays: Sequence[Any], parts: Sequence[Any], index: Any) -> list[Any]:
    return [
        jax.lax.dynamic_update_index_in_dim(one, part, index, 0)
        for one, part in zip(arrays, parts, strict=True)
    ]


def _front(value: Any, axis: int | None, size: int) -> Any:
    return jnp.broadcast_to(value, (size, *value.shape)) if axis is None else jnp.moveaxis(value, axis, 0)


__all__ = ["CountedLoop", "revolved", "segmented", "segments", "stored"]
