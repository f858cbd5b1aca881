"""Prepared derivatives: planned once per kind of input, then one compiled program."""

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
from chainrule.derive import memory_budget, validation
from chainrule.derive.checkpointing.policies import checkpoint
from chainrule.derive.dense.planning import BRANCHES, CLOSES, Program, Trial
from chainrule.derive.flattening import Flat, flatten
from chainrule.derive.jaxprs.refusals import NEEDS_VALUES
from chainrule.derive.report import Report

Planner = Callable[[Flat, Trial, int], Report]
"""(flat function, its programs, memory budget) -> plan."""
Evaluator = Callable[[Flat, str, int], Tree]
"""(flat function, mode, chunk) -> derivative."""

_TRACED = (jax.Array, np.ndarray, np.generic, float, complex)


@final
class PreparedDerivative:
    """A callable derivative; `.report` tells how the latest call was done, `.plan(x)` how a call will be.

    It works under `jit`, `vmap` and further derivatives. Arrays and floats among the arguments are traced; everything
    else (whole numbers, texts, functions) is part of the program. A function that cannot be compiled because it
    branches on values in Python is run operation by operation, and the report says so. With `has_aux` a call returns
    (derivative, extra).
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
        *,
        has_aux: bool = False,
        chooser: str = "argnums",
    ) -> None:
        validation.function(name, f)
        memory_budget.parse(name, memory)
        self.name = name
        self.f = f
        self.argnums = argnums
        self.memory = memory
        self.holomorphic = holomorphic
        self.has_aux = has_aux
        self._chooser = chooser
        """What the user calls `argnums`."""
        self._planner = planner
        self._evaluate = evaluate
        self._ready: dict[Any, _Ready] = {}
        self._only: Program | None = None
        """The program of the only kind of input seen so far, called without looking at the arguments."""

    def __call__(self, *args: Any, **options: Any) -> Tree:
        """The derivative at a point; options are those of the function, which takes them by name."""
        if options:
            result = self._with_options(*args, options)
            self.report = self._with_options.report
            return result
        if self._only is not None:
            try:
                return self._only(*args)
            except (_OtherKindError, TypeError, jax.errors.JaxRuntimeError):
                pass  # below it is done with care, or fails with a better message
        key = _kinds(args)
        ready, result = self._run(key, args) if key in self._ready else self._first_run(key, args)
        self.report = ready.report
        self._only = ready.run if len(self._ready) == 1 and ready.programs.whole else None
        return result

    def plan(self, *args: Any, **options: Any) -> Report:
        """How the derivative at such a point will be computed."""
        if options:
            return self._with_options.plan(*args, options)
        self._only = None
        return self._prepare(_kinds(args), args).report

    @functools.cached_property
    def _with_options(self) -> "PreparedDerivative":
        """The same for calls whose last argument holds what the function takes by name."""

        def f(*args: Any) -> Any:
            return self.f(*args[:-1], **args[-1])

        back = lambda number: number - 1 if number < 0 else number  # noqa: E731
        numbers = back(self.argnums) if isinstance(self.argnums, int) else tuple(map(back, self.argnums))
        how = (self.memory, self.holomorphic, self._planner, self._evaluate)
        return PreparedDerivative(self.name, f, numbers, *how, has_aux=self.has_aux, chooser=self._chooser)

    def _first_run(self, key: Any, args: tuple[Any, ...]) -> tuple["_Ready", Tree]:
        self._prepare(key, args)
        began = time.perf_counter()
        ready, result = self._run(key, args)
        jax.block_until_ready(result)
        seconds = {**ready.report.seconds, "first call": time.perf_counter() - began}
        self._ready[key] = replace(ready, report=replace(ready.report, seconds=seconds))
        return self._ready[key], result

    def _run(self, key: Any, args: tuple[Any, ...]) -> tuple["_Ready", Tree]:
        ready = self._ready[key]
        try:
            return ready, ready.run(*ready.programs.traced(args))
        except jax.errors.JaxRuntimeError as error:
            report = ready.report
            if "RESOURCE_EXHAUSTED" not in str(error) or report.chunk == 1:
                raise
            # The device ran out of memory although the plan should fit: again with half the batch, once.
            half = report.chunk // 2
            note = f"out of memory at chunk {report.chunk}: continued at {half}"
            warnings.warn(f"{self.name}: {note}", RuntimeWarning, stacklevel=3)
            run = ready.programs.program(report.mode, half)
            result = run(*ready.programs.traced(args))
            report = replace(report, chunk=half, peak_bytes=None, notes=(*report.notes, note))
            self._ready[key] = _Ready(ready.programs, run, report)
            return self._ready[key], result

    def _prepare(self, key: Any, args: tuple[Any, ...]) -> "_Ready":
        if key in self._ready:
            return self._ready[key]
        began = time.perf_counter()
        x = validation.argument(self.name, args, self.argnums, self._chooser)
        validation.point(self.name, x, holomorphic=self.holomorphic, chooser=self._chooser)
        check = functools.partial(validation.outputs, self.name, holomorphic=self.holomorphic)
        valued = functools.partial(validation.valued, self.name, self.f, has_aux=self.has_aux)
        programs = _Programs(valued, self.argnums, args, self._evaluate, check, has_aux=self.has_aux)
        traced = programs.traced(args)
        trial = Trial(programs.program, traced, programs.obstacle, programs.effects, programs.checkpointed)
        report = self._planner(programs.flat(*traced), trial, memory_budget.parse(self.name, self.memory))
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


class _OtherKindError(Exception):
    """A program was given another kind of input than it was planned for."""


@final
class _Programs:
    """The programs of a derivative for one kind of input, by mode and chunk; each is traced and compiled once.

    They take the arguments as they are if all their leaves are arrays or floats (they are `whole`), and a list of such
    leaves otherwise; all other leaves are fixed here. The function returns its value and what it says beside it, which
    the programs return beside the derivative if it `has_aux`.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        argnums: int | Sequence[int],
        args: tuple[Any, ...],
        evaluate: Evaluator,
        check: Callable[[Tree], None],
        *,
        has_aux: bool,
    ) -> None:
        leaves, self._structure = jax.tree.flatten(args)
        self._f = f
        self._argnums = argnums
        self._evaluate = evaluate
        self._has_aux = has_aux
        self._traced = [i for i, leaf in enumerate(leaves) if isinstance(leaf, _TRACED)]
        self._fixed = [None if isinstance(leaf, _TRACED) else leaf for leaf in leaves]
        self._kinds = _kinds(self.traced(args))
        self._made: dict[tuple[str, int], Program] = {}
        self.outputs, self.obstacle, self.effects = self._examine(self.traced(args), check)

    @property
    def whole(self) -> bool:
        """Whether programs take the arguments as they are."""
        return len(self._traced) == len(self._fixed)

    def traced(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the programs take of these arguments."""
        if len(self._traced) == len(self._fixed):
            return args
        leaves = jax.tree.leaves(args)
        return ([leaves[i] for i in self._traced],)

    def program(self, mode: str, chunk: int) -> Program:
        """A program that maps arguments to the derivative."""
        if (mode, chunk) not in self._made:

            def derivative(*traced: Any) -> Tree:
                if _kinds(traced) != self._kinds:
                    raise _OtherKindError
                found = self._evaluate(self.flat(*traced), mode, chunk)
                if not self._has_aux:
                    return found
                f, x = self._at(traced)  # compiled, what it shares with the derivative is computed once
                return found, jax.tree.map(jnp.asarray, f(x)[1])

            self._made[mode, chunk] = derivative if self.obstacle == BRANCHES else jax.jit(derivative)
        return self._made[mode, chunk]

    def checkpointed(self, mode: str, chunk: int) -> Program:
        """The same with the function under the schedule that stores least."""

        def derivative(*traced: Any) -> Tree:
            f, x = self._at(traced)
            value = checkpoint(lambda x: f(x)[0], "binomial")
            return self._evaluate(flatten(value, x, self.outputs), mode, chunk)

        return jax.jit(derivative)

    def flat(self, *traced: Any) -> Flat:
        """The function as a map of vectors, at the point in these arguments."""
        f, x = self._at(traced)
        return flatten(lambda x: f(x)[0], x, self.outputs, traceable=self.obstacle != BRANCHES)

    def _at(self, traced: tuple[Any, ...]) -> tuple[Callable[[Any], tuple[Tree, Tree]], Tree]:
        leaves = list(self._fixed)
        for index, leaf in zip(self._traced, jax.tree.leaves(traced), strict=True):
            leaves[index] = leaf
        args = jax.tree.unflatten(self._structure, leaves)
        x = jax.tree.map(jnp.asarray, validation.argument("", args, self._argnums))
        return validation.fix(self._f, args, self._argnums), x

    def _examine(self, traced: tuple[Any, ...], check: Callable[[Tree], None]) -> tuple[Tree, str, bool]:
        """Shapes of the outputs, what keeps the function from being compiled on its own, and whether it has effects."""

        def value(*traced: Any) -> Tree:
            f, x = self._at(traced)
            y, _ = f(x)
            check(y)
            return y

        try:
            closed, outputs = jax.make_jaxpr(value, return_shape=True)(*traced)
        except NEEDS_VALUES:
            y = value(*traced)
            return (
                jax.tree.map(lambda a: memory_budget.struct(jnp.shape(a), jnp.result_type(a)), y),
                BRANCHES,
                False,
            )
        closes = any(isinstance(c, jax.core.Tracer) for c in closed.consts)
        return outputs, CLOSES if closes else "", bool(closed.effects)


def _kinds(args: tuple[Any, ...]) -> Any:
    """What programs depend on: structure, shapes and types of what is traced, the values of everything else."""
    leaves, structure = jax.tree.flatten(args)
    return (structure, *map(_kind, leaves))


def _kind(leaf: Any) -> Any:
    aval = getattr(leaf, "aval", None)
    if aval is not None:
        return aval.shape, aval.dtype, aval.weak_type
    if isinstance(leaf, _TRACED):
        weak = isinstance(leaf, float | complex) and not isinstance(leaf, np.generic)
        return np.shape(leaf), jnp.result_type(leaf), weak
    try:
        hash(leaf)
    except TypeError:
        raise ArgumentError(
            f"an argument of type {type(leaf).__name__} is neither an array nor hashable",
            remedy="close over it, or make it a PyTree of arrays",
        ) from None
    return type(leaf), leaf


__all__ = ["Evaluator", "Planner", "PreparedDerivative"]
