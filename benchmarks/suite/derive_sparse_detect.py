"""Finding sparsity patterns: Brusselator, a scan and a Hessian against asdex and CasADi.

Every detection starts from a function made anew, so that tracing always counts, and must find the same entries.
"""

import time
import tracemalloc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Case, Contestant, Growth, Local, Options, Prepared, Report, measure, ratio
from benchmarks.peer import Peer
from benchmarks.workers import sparse_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.derive import sparse
from chainrule.derive.sparse import Pattern

PEERS = ("asdex", "casadi")
CASES = {
    "brusselator 2048": ("brusselator", 32, ("asdex", "casadi")),
    "brusselator 20000": ("brusselator", 100, ("asdex", "casadi")),
    "brusselator 100352": ("brusselator", 224, ("asdex", "casadi")),
    "brusselator 500000": ("brusselator", 500, ()),
    "scan": ("scan", 100, ("asdex",)),
    "rosenbrock": ("rosenbrock", 10_000, ("asdex",)),
}
"""Problem, size, and the peers that can do it."""
TARGETS = (
    ("brusselator 2048", "asdex", 1 / 3),
    ("brusselator 2048", "casadi", 3.0),
    ("brusselator 20000", "asdex", 1 / 40),
    ("brusselator 20000", "casadi", 1 / 4),
    ("brusselator 100352", "asdex", 1 / 80),
    ("brusselator 100352", "casadi", 1 / 9),
    ("scan", "asdex", 1 / 20),
    ("rosenbrock", "asdex", 1.0),
)
"""Case, peer, and the most our time may be as a multiple of theirs."""
SIZES = (32, 100, 224, 500)
"""Of the Brusselator's grid: 2,048 to 500,000 unknowns."""


def run(options: Options) -> Report:
    """Measure everything."""
    cases, versions = detections(options, options.chosen(PEERS))
    growths = (_growth(options.rounds), _memory())
    return Report(tuple(cases.values()), growths, tuple(targets(cases)), versions)


def detections(options: Options, peers: list[str]) -> tuple[dict[str, Case], dict[str, str]]:
    """All cases, by name, and the versions of what was measured."""
    cases: dict[str, Case] = {}
    versions: dict[str, str] = {}
    for name, (problem, size, rivals) in CASES.items():
        label = f"detect {problem}, n = {problems.length(problem, size):,}"
        contestants: list[Contestant] = [_ours(problem, size)]
        contestants += [
            Peer(peer, "sparse_detect", {"peer": peer, "problem": problem, "size": size})
            for peer in rivals
            if peer in peers
        ]
        cases[name], found = measure(
            label, contestants, rounds=options.rounds, tolerance=1e-9, watch=options.watch
        )
        versions |= found
    return cases, versions


def targets(cases: dict[str, Case]) -> list[str]:
    """Each target beside what was measured."""
    lines = []
    for name, peer, most in TARGETS:
        case = cases[name]
        found = [ratio(case.ours, theirs).median for theirs in case.times[1:] if theirs.name == peer]
        lines += [_line(f"{case.label}: time over {peer}", one, most) for one in found]
    large, larger = (cases[f"brusselator {n}"].ours.summary.median for n in (100352, 500000))
    lines.append(_line("detect brusselator, n = 500,000: time over our own at 100,352", larger / large, 6.0))
    return lines


def detected(problem: str, size: int) -> Pattern:
    """Our own detection, from a function made anew."""
    of = "hessian" if problem in problems.SECOND_ORDER else "jacobian"
    return sparse.detect(problems.PROGRAMS[problem](jax, size), _point(problem, size), of=of)


def _point(problem: str, size: int) -> Any:
    return jnp.ones(problems.length(problem, size))


def _ours(problem: str, size: int) -> Contestant:
    def prepare() -> Prepared:
        jax.config.update("jax_enable_x64", True)
        began = time.perf_counter()
        found = detected(problem, size)
        taken = time.perf_counter() - began
        return Prepared(problems.positions(found.rows, found.cols), taken)

    def turn() -> float:
        return steady(lambda count: [detected(problem, size) for _ in range(count)], 1)

    return Local("chainrule", prepare, turn)


def _growth(rounds: int) -> Growth:
    seconds, entries = [], []
    for size in SIZES:
        entries.append(float(detected("brusselator", size).nnz))
        taken = []
        for _ in range(rounds):
            began = time.perf_counter()
            detected("brusselator", size)
            taken.append(time.perf_counter() - began)
        seconds.append(float(np.median(taken)))
    return Growth("seconds of detection", "unknowns", _lengths(), tuple(seconds), tuple(entries))


def _memory() -> Growth:
    peaks, entries = [], []
    for size in SIZES:
        tracemalloc.start()
        entries.append(float(detected("brusselator", size).nnz))
        peaks.append(float(tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    return Growth("peak bytes of detection", "unknowns", _lengths(), tuple(peaks), tuple(entries))


def _lengths() -> tuple[float, ...]:
    return tuple(float(problems.length("brusselator", size)) for size in SIZES)


def _line(what: str, found: float, most: float) -> str:
    verdict = "met" if found <= most else "MISSED"
    return f"{what}: {found:.3g}, target at most {most:.3g}: {verdict}"
