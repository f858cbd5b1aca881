"""Comparison of the four Hessian strategies: operations, memory and time on the user's own function."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core import notebook
from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import memory_size
from chainrule.core.pictures import Table
from chainrule.core.types import Array, Tree
from chainrule.derive import memory_budget, validation
from chainrule.derive.dense.hessians import FOF, FOR, RUNS, STRATEGIES, runs, second, tensor
from chainrule.derive.dense.planning import NoRuleError, first_sentence
from chainrule.derive.flattening import Flat, flatten
from chainrule.derive.jaxprs.branches import at_point
from chainrule.derive.jaxprs.refusals import MISSING_RULE
from chainrule.derive.memory_budget import CompiledCost


@final
@dataclass(frozen=True)
class StrategyCost:
    """One row of the comparison."""

    strategy: str
    gives: str
    runs: int
    """Runs for the whole Hessian."""
    flops_per_run: float
    flops_vs_gradient: float
    """Operations of one run over those of one gradient."""
    seconds_per_run: float
    seconds: float
    """For the whole Hessian."""
    liveness_bytes: int
    """Peak of one run counted value by value, without the compiler's fusion."""
    scratch_bytes: int
    """Scratch memory of one compiled run."""
    deviation: float
    """Largest difference from the reference, relative to its largest entry."""


