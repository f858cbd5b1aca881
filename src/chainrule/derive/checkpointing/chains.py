"""Chains of different steps, written out, with snapshots for the reverse pass."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from chainrule.core.recomputation import (
    Function,
    Recomputation,
    chosen,
    hold,
    is_inexact,
    merged,
    run,
    without_constants,
)
from chainrule.derive.checkpointing.binomial import schedule
from chainrule.derive.memory_timeline.roles import moving_through


def revolved(stages: Sequence[Callable[[Any], Any]], snapshots: int, state: Any) -> Any:
    """Functions from state to state, one after another, with so many snapshots for the reverse pass."""
    first, tree = jax.tree.flatten(state)
    leaves = first
    programs: list[ClosedJaxpr] = []
    for stage in stages:
        out_trees: list[Any] = []

        def flat(*values: Any, stage: Any = stage, tree: Any = tree, out_trees: Any = out_trees) -> list[Any]:
            results, out_tree = jax.tree.flatten(stage(jax.tree.unflatten(tree, values)))
            out_trees.append(out_tree)
            return results

        programs.append(jax.make_jaxpr(flat)(*leaves))
        leaves = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in programs[-1].out_avals]
        tree = out_trees[0]
    if any(program.effects for program in programs):
        for stage in stages:  # JAX knows how to keep printing and the like in order
            state = jax.checkpoint(stage)(state)
        return state
    # Weights that several stages share are one operand, so that their cotangents are summed on the way.
    constants = {id(one): one for program in programs for one in program.consts}
    positions = {name: index for index, name in enumerate(constants)}
    links = tuple(
        _Link(without_constants(program), tuple(positions[id(one)] for one in program.consts))
        for program in programs
    )
    return jax.tree.unflatten(
        tree, run(_RevolvedChain(links, len(constants), snapshots), *constants.values(), *first)
    )


@final
@dataclass(frozen=True)
class _Link:
    """One step: the program of some constants and the state."""

    program: ClosedJaxpr
    constants: tuple[int, ...]

    def __call__(self, constants: Sequence[Any], state: Sequence[Any]) -> list[Any]:
        return jaxpr_as_fun(self.program)(*(constants[one] for one in self.constants), *state)

    def depends(self, constants: Sequence[bool], state: Sequence[bool]) -> list[bool]:
        """Which numbers of the next state depend on what moves."""
        moving = moving_through(self.program, [*(constants[one] for one in self.constants), *state])
        return [yes and is_inexact(one) for yes, one in zip(moving, self.program.out_avals, strict=True)]


@final
class _RevolvedChain(Recomputation):
    """A chain under a binomial schedule."""

    def __init__(self, links: tuple[_Link, ...], constants: int, snapshots: int) -> None:
        self._links = links
        self._constants = constants
        self._snapshots = snapshots
        self._schedule = schedule(len(links), snapshots)

    def run(self, *operands: Any) -> Sequence[Any]:
        return self._advance(0, len(self._links), *operands)

    def definition(self, *operands: Any) -> Sequence[Any]:
        constants, state = self._divide(operands)
        for link in self._links:
            state = jax.checkpoint(link)(constants, state)
        return state

    def reverse(self, moving: Sequence[bool], operands: Sequence[Any]) -> tuple[Function, Function]:
        del operands
        return self._forward, lambda *values: self._backward(moving, values)

    def batched(
        self, operands: Sequence[Any], axes: Sequence[int | None]
    ) -> tuple[Recomputation, Sequence[Any], Sequence[int]]:
        (size,) = {x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None}
        constants, state = self._divide(operands)
        of_constants, of_state = self._divide(axes)
        state = [
            jnp.broadcast_to(one, (size, *one.shape)) if axis is None else jnp.moveaxis(one, axis, 0)
            for one, axis in zip(state, of_state, strict=True)
        ]
        links, leaves = [], state
        for link in self._links:
            inside = (*(of_constants[one] for one in link.constants), *[0] * len(leaves))
            mapped = jax.vmap(jaxpr_as_fun(link.program), inside)
            program = jax.make_jaxpr(mapped)(*(constants[one] for one in link.constants), *leaves)
            leaves = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in program.out_avals]
            links.append(_Link(program, link.constants))
        rule = _RevolvedChain(tuple(links), self._constants, self._snapshots)
        return rule, (*constants, *state), (0,) * len(leaves)

    def _divide(self, operands: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        return list(operands[: self._constants]), list(operands[self._constants :])

    def _advance(self, begin: int, end: int, *operands: Any) -> list[Any]:
        constants, state = self._divide(operands)
        for link in self._links[begin:end]:
            state = link(constants, state)
        return state

    def _forward(self, *operands: Any) -> list[Any]:
        """The results, then the states at the snapshots and before the last step."""
        constants, state = self._divide(operands)
        kept: list[Any] = []
        begin = 0
        for steps in self._schedule.sweep[:-1]:
            state = self._advance(begin, begin + steps, *constants, *state)
            kept += state
            begin += steps
        if self._schedule.sweep[-1] > 1:
            state = self._advance(begin, len(self._links) - 1, *constants, *state)
            kept += state
        return [*self._links[-1](constants, state), *kept]

    def _backward(self, moving: Sequence[bool], values: Sequence[Any]) -> list[Any]:
        """The cotangents of the moving operands."""
        links, plan = self._links, self._schedule
        count = len(moving)
        constants, initial = self._divide(values[:count])
        of_constants, of_state = self._divide(moving)
        active = [of_state]
        for link in links:
            active.append(link.depends(of_constants, active[-1]))
        rest = list(values[count:])
        snapshots = [initial]
        last = initial
        for begin in _sums(plan.sweep[:-1]):
            last = [rest.pop(0) for _ in links[begin].program.in_avals[len(links[begin].constants) :]]
            snapshots.append(last)
        if plan.sweep[-1] > 1:
            last = [rest.pop(0) for _ in links[-1].program.in_avals[len(links[-1].constants) :]]
        results = [is_inexact(one) for one in links[-1].program.out_avals]
        pulled = [one for yes, one in zip(chosen(results, active[-1]), rest, strict=True) if yes]
        sums: dict[int, Any] = {}
        stores = iter(plan.stores)

        def advanced(slot: int, begin: int, steps: int) -> list[Any]:
            def advance(*operands: Any) -> list[Any]:
                return self._advance(begin, begin + steps, *operands)

            return hold(advance, pulled, *constants, *snapshots[slot]) if steps else snapshots[slot]

        for number, slot, begin, steps in plan.reversals:
            for _ in range(number):
                full, *way = next(stores)
                snapshots[full + 1 :] = [advanced(full, *way)]
            position = begin + steps
            state = last if position == len(links) - 1 else advanced(slot, begin, steps)
            del snapshots[slot + 1 :]
            link = links[position]
            pull = _Pull(
                link, [of_constants[one] for one in link.constants], active[position], active[position + 1]
            )
            operands = [*(constants[one] for one in link.constants), *state, *pulled]
            # A state that was advanced to is new; one that was stored might be merged with the forward pass.
            found = pull(*operands) if steps else hold(pull, pulled, *operands)
            moved = chosen(pull.constants, link.constants)
            for one, more in zip(moved, found, strict=False):
                sums[one] = sums[one] + more if one in sums else more
            pulled = found[len(moved) :]
        by_constants = [
            sums[one] if one in sums else jnp.zeros_like(constants[one])
            for one in chosen(of_constants, range(len(constants)))
        ]
        return [*by_constants, *pulled]


@final
@dataclass(frozen=True)
class _Pull:
    """The reverse product of one step: of its constants, the state and the cotangents of the next state."""

    link: _Link
    constants: Sequence[bool]
    before: Sequence[bool]
    after: Sequence[bool]

    def __call__(self, *values: Any) -> list[Any]:
        first, second = len(self.constants), len(self.constants) + len(self.before)
        constants, state = values[:first], values[first:second]

        def step(some: Any, moved: Any) -> list[Any]:
            operands = [*merged(self.constants, some, constants), *merged(self.before, moved, state)]
            return chosen(self.after, jaxpr_as_fun(self.link.program)(*operands))

        _, pull = jax.vjp(step, chosen(self.constants, constants), chosen(self.before, state))
        by_constants, by_state = pull(list(values[second:]))
        return [*by_constants, *by_state]


def _sums(counts: Sequence[int]) -> list[int]:
    return [sum(counts[: one + 1]) for one in range(len(counts))]


__all__ = ["revolved"]
