"""Planning of dense derivatives: mode and batch size from the compiled programs of the function.

Every candidate is compiled as it would run, all products at once. The compiler's count of operations decides between
them, or a stopwatch where the counts are close; its memory analysis decides whether all products fit the budget. If
not, batches of one and of two products tell what each product needs, and the largest batch that fits is taken. Where
scratch memory is many times a processor's cache, a batch that fits the cache is timed too: it is often faster.
"""

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import jax

from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import memory_size
from chainrule.core.types import Tree
from chainrule.derive.dense.batching import even
from chainrule.derive.jaxprs.refusals import MISSING_RULE, NEEDS_VALUES
from chainrule.derive.memory_budget import CompiledCost, cost_of
from chainrule.derive.report import Report

BRANCHES = "it branches on values in Python"
CLOSES = "it closes over values of an outer transformation"
_WORTH_TIMING = 1e5  # operations below which a call costs more than its work
_RACE_ROUNDS, _RACE_SECONDS = 7, 0.25
_DEAD_HEAT = 1.05
_CACHE = 512 << 10  # bytes a core can work on without waiting for memory

Program = Callable[..., Tree]
"""From the arguments to the derivative."""
Entrant = tuple[str, int]
"""A candidate and its batch size."""
Rank = Callable[[Mapping[str, float]], tuple[list[str], str]]
"""Operations by candidate -> candidates, the best first, and the reason."""


class NoRuleError(ArgumentError):
    """A function cannot be differentiated in any of the ways considered."""


@final
@dataclass(frozen=True)
class PlanningProblem:
    """A derivative to plan."""

    what: str
    inputs: int
    outputs: int
    setting: str
    """What the user calls a candidate: "mode" or "strategy"."""
    counts: Mapping[str, int]
    """Products of every candidate, in the order preferred without an analysis; only one if the user asked for it."""
    chunk: int | None
    out: int
    """Bytes of the result."""
    limit: int
    """Bytes that may be used."""
    close: float = 0.0
    """Candidates whose operations differ by less than this factor are timed."""

    @property
    def room(self) -> int:
        """Bytes left beside the result."""
        return self.limit - self.out

    def batch(self, name: str) -> int:
        """Products at a time when memory is no concern."""
        return even(self.counts[name], self.chunk or max(self.counts[name], 1))

    def report(self, name: str, chunk: int, why: str, **rest: Any) -> Report:
        """The plan in words and numbers."""
        rest |= {"output_bytes": self.out, "budget_bytes": self.limit}
        return Report(self.what, self.inputs, self.outputs, name, chunk, self.counts[name], why, **rest)


@final
class Trial:
    """The programs among which a plan chooses, for one kind of input."""

    def __init__(
        self,
        program: Callable[[str, int], Program],
        args: tuple[Any, ...],
        obstacle: str,
        effects: bool,
        checkpointed: Callable[[str, int], Program],
    ) -> None:
        self.obstacle = obstacle
        """Why the function cannot be compiled on its own; empty when it can."""
        self._program = program
        self._checkpointed = checkpointed
        self._args = args
        self._costs: dict[tuple[str, int], CompiledCost] = {}
        concrete = not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(args))
        self.concrete = concrete
        """Whether there are numbers, and not just shapes inside a trace."""
        self.can_race = concrete and not effects
        """Whether programs may run before the user asks for it: with numbers, and without visible effects."""

    def cost(self, name: str, chunk: int) -> CompiledCost:
        """The cost of a program; compiles it."""
        if (name, chunk) not in self._costs:
            self._costs[name, chunk] = self._compiled(self._program(name, chunk))
        return self._costs[name, chunk]

    def checkpointed(self, name: str) -> CompiledCost:
        """The cost of one product at a time with the function checkpointed; compiles it."""
        return self._compiled(self._checkpointed(name, 1))

    def _compiled(self, program: Any) -> CompiledCost:
        return cost_of(program.lower(*jax.tree.map(_abstract, self._args)).compile())

    def try_rule(self, name: str, chunk: int) -> None:
        """Raise what JAX raises when the function has no such derivative, without compiling it."""
        program = self._program(name, chunk)
        if self.obstacle == BRANCHES:
            program(*self._args)
        else:
            jax.eval_shape(program, *self._args)

    def race(self, entrants: Sequence[Entrant]) -> list[float]:
        """Seconds of each program: the best of alternating rounds."""
        runs = [self._program(*entrant) for entrant in entrants]
        best = [float("inf")] * len(runs)
        for run in runs:
            jax.block_until_ready(run(*self._args))
        deadline = time.perf_counter() + _RACE_SECONDS
        for _ in range(_RACE_ROUNDS):
            for index, run in enumerate(runs):
                began = time.perf_counter()
                jax.block_until_ready(run(*self._args))
                best[index] = min(best[index], time.perf_counter() - began)
            if time.perf_counter() > deadline:
                break
        return best


