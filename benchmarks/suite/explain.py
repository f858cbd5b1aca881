"""What Shapley values of a network cost, beside the explainers of the package shap.

The network has two hidden layers of 64 rectified units; peers get it in torch and in single precision. *Batch*: 64 rows
of 30 columns, 100 background rows, 2,000 coalitions each for everybody. *Equal error*: 1,000 rows of 20 columns, each
method with as many coalitions as it needs for the same root mean square error on rows whose exact values are known,
ours orders of each background row; the budgets are found first. *Exact*: all coalitions of 12 to 20 players, and how
the time grows. Peers explain one row after another, so a few rows are timed and scaled up to all. `--smoke` runs toy
sizes.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import (
    THREADS,
    Case,
    Contestant,
    Local,
    Options,
    Prepared,
    Report,
    against,
    exponent,
    measure,
)
from benchmarks.peer import Peer
from benchmarks.workers import explain_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.explain.methods.shapley.exact import exact_values
from chainrule.explain.methods.shapley.games import CoalitionGame
from chainrule.explain.methods.shapley.kernel import kernel_values
from chainrule.explain.methods.shapley.masked_functions import MaskedFunction
from chainrule.explain.methods.shapley.maskers.replacing import interventional
from chainrule.explain.methods.shapley.permutations import permutation_values
from chainrule.explain.methods.shapley.row_orders import row_order_values

PEERS = ("KernelExplainer", "PermutationExplainer", "ExactExplainer")
SMOKE = True
BATCH_GOAL, EQUAL_GOAL = 0.1, 0.05
_TIMED = 4
"""Rows that peers explain; all are compared by these."""
_LOOSE = 0.1
"""Sampled values differ between methods by chance; their mean sizes do not by as much as this."""


def run(options: Options) -> Report:
    """Measure all three."""
    peers = options.chosen(PEERS)
    cases: list[Case] = []
    versions: dict[str, str] = {}
    notes: list[str] = []

    def add(label: str, work: Callable[[], np.ndarray], theirs: list[Contestant], goal: float) -> None:
        print(f"{label} ...", flush=True)
        case, found = measure(
            label, [_local(work), *theirs], rounds=options.rounds, tolerance=_LOOSE, watch=options.watch
        )
        cases.append(case)
        versions.update(found)
        notes.extend(against(case, goal))

    def peer(name: str, rows: int, columns: int, background: int, budget: int, timed: int) -> Peer:
        given = {"rows": rows, "columns": columns, "background": background, "budget": budget, "timed": timed}
        return Peer(name, "explain_peers", {"explainer": name, **given, "threads": THREADS})

    rows, columns, background, budget = (4, 13, 10, 200) if options.smoke else (64, 30, 100, 2000)
    timed = min(rows, _TIMED)
    add(
        f"batch: {rows} rows, {columns} columns, {background} background rows, {budget:,} coalitions",
        _kernel(problems.problem(rows, columns, background), budget),
        [
            peer("KernelExplainer", rows, columns, background, budget, timed)
            for name in peers
            if name == "KernelExplainer"
        ],
        BATCH_GOAL,
    )
    rows, columns, background, goal = (4, 13, 10, 0.01) if options.smoke else (1000, 20, 100, 0.01)
    given = problems.problem(rows, columns, background)
    ours, kernel, pairs = _equal_budgets(given, goal)
    notes.append(
        f"error {goal:g} of the range of values: of each background row {ours} evaluations by orders of its own, "
        f"{kernel} by Kernel SHAP, {pairs} by orders for all rows"
    )
    add(
        f"equal error: {rows:,} rows, {columns} columns, {background} background rows",
        _row_orders(given, ours),
        [
            peer(name, rows, columns, background, kernel if name == "KernelExplainer" else pairs, timed)
            for name in peers
            if name != "ExactExplainer"
        ],
        EQUAL_GOAL,
    )
    sizes = (8, 9) if options.smoke else (12, 14, 16, 18, 20)
    for count in sizes:
        # Peers take minutes where there are many coalitions.
        able = [name for name in peers if name == "ExactExplainer" and count <= 14]
        add(
            f"exact: 1 row, {count} columns, 10 background rows",
            _exact(problems.problem(1, count, 10)),
            [peer(name, 1, count, 10, 1 << count, 1) for name in able],
            1.0,
        )
    exact = [case.ours.summary.median for case in cases[-len(sizes) :]]
    growth = exponent([float(1 << count) for count in sizes], exact)
    notes.append(f"exact values grow with coalitions to the power {growth:.2f}")
    return Report(tuple(cases), (), tuple(notes), versions)


def _network(given: problems.Problem) -> Callable[[Any], Any]:
    weights = [jnp.asarray(weight) for weight in given.weights]

    def network(x: Any) -> Any:
        for weight in weights[:-1]:
            x = jax.nn.relu(x @ weight)
        return x @ weights[-1]

    return network


def _worth(network: Callable[[Any], Any], given: problems.Problem) -> MaskedFunction:
    return MaskedFunction(network, given.x, interventional(given.background))


def _game(network: Callable[[Any], Any], given: problems.Problem) -> CoalitionGame:
    worth = _worth(network, given)
    return CoalitionGame(worth, worth.masker.names)


def _kernel(given: problems.Problem, budget: int) -> Callable[[], np.ndarray]:
    network = _network(given)
    return lambda: kernel_values(_game(network, given), budget=budget, tol=0).values


def _row_orders(given: problems.Problem, budget: int) -> Callable[[], np.ndarray]:
    network = _network(given)
    return lambda: row_order_values(_worth(network, given), budget=budget, tol=0).values


def _exact(given: problems.Problem) -> Callable[[], np.ndarray]:
    network = _network(given)
    return lambda: exact_values(_game(network, given), force=True).values


def _equal_budgets(given: problems.Problem, goal: float) -> tuple[int, int, int]:
    """What orders of rows, Kernel SHAP and orders for all need for an error of `goal` times the range of exact values.

    shap's kernel draws as ours does (whole sizes, pairs of complements), and its orders are pairs of opposites, so that
    our methods, run with the budgets that shap is given, tell their errors.
    """
    few = given._replace(x=given.x[:2])
    worth = _worth(_network(given), few)
    game = CoalitionGame(worth, worth.masker.names)
    exact = exact_values(game, force=True).values
    aim = goal * float(np.ptp(exact, axis=1).mean())
    columns = exact.shape[1]

    def needed(method: Callable[..., Any], of: Any, start: int) -> int:
        budget = start
        while True:
            found = [method(of, budget=budget, tol=0, seed=seed).values for seed in range(8)]
            if np.sqrt(np.square(np.array(found) - exact[None]).mean()) <= aim:
                return budget
            budget = int(1.25 * budget) + 1

    ours = needed(row_order_values, worth, 4 * columns)
    kernel = needed(kernel_values, game, 3 * columns)
    orders = needed(permutation_values, game, 4 * columns)
    # A pair of orders takes 2 M + 1 evaluations there.
    return ours, kernel, max(orders // (2 * (columns - 1)), 1) * (2 * columns + 1)


def _local(work: Callable[[], np.ndarray]) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = problems.summary(work()[:_TIMED])
        return Prepared(found, time.perf_counter() - began)

    def repeat(count: int) -> Sequence[Any]:
        return [work() for _ in range(count)]

    return Local("chainrule", prepare, lambda: steady(repeat, 1))


__all__ = ["run"]
