"""Entropic and exact transport beside POT and ott-jax: one problem, many small ones, and how time grows.

Everybody gets the same cost matrix in single precision and the same eps, a twentieth of the mean cost, and stops when
at most a thousandth of the mass is in wrong places: then the interval between what potentials prove and what the plan
costs is the same for all. What is returned, and compared, is the cost <C, P> of the plan. Peers run with the
kernel and in the log domain, each with the loosest threshold of its own that reaches that error (POT's stabilised
kernel, slower than its plain one on small problems, does not reach it at n = 1,000 in single precision); among many
small problems there are some in which entries of a plain kernel vanish, so that only the log domain serves. At
n = 10,000 columns of it vanish: POT's kernel is then given double precision, ott-jax's cannot be used, and POT's log
domain, 70 times slower than its kernel at n = 1,000, is left out. Exact transport between equal weights is compared
with POT's network simplex, in double precision. `--smoke` runs toy sizes.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Case, Contestant, Growth, Local, Options, Prepared, Report, measure, ratio
from benchmarks.peer import PYTHON, Peer
from benchmarks.workers import transport_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.probability.transport import exact, point_costs, sinkhorn

ONE = ("pot-sinkhorn", "pot-log", "ott-log", "ott-kernel", "geomloss")
LARGE = ("pot-sinkhorn", "ott-log", "geomloss")
MANY = ("pot-batch", "ott-log", "geomloss")
EXACT = ("pot-exact",)
PEERS = ("pot-sinkhorn", "pot-log", "ott-log", "ott-kernel", "pot-batch", "pot-exact")
SIZES = (1_000, 10_000)
EXACT_SIZE = 1_000
GROWTH = (500, 1_000, 2_000, 4_000, 8_000)
SMOKE = True
GOALS = {"one": 0.5, "batch": 0.5, "exact": 1.0}
CHOICES = tuple(GOALS)
Work = Callable[[], float]


def run(options: Options) -> Report:
    """Measure everything."""
    return compare(options, SIZES, PEERS, PYTHON)


def compare(
    options: Options,
    sizes: tuple[int, ...],
    available: tuple[str, ...],
    python: Path,
    *,
    goals: dict[str, float] = GOALS,
    grow: bool = True,
) -> Report:
    """Measure problems of these sizes, many small ones and exact ones against those peers that are there."""
    peers = options.chosen(available)
    sizes = (64, 100) if options.smoke else sizes
    count = 8 if options.smoke else problems.PROBLEMS
    asked: list[tuple[str, str, Work, int, tuple[str, ...]]] = [
        *((f"n = {n:,}", "one", one(n), n, ONE if n <= 2_000 else LARGE) for n in sizes),
        (f"{count} problems, n = {problems.POINTS}", "batch", many(count), count, MANY),
    ]
    if set(EXACT) & set(available):
        size = 64 if options.smoke else EXACT_SIZE
        asked.append((f"exact, n = {size:,}", "exact", exactly(size), size, EXACT))
    cases: list[Case] = []
    notes: list[str] = []
    versions: dict[str, str] = {}
    for label, task, work, size, able in asked:
        if options.case not in (None, task):
            continue
        print(f"{label} ...", flush=True)
        theirs: list[Contestant] = [
            Peer(peer, "transport_peers", {"form": peer, "task": task, "count": size}, python)
            for peer in peers
            if peer in able
        ]
        case, found = measure(
            label, [_local(work), *theirs], rounds=options.rounds, tolerance=5e-3, watch=options.watch
        )
        cases.append(case)
        versions.update(found)
        notes += _target(case, goals[task])
    grown = growth(options.rounds) if grow and not options.smoke and options.case is None else ()
    return Report(tuple(cases), grown, tuple(notes), versions)


def one(count: int) -> Work:
    """The entropic cost of one problem."""
    matrix, eps = problems.costs(count)
    given = jnp.asarray(matrix)
    solve = jax.jit(lambda matrix: sinkhorn(None, None, matrix, eps, tolerance=problems.TOLERANCE).cost)
    return lambda: float(solve(given))


def many(count: int) -> Work:
    """The mean of many."""
    matrices, eps = problems.many(count)
    given = jnp.asarray(matrices)

    def cost(matrix: jax.Array) -> jax.Array:
        return sinkhorn(None, None, matrix, eps, tolerance=problems.TOLERANCE).cost

    solve = jax.jit(lambda matrices: jax.vmap(cost)(matrices).mean())
    return lambda: float(solve(given))


def exactly(count: int) -> Work:
    """The cost without entropic term."""
    matrix, _ = problems.costs(count)
    even, wide = np.full(count, 1 / count), matrix.astype(np.float64)

    def work() -> float:
        with jax.enable_x64(True):
            return float(exact(even, even, wide).cost)

    return work


def streamed(count: int) -> Work:
    """The entropic cost of points whose costs are never all there."""
    x, y = problems.clouds(count)
    _, eps = problems.costs(min(count, 2_000))

    @jax.jit
    def solve(x: jax.Array, y: jax.Array) -> jax.Array:
        return sinkhorn(None, None, point_costs(x, y), eps, tolerance=problems.TOLERANCE).cost

    return lambda: float(solve(x, y))


def _local(work: Work) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = work()
        return Prepared([found], time.perf_counter() - began)

    return Local("chainrule", prepare, lambda: _seconds(work))


def _seconds(work: Work) -> float:
    return steady(lambda rounds: [work() for _ in range(rounds)], 1)


def growth(rounds: int) -> tuple[Growth, ...]:
    """Seconds by the number of points, with a matrix and without."""
    found = []
    for what, made in (("a problem with its matrix", one), ("a problem in blocks", streamed)):
        print(f"growth of {what} ...", flush=True)
        seconds = []
        for size in GROWTH:
            work = made(size)
            work()
            seconds.append(float(np.median([_seconds(work) for _ in range(min(rounds, 3))])))
        sizes = tuple(float(size) for size in GROWTH)
        found.append(
            Growth(f"seconds of {what}", "points", sizes, tuple(seconds), tuple(size**2 for size in sizes))
        )
    return tuple(found)


def _target(case: Case, goal: float) -> list[str]:
    best: Any = case.best_peer
    if best is None:
        return []
    share = ratio(case.ours, best).median
    met = "met" if share <= goal else "MISSED"
    return [
        f"{case.label}: time over the best peer ({best.name}) {share:.3g}, target at most {goal:g}: {met}"
    ]


__all__ = ["compare", "run"]