def plan(problem: PlanningProblem, trial: Trial, rank: Rank, *, measure: bool | None = None) -> Report:
    """Choose a candidate and a batch size.

    With `measure=True` all candidates are timed, with `None` those whose costs are close and batch sizes that matter,
    with `False` nothing is.
    """
    try:
        return _plan(problem, trial, rank, measure)
    except NoRuleError as error:
        if problem.chunk == 1:
            raise
        try:  # perhaps there are derivatives, but not batches of them
            report = _plan(replace(problem, chunk=1), trial, rank, measure)
        except NoRuleError:
            raise error from None
        return replace(
            report, notes=(*report.notes, f"one product at a time: {first_sentence(error.__cause__)}")
        )


def _plan(problem: PlanningProblem, trial: Trial, rank: Rank, measure: bool | None) -> Report:
    decided = len(problem.counts) == 1 and problem.chunk is not None
    if trial.obstacle or not problem.inputs or not problem.outputs or (decided and not trial.concrete):
        return _without_costs(problem, trial)
    costs, missing = _costs(problem, trial)
    flops = {name: cost.flops for name, cost in costs.items()}
    order, why = rank(flops) if len(problem.counts) > 1 else (list(flops), "asked for")
    why += _missing(missing)
    batch = functools.cache(functools.partial(_fit, problem, trial))

    def fits(name: str) -> bool:
        return trial.cost(name, batch(name)).scratch <= problem.room

    timed = order if _worth_timing(problem, flops, measure) else order[:1]
    entrants = [(name, batch(name)) for name in timed if fits(name)]
    entrants += [small for entrant in entrants for small in _cached(problem, trial, *entrant)]
    if trial.can_race and measure is not False and len(entrants) > 1:
        chosen, size, measured = _by_race(trial, entrants)
        why = measured if len({name for name, _ in entrants}) > 1 else f"{why}; {measured}"
    else:
        chosen = next(filter(fits, order), order[0])
        size = batch(chosen)
    peak = problem.out + trial.cost(chosen, size).scratch
    notes: tuple[str, ...] = ()
    if peak > problem.limit:
        saved = problem.out + trial.checkpointed(chosen).scratch
        helps = f"takes {memory_size(saved)}" if saved < peak else "does not take less"
        notes = (f'{memory_size(peak)} exceed the budget; derive.checkpoint(f, "binomial") {helps}',)
    elif not fits(order[0]):
        saved = trial.checkpointed(order[0]).scratch
        helps = ' (derive.checkpoint(f, "binomial") would)' if saved <= problem.room else ""
        why += f"; {order[0]} would not fit the memory budget{helps}"
    considered = {} if decided else flops
    return problem.report(chosen, size, why, flops=considered, peak_bytes=peak, notes=notes)


def _without_costs(problem: PlanningProblem, trial: Trial) -> Report:
    """The first candidate that has a rule, where there is nothing to compile."""
    shape = f"{problem.inputs:,} inputs, {problem.outputs:,} outputs"
    why = shape if len(problem.counts) > 1 else "asked for"
    notes = (f"cost not analysed: {trial.obstacle}",) if trial.obstacle else ()
    missing: dict[str, Exception] = {}
    for name in problem.counts:
        try:
            if trial.obstacle and len(problem.counts) > 1:
                trial.try_rule(name, problem.batch(name))
            return problem.report(name, problem.batch(name), why + _missing(missing), notes=notes)
        except NEEDS_VALUES:
            raise
        except MISSING_RULE as error:
            missing[name] = error
    raise _refusal(problem, missing) from next(iter(missing.values()))


