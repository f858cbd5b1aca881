"""A derivative that plans once per input shape and then runs one compiled program; Jacobian and Hessian use it."""

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, final

import jax
import jax.numpy as jnp

from chainrule.core.types import Tree
from chainrule.derive import budget, validate
from chainrule.derive.flat import Flat, flatten
from chainrule.derive.report import Report

Planner = Callable[[Flat, str, int, tuple[Any, ...]], Report]
"""(flat function, what keeps it from being compiled, memory budget, arguments) -> plan."""
Evaluator = Callable[[Flat, str, int], Tree]
"""(flat function, mode, chunk) -> derivative."""


@final
class Prepared:
    """A callable derivative; `.report` tells how the latest call was done, `.plan(x)` how a call will be.

    It works under `jit`, `vmap` and further derivatives. A function that cannot be compiled because it branches on
    values in Python is run operation by operation, and the report says so.
    """

    report: Report
    """How the latest call was done."""

    def __init__(
        self,
        name: str,
        f: Callable[..., Any],
        argnums: int,
        memory: str | int | None,
        holomorphic: bool,
        planner: Planner,
        evaluate: Evaluator,
    ) -> None:
        self.name = name
        self.f = f
        self.argnums = argnums
        self.memory = memory
        self.holomorphic = holomorphic
        self._planner = planner
        self._evaluate = evaluate
        self._plans: dict[Any, Report] = {}
        self.run = jax.jit(self._traced, static_argnums=(0, 1))
        """The compiled program: `run(mode, chunk, *args)`."""

    def __call__(self, *args: Any) -> Tree:
        """The derivative at a point."""
        args = self._checked(args)
        report = self._planned(args)
        began = time.perf_counter()
        if report.compiled:
            result, report = self._within_memory(report, args)
        else:
            f, x = self._split(args)
            result = self._evaluate(flatten(f, x, _shapes(f(x))), report.mode, report.chunk)
        phase = "first call" if "first call" not in report.seconds else "latest call"
        self.report = replace(report, seconds={**report.seconds, phase: time.perf_counter() - began})
        self._plans[_signature(args)] = self.report
        return result

    def plan(self, *args: Any) -> Report:
        """How the derivative at such a point will be computed; only shapes and types matter."""
        return self._planned(self._checked(args))

    def _planned(self, args: tuple[Any, ...]) -> Report:
        signature = _signature(args)
        if signature not in self._plans:
            began = time.perf_counter()
            f, x = self._split(args)
            obstacle = budget.traceable(f, x)
            outputs = _shapes(f(x)) if obstacle == budget.BRANCHES else jax.eval_shape(f, x)
            limit = budget.parse(self.name, self.memory)
            report = self._planner(flatten(f, x, outputs), obstacle, limit, args)
            self._plans[signature] = replace(
                report,
                budget_bytes=limit,
                compiled=obstacle != budget.BRANCHES,
                notes=(*report.notes, f"cost not analysed: {obstacle}") if obstacle else report.notes,
                seconds={"plan": time.perf_counter() - began},
            )
        return self._plans[signature]

    def _checked(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        x = validate.point(
            self.name, validate.argument(self.name, args, self.argnums), holomorphic=self.holomorphic
        )
        place = self.argnums % len(args)
        return (*args[:place], x, *args[place + 1 :])

    def _split(self, args: tuple[Any, ...]) -> tuple[Callable[[Any], Any], Tree]:
        return validate.fix(self.f, args, self.argnums), args[self.argnums]

    def _traced(self, mode: str, chunk: int, *args: Any) -> Tree:
        f, x = self._split(args)
        return self._evaluate(flatten(f, x), mode, chunk)

    def _within_memory(self, report: Report, args: tuple[Any, ...]) -> tuple[Tree, Report]:
        """Run the plan; if the device runs out of memory all the same, halve the chunk once."""
        try:
            return jax.block_until_ready(self.run(report.mode, report.chunk, *args)), report
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) or report.chunk == 1:
                raise
            half = report.chunk // 2
            note = f"out of memory at chunk {report.chunk}: continued at {half}"
            warnings.warn(f"{self.name}: {note}", RuntimeWarning, stacklevel=3)
            return self.run(report.mode, half, *args), replace(
                report, chunk=half, notes=(*report.notes, note)
            )


def _shapes(y: Tree) -> Tree:
    return jax.tree.map(lambda a: budget.struct(jnp.shape(a), jnp.result_type(a)), y)


def _signature(args: tuple[Any, ...]) -> Any:
    leaves, structure = jax.tree.flatten(args)
    return structure, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)


__all__ = ["Evaluator", "Planner", "Prepared"]
