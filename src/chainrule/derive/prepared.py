"""A derivative that plans once per kind of input and then runs one compiled program; Jacobian and Hessian use it."""

import functools
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.errors import ArgumentError
from chainrule.core.types import Tree
from chainrule.derive import budget, validate
from chainrule.derive.flat import Flat, flatten
from chainrule.derive.planning import BRANCHES, CLOSES, NEEDS_VALUES, Program, Trial
from chainrule.derive.report import Report

Planner = Callable[[Flat, Trial, int], Report]
"""(flat function, its programs, memory budget) -> plan."""
Evaluator = Callable[[Flat, str, int], Tree]
"""(flat function, mode, chunk) -> derivative."""

_TRACED = (jax.Array, np.ndarray, np.generic, float, complex)


@final
class Prepared:
    """A callable derivative; `.report` tells how the latest call was done, `.plan(x)` how a call will be.

    It works under `jit`, `vmap` and further derivatives. Arrays and floats among the arguments are traced; everything
    else (whole numbers, texts, functions) is part of the program. A function that cannot be compiled because it
    branches on values in Python is run operation by operation, and the report says so.
    """

    report: Report
    """How the latest call was done."""

    def __init__(
        self,
        name: str,
        f: Callable[..., Any],
        argnums: int | Sequence[int],
        memory: str | int | None,
        holomorphic: bool | None,
        planner: Planner,
        evaluate: Evaluator,
    ) -> None:
        validate.function(name, f)
        budget.parse(name, memory)
        self.name = name
        self.f = f
        self.argnums = argnums
        self.memory = memory
        self.holomorphic = holomorphic
        self._planner = planner
        self._evaluate = evaluate
        self._ready: dict[Any, _Ready] = {}

    def __call__(self, *args: Any) -> Tree:
        """The derivative at a point."""
        leaves, structure = jax.tree.flatten(args)
        key = (structure, *map(_kind, leaves))
        ready = self._ready.get(key)
        if ready is None:
            ready, result = self._first_call(key, args)
        else:
            try:
                result = ready.run(ready.programs.traced(leaves))
            except jax.errors.JaxRuntimeError as error:
                ready, result = self._smaller(key, leaves, error)
        self.report = ready.report
        return result

    def plan(self, *args: Any) -> Report:
        """How the derivative at such a point will be computed."""
        leaves, structure = jax.tree.flatten(args)
        return self._prepare((structure, *map(_kind, leaves)), args).report

    def _first_call(self, key: Any, args: tuple[Any, ...]) -> tuple["_Ready", Tree]:
        leaves = jax.tree.leaves(args)
        ready = self._prepare(key, args)
        began = time.perf_counter()
        try:
            result = jax.block_until_ready(ready.run(ready.programs.traced(leaves)))
        except jax.errors.JaxRuntimeError as error:
            ready, result = self._smaller(key, leaves, error)
        seconds = {**ready.report.seconds, "first call": time.perf_counter() - began}
        self._ready[key] = replace(ready, report=replace(ready.report, seconds=seconds))
        return self._ready[key], result

    def _smaller(self, key: Any, leaves: list[Any], error: Exception) -> tuple["_Ready", Tree]:
        """Where the device ran out of memory although the plan should fit: again with half the batch, once."""
        ready = self._ready[key]
        report = ready.report
        if "RESOURCE_EXHAUSTED" not in str(error) or report.chunk == 1:
            raise error
        half = report.chunk // 2
        note = f"out of memory at chunk {report.chunk}: continued at {half}"
        warnings.warn(f"{self.name}: {note}", RuntimeWarning, stacklevel=3)
        run = ready.programs.program(report.mode, half)
        result = jax.block_until_ready(run(ready.programs.traced(leaves)))
        report = replace(report, chunk=half, peak_bytes=None, notes=(*report.notes, note))
        self._ready[key] = _Ready(ready.programs, run, report)
        return self._ready[key], result

    def _prepare(self, key: Any, args: tuple[Any, ...]) -> "_Ready":
        if key in self._ready:
            return self._ready[key]
        began = time.perf_counter()
        x = validate.argument(self.name, args, self.argnums)
        validate.point(self.name, x, holomorphic=self.holomorphic)
        check = functools.partial(validate.outputs, self.name, holomorphic=self.holomorphic)
        programs = _Programs(self.f, self.argnums, args, self._evaluate, check)
        leaves = programs.traced(jax.tree.leaves(args))
        flat = programs.flat(leaves)
        trial = Trial(programs.program, leaves, programs.obstacle, programs.effects)
        report = self._planner(flat, trial, budget.parse(self.name, self.memory))
        report = replace(
            report, compiled=programs.obstacle != BRANCHES, seconds={"plan": time.perf_counter() - began}
        )
        run = programs.program(report.mode, report.chunk)
        self._ready[key] = _Ready(programs, run, report)
        return self._ready[key]