def _costs(problem: PlanningProblem, trial: Trial) -> tuple[dict[str, CompiledCost], dict[str, Exception]]:
    """The cost of each candidate, and why one without a derivative rule is missing.

    A choice is made between programs that do everything at once, because the compiler counts a loop only once.
    """
    costs: dict[str, CompiledCost] = {}
    missing: dict[str, Exception] = {}
    for name, count in problem.counts.items():
        try:
            if problem.chunk == 1 and len(problem.counts) > 1:
                single = trial.cost(name, 1)
                costs[name] = replace(single, flops=single.flops * count)
            else:
                costs[name] = trial.cost(name, count if len(problem.counts) > 1 else problem.batch(name))
        except NEEDS_VALUES:
            raise
        except MISSING_RULE as error:
            missing[name] = error
    if not costs:
        raise _refusal(problem, missing) from next(iter(missing.values()))
    return costs, missing


def _fit(problem: PlanningProblem, trial: Trial, name: str) -> int:
    """The largest batch that fits the budget; 1 if none does."""
    chunk = problem.batch(name)
    if problem.chunk is not None or chunk == 1 or trial.cost(name, chunk).scratch <= problem.room:
        return chunk
    one, two = (trial.cost(name, size).scratch for size in (1, 2))
    chunk = 1 + max(0, problem.room - one) // max(two - one, 1)
    chunk = even(problem.counts[name], min(chunk, problem.counts[name] - 1))
    while chunk > 1 and trial.cost(name, chunk).scratch > problem.room:
        chunk //= 2
    return chunk


def _cached(problem: PlanningProblem, trial: Trial, name: str, chunk: int) -> list[Entrant]:
    """A smaller batch that works within a processor's cache, where the one that memory allows is far larger."""
    scratch = trial.cost(name, chunk).scratch
    if problem.chunk is not None or scratch < 4 * _CACHE or jax.default_backend() != "cpu":
        return []
    small = even(problem.counts[name], max(1, chunk * _CACHE // scratch))
    return [(name, small)] if small < chunk else []


def _worth_timing(problem: PlanningProblem, flops: Mapping[str, float], measure: bool | None) -> bool:
    """Whether all candidates should be timed."""
    if measure is not None:
        return measure
    return _WORTH_TIMING <= max(flops.values()) <= problem.close * min(flops.values())


def _by_race(trial: Trial, entrants: Sequence[Entrant]) -> tuple[str, int, str]:
    """The winner, and what was measured; the first of those that are as good as the best."""
    seconds = trial.race(entrants)
    best = min(seconds)
    name, chunk = next(e for e, s in zip(entrants, seconds, strict=True) if s <= _DEAD_HEAT * best)
    whole = dict(reversed(entrants))
    labels = [n if whole[n] == c else f"{n} in batches of {c:,}" for n, c in entrants]
    times = ", ".join(f"{label} {s * 1e3:.3g} ms" for label, s in zip(labels, seconds, strict=True))
    return name, chunk, f"measured {times}"


def _missing(missing: Mapping[str, Exception]) -> str:
    return "".join(f"; no {name} rule ({first_sentence(error)})" for name, error in missing.items())


def _refusal(problem: PlanningProblem, missing: Mapping[str, Exception]) -> NoRuleError:
    if len(problem.counts) > 1:
        reasons = "\n".join(f"{name}: {first_sentence(error)}" for name, error in missing.items())
        return NoRuleError(
            f"{problem.what}: no {problem.setting} can differentiate the function", remedy=reasons
        )
    ((name, error),) = missing.items()
    return NoRuleError(
        f'{problem.what}({problem.setting}="{name}"): {first_sentence(error)}',
        remedy=f'{problem.setting}="auto" takes a {problem.setting} that the function has rules for',
    )


def first_sentence(error: BaseException | None) -> str:
    """What an error says, in short."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].split(". ")[0].rstrip(".")


def _abstract(leaf: Any) -> Any:
    """A leaf a program can be compiled for, also inside a trace."""
    if not isinstance(leaf, jax.core.Tracer):
        return leaf
    aval: Any = leaf.aval
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


__all__ = [
    "BRANCHES",
    "CLOSES",
    "NoRuleError",
    "PlanningProblem",
    "Program",
    "Rank",
    "Trial",
    "first_sentence",
    "plan",
]