@final
@dataclass(frozen=True)
class Comparison:
    """The measured table; `print(comparison)` shows it."""

    inputs: int
    gradient_flops: float
    gradient_scratch_bytes: int
    rows: tuple[StrategyCost, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    """Strategies that the function has no rules for, and why."""
    reference: str = FOR
    """The strategy that deviations are measured from."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = (
            f"Hessian of {self.inputs} inputs; one gradient: {self.gradient_flops:.3g} flops, "
            f"{memory_size(self.gradient_scratch_bytes)} scratch"
        )
        cells = [
            [
                "strategy",
                "one run",
                "runs",
                "flops/run",
                "x gradient",
                "ms/run",
                "ms total",
                "live",
                "scratch",
                "deviation",
            ]
        ]
        cells += [
            [
                r.strategy,
                r.gives,
                f"{r.runs}",
                f"{r.flops_per_run:.3g}",
                f"{r.flops_vs_gradient:.2f}",
                f"{1e3 * r.seconds_per_run:.3g}",
                f"{1e3 * r.seconds:.3g}",
                memory_size(r.liveness_bytes),
                memory_size(r.scratch_bytes),
                f"{r.deviation:.1e}",
            ]
            for r in self.rows
        ]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = [
            "  ".join(
                c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in cells
        ]
        lines += [f"{name}: does not apply ({why})" for name, why in self.missing.items()]
        return "\n".join([head, *lines, *self.notes])

    def _repr_html_(self) -> str:
        return notebook.text(self)

    def picture(self) -> Table:
        """The table as a picture record."""
        columns = [name.replace("_", " ") for name in StrategyCost.__dataclass_fields__]
        return Table(
            "hessian-strategies",
            "Hessian strategies, measured",
            columns,
            [tuple(asdict(r).values()) for r in self.rows],
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def compare_hessian(f: Callable[[Any], Any], x: Tree, *, repeats: int = 5) -> Comparison:
    """Run all four strategies on a scalar function at a point and measure them.

    A strategy that the function has no rules for (a `while` loop has none for reverse mode, a custom reverse rule none
    for forward mode) is named with the reason in `.missing`. Where the function branches in Python on values, what is
    measured is the branch taken at the point.

    >>> rosenbrock = lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    >>> table = compare_hessian(rosenbrock, jnp.array([-1.2, 1.0]), repeats=1)
    >>> [row.runs for row in table.rows]
    [3, 2, 2, 2]
    """
    x = validation.point("compare_hessian", x)
    validation.numbers("compare_hessian", x)
    if repeats < 1:
        raise ArgumentError(f"compare_hessian(repeats={repeats}): repeats must be at least 1")
    one = at_point("compare_hessian", f, (x,))
    flat = flatten(one, x)
    validation.scalar_output("compare_hessian", flat.outputs)
    applicable, missing = _applicable(flat)
    reference = FOR if FOR in applicable else next(iter(applicable))
    expected = np.asarray(applicable[reference](flat.x))
    gradient, notes = _gradient(flat)
    if one is not f:
        notes = (*notes, "f branches in Python on values: measured is the branch taken at this point")
    rows = tuple(
        _measured(flat, name, whole, gradient, expected, repeats) for name, whole in applicable.items()
    )
    return Comparison(flat.n, gradient.flops, gradient.scratch, rows, missing, reference, notes)


def _applicable(flat: Flat) -> tuple[dict[str, Callable[[Array], Array]], dict[str, str]]:
    """The whole Hessian, compiled, by every strategy that has rules for the function, and why the others have none."""
    found: dict[str, Callable[[Array], Array]] = {}
    missing: dict[str, str] = {}
    for strategy in STRATEGIES:
        whole = _whole(flat, strategy)
        try:
            whole.lower(flat.x)
            jax.jit(_one_run(flat, strategy)).lower(flat.x, flat.x)
            found[strategy] = whole
        except MISSING_RULE as error:
            missing[strategy] = first_sentence(error)
    if not found:
        reasons = "\n".join(f"{name}: {why}" for name, why in missing.items())
        raise NoRuleError("compare_hessian: no strategy can differentiate the function", remedy=reasons)
    return found, missing


def _gradient(flat: Flat) -> tuple[CompiledCost, tuple[str, ...]]:
    """What one gradient costs, in reverse mode where there is one."""
    scalar = lambda z: flat.vector(z)[0]  # noqa: E731
    try:
        return memory_budget.compiled_cost(jax.grad(scalar), flat.x), ()
    except MISSING_RULE:
        cost = memory_budget.compiled_cost(jax.jacfwd(scalar), flat.x)
        return cost, ("the gradient is in forward mode: there is no reverse rule",)


def _measured(
    flat: Flat,
    strategy: str,
    whole: Callable[[Array], Array],
    gradient: CompiledCost,
    reference: np.ndarray,
    repeats: int,
) -> StrategyCost:
    run = jax.jit(_one_run(flat, strategy))
    v = jnp.ones_like(flat.x)
    cost = memory_budget.cost_of(run.lower(flat.x, v).compile())
    count = runs(strategy, flat.n, 1)
    scale = max(float(np.abs(reference).max(initial=0.0)), 1e-30)
    return StrategyCost(
        strategy=strategy,
        gives="wᵀHv" if strategy == FOF else "Hv",
        runs=count,
        flops_per_run=cost.flops,
        flops_vs_gradient=cost.flops / gradient.flops if gradient.flops else float("nan"),
        seconds_per_run=_seconds(run, (flat.x, v), repeats),
        seconds=_seconds(whole, (flat.x,), repeats),
        liveness_bytes=liveness(run, flat.x, v),
        scratch_bytes=cost.scratch,
        deviation=float(np.abs(np.asarray(whole(flat.x)) - reference).max(initial=0.0)) / scale,
    )


def _whole(flat: Flat, strategy: str) -> Any:
    """The whole Hessian, compiled."""
    chunk = max(runs(strategy, flat.n, 1), 1)
    return jax.jit(lambda z: tensor(replace(flat, x=z), strategy, chunk))


def liveness(function: Callable[..., Any], *args: Any) -> int:
    """Peak bytes of a program run operation by operation: a value lives from its definition to its last use."""
    from chainrule.derive.memory_timeline import peak_bytes

    return peak_bytes(function, *args)


def _one_run(flat: Flat, strategy: str) -> Callable[[Array, Array], Array]:
    scalar = lambda z: flat.vector(z)[0]  # noqa: E731
    if strategy == FOF:
        return lambda z, v: second(scalar, z, v, v)
    return lambda z, v: RUNS[strategy](scalar, z, v)


def _seconds(function: Callable[..., Array], args: tuple[Array, ...], repeats: int) -> float:
    jax.block_until_ready(function(*args))
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(time.perf_counter() - began)
    return min(times)


__all__ = ["Comparison", "StrategyCost", "compare_hessian"]