@final
@dataclass(frozen=True)
class _Ready:
    """What a call needs when its kind of input has been seen before."""

    programs: "_Programs"
    run: Program
    report: Report


@final
class _Programs:
    """The programs of a derivative for one kind of input, by mode and chunk; each is traced and compiled once.

    They take those leaves of the arguments that are arrays or floats; all others are fixed here.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        argnums: int | Sequence[int],
        args: tuple[Any, ...],
        evaluate: Evaluator,
        check: Callable[[Tree], None],
    ) -> None:
        leaves, self._structure = jax.tree.flatten(args)
        self._f = f
        self._argnums = argnums
        self._evaluate = evaluate
        self._places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, _TRACED)]
        self._all_traced = len(self._places) == len(leaves)
        self._fixed = [None if isinstance(leaf, _TRACED) else leaf for leaf in leaves]
        self._made: dict[tuple[str, int], Program] = {}
        self.outputs, self.obstacle, self.effects = self._examine(self.traced(leaves), check)

    def traced(self, leaves: list[Any]) -> list[Any]:
        """Those leaves of the arguments that the programs take."""
        return leaves if self._all_traced else [leaves[i] for i in self._places]

    def program(self, mode: str, chunk: int) -> Program:
        """A program that maps leaves to the derivative."""
        if (mode, chunk) not in self._made:

            def derivative(leaves: list[Any]) -> Tree:
                return self._evaluate(self.flat(leaves), mode, chunk)

            self._made[mode, chunk] = derivative if self.obstacle == BRANCHES else jax.jit(derivative)
        return self._made[mode, chunk]

    def flat(self, leaves: list[Any]) -> Flat:
        """The function as a map of vectors, at the point in these leaves."""
        f, x = self._at(leaves)
        return flatten(f, x, self.outputs, traceable=self.obstacle != BRANCHES)

    def _at(self, leaves: list[Any]) -> tuple[Callable[[Any], Any], Tree]:
        everything = list(self._fixed)
        for place, leaf in zip(self._places, leaves, strict=True):
            everything[place] = leaf
        args = jax.tree.unflatten(self._structure, everything)
        x = jax.tree.map(jnp.asarray, validate.argument("", args, self._argnums))
        return validate.fix(self._f, args, self._argnums), x

    def _examine(self, leaves: list[Any], check: Callable[[Tree], None]) -> tuple[Tree, str, bool]:
        """Shapes of the outputs, what keeps the function from being compiled on its own, and whether it has effects."""

        def value(leaves: list[Any]) -> Tree:
            f, x = self._at(leaves)
            y = f(x)
            check(y)
            return y

        try:
            closed, outputs = jax.make_jaxpr(value, return_shape=True)(leaves)
        except NEEDS_VALUES:
            y = value(leaves)
            return jax.tree.map(lambda a: budget.struct(jnp.shape(a), jnp.result_type(a)), y), BRANCHES, False
        closes = any(isinstance(c, jax.core.Tracer) for c in closed.consts)
        return outputs, CLOSES if closes else "", bool(closed.effects)


def _kind(leaf: Any) -> Any:
    """What a program depends on: shape and type of what is traced, the value of everything else."""
    aval = getattr(leaf, "aval", None)
    if aval is not None:
        return aval
    if isinstance(leaf, _TRACED):
        return type(leaf), np.shape(leaf), jnp.result_type(leaf)
    try:
        hash(leaf)
    except TypeError:
        raise ArgumentError(
            f"an argument of type {type(leaf).__name__} is neither an array nor hashable",
            remedy="close over it, or make it a PyTree of arrays",
        ) from None
    return type(leaf), leaf


__all__ = ["Evaluator", "Planner", "Prepared"]
