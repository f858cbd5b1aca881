"""Computations as successive steps, each a function of the state before it: what can be checkpointed.

Three forms: a chain of stages, one body repeated many times, and the program of any JAX function: the steps of its
loops where they make up most of it, otherwise its equations, between which the state is the set of values still needed.
"""

import abc
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from chainrule.core.errors import ArgumentError
from chainrule.derive.checkpointing.loops import CountedLoop
from chainrule.derive.jaxprs import cost
from chainrule.derive.jaxprs import equations as eqs

Stage: TypeAlias = Callable[[Any], Any]


class Steps(abc.ABC):
    """Successive steps from one state to the next."""

    @property
    @abc.abstractmethod
    def length(self) -> int:
        """How many steps there are."""

    @abc.abstractmethod
    def run(self, start: int, end: int) -> Stage:
        """The steps from `start` up to but not including `end`, as one function of the state."""


@final
class Chain(Steps):
    """Stages applied one after another.

    >>> float(Chain([jnp.sin, jnp.cos]).run(0, 2)(jnp.asarray(0.0)))
    1.0
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        if not stages or not all(callable(stage) for stage in stages):
            raise ArgumentError(
                f"Chain(stages={stages!r}): stages is a non-empty list of functions from state to state"
            )
        self.stages = tuple(stages)

    @property
    def length(self) -> int:
        return len(self.stages)

    def run(self, start: int, end: int) -> Stage:
        def apply(state: Any) -> Any:
            for stage in self.stages[start:end]:
                state = stage(state)
            return state

        return apply


@final
class Repeat(Steps):
    """One body `length` times: state -> body(state, step), as a compiled loop.

    >>> float(Repeat(lambda x, step: x + step, 4).run(0, 4)(jnp.asarray(0.0)))
    6.0
    """

    def __init__(self, body: Callable[[Any, Any], Any], length: int) -> None:
        if length < 1:
            raise ArgumentError(f"Repeat(length={length}): length must be at least 1")
        self.body = body
        self._length = length

    @property
    def length(self) -> int:
        return self._length

    def run(self, start: int, end: int) -> Stage:
        def apply(state: Any) -> Any:
            if end - start == 1:
                return self.body(state, jnp.asarray(start))
            final_state, _ = jax.lax.scan(
                lambda carry, step: (self.body(carry, step), None), state, jnp.arange(start, end)
            )
            return final_state

        return apply


@final
class ProgramSteps(Steps):
    """The equations of a program; the state is the tuple of values still needed."""

    def __init__(self, program: ClosedJaxpr) -> None:
        opened = eqs.inline(program, lambda equation: eqs.is_plain_call(equation) and _has_loop(equation))
        self.program = eqs.without_dead_code(eqs.open_trivial_calls(opened))
        self._live = _live(self.program)

    @property
    def length(self) -> int:
        return len(self.program.eqns)

    @property
    def loops(self) -> list[CountedLoop]:
        """The loops, also those in branches, if they compute more than the equations around them."""
        branches = [one for step in self._loops.values() if isinstance(step, list) for one in step]
        own = [step for step in self._loops.values() if isinstance(step, CountedLoop)]
        return own + [loop for branch in branches for loop in branch.loops]

    @functools.cached_property
    def _loops(self) -> "dict[int, CountedLoop | list[ProgramSteps]]":
        """By the position of their equation: loops, and the branches of conditions in which loops are."""
        equations = self.program.eqns
        found: dict[int, CountedLoop | list[ProgramSteps]] = {}
        inside = 0
        for position, one in enumerate(equations):
            if one.primitive.name == "scan" and one.params["length"] > 1 and not one.effects:
                found[position] = loop = CountedLoop.of_equation(one)
                inside += loop.nbytes
            elif one.primitive.name == "cond" and not one.effects:
                branches = [ProgramSteps(branch) for branch in one.params["branches"]]
                loops = [loop for branch in branches for loop in branch.loops]
                if loops:
                    found[position] = branches
                    inside += sum(loop.nbytes for loop in loops)
        around = sum(
            cost.nbytes(one.outvars) for position, one in enumerate(equations) if position not in found
        )
        return found if inside > around else {}

    def run(self, start: int, end: int) -> Stage:
        part = eqs.program_of((), (), self._live[start], self._live[end], self.program.eqns[start:end])
        function = jaxpr_as_fun(part)
        return lambda state: tuple(function(*state))

    def with_loops(self, loop_runner: Callable[..., Sequence[Any]]) -> Stage:
        """All steps, with the loops run by `loop_runner(loop, *operands)`."""

        def apply(state: Any) -> Any:
            done = 0
            for position, part in self._loops.items():
                runner = functools.partial(loop_runner, part)
                if isinstance(part, list):
                    runner = functools.partial(_switch, part, loop_runner)
                state = self._replaced(position, runner, self.run(done, position)(state))
                done = position + 1
            return self.run(done, self.length)(state)

        return apply

    def enter(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """The first state, from the function's argument leaves."""
        inner = self.program.jaxpr
        values = dict(zip([*inner.constvars, *inner.invars], [*self.program.consts, *leaves], strict=True))
        return tuple(values[variable] for variable in self._live[0])

    def leave(self, state: Sequence[Any]) -> list[Any]:
        """The function's results, from the last state."""
        return _read(self.program.jaxpr.outvars, dict(zip(self._live[-1], state, strict=True)))

    def _replaced(self, position: int, function: Callable[..., Sequence[Any]], state: Sequence[Any]) -> Any:
        equation = self.program.eqns[position]
        values = dict(zip(self._live[position], state, strict=True))
        values.update(zip(equation.outvars, function(*_read(equation.invars, values)), strict=True))
        return tuple(values[variable] for variable in self._live[position + 1])


def _switch(
    branches: Sequence[ProgramSteps], loop_runner: Callable[..., Sequence[Any]], which: Any, *operands: Any
) -> Sequence[Any]:
    """The branch of this number, its loops run by `loop_runner`."""

    def branch(steps: ProgramSteps) -> Callable[..., list[Any]]:
        return lambda *leaves: steps.leave(steps.with_loops(loop_runner)(steps.enter(leaves)))

    found: Sequence[Any] = jax.lax.switch(which, [branch(one) for one in branches], *operands)
    return found


def _read(atoms: Sequence[Any], values: dict[Any, Any]) -> list[Any]:
    return [
        jnp.asarray(atom.val, atom.aval.dtype) if eqs.is_literal(atom) else values[atom] for atom in atoms
    ]


def _has_loop(equation: Any) -> bool:
    return equation.primitive.name == "scan" or any(
        _has_loop(inner) for program in eqs.inner_programs(equation) for inner in program.eqns
    )


def _live(program: ClosedJaxpr) -> list[list[Any]]:
    """For every position between two equations, the variables made before it and needed after it."""
    needed = dict.fromkeys(atom for atom in program.jaxpr.outvars if not eqs.is_literal(atom))
    live = [list(needed)]
    for equation in reversed(program.eqns):
        for variable in equation.outvars:
            needed.pop(variable, None)
        needed.update(dict.fromkeys(atom for atom in equation.invars if not eqs.is_literal(atom)))
        live.append(list(needed))
    return live[::-1]


__all__ = ["Chain", "ProgramSteps", "Repeat", "Stage", "Steps"]
