"""Sparse derivatives: evaluation, preparation and colouring against asdex, CasADi, SciPy and dense JAX.

Everybody differentiates the same functions at the same points and must arrive at the same Jacobian; those who use JAX
do it without its second thread, which costs all of them more than it saves at these sizes. The column "compile" is
preparation in a process that has run before: detection, colouring and compilation, with the first evaluation; lines
below the table give it in new processes. Colours are compared in the lines below the table, each beside its target.
"""

import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import matrices
from benchmarks.harness import (
    Case,
    Contestant,
    Growth,
    Local,
    Options,
    Prepared,
    Report,
    Times,
    measure,
    ratio,
)
from benchmarks.peer import PYTHON, WORKERS, Peer
from benchmarks.workers import sparse_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.derive import sparse
from chainrule.derive.sparse import Pattern

PEERS = ("asdex", "casadi", "scipy", "jax")
FORMS = {"casadi": ("casadi-SX", "casadi-MX")}
SIZES = (32, 100, 224, 500)
"""Of the Brusselator's grid, for growth: 2,048 to 500,000 unknowns."""
BUDGET = 10.0
"""Seconds of search for colours of a matrix from a collection."""


def run(options: Options) -> Report:
    """Measure everything."""
    # Everybody computes on the thread that asks: handing a small program to another one takes longer than running it.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    peers = options.chosen(PEERS)
    cases: dict[str, Case] = {}
    versions: dict[str, str] = {}

    def case(name: str, label: str, contestants: list[Contestant], tolerance: float = 1e-5) -> None:
        cases[name], found = measure(
            label, contestants, rounds=options.rounds, tolerance=tolerance, watch=options.watch
        )
        versions.update(found)

    for name, (problem, size, dtype, rivals) in EVALUATIONS.items():
        forms = [form for peer in rivals if peer in peers for form in FORMS.get(peer, (peer,))]
        label = f"evaluate {problem}, n = {problems.length(problem, size):,}"
        theirs = [_peer(form, "evaluate", problem, size, dtype) for form in forms]
        case(name, label, [_evaluation(problem, size, dtype), *theirs], 1e-4 if dtype == "float32" else 1e-5)
    for name, (task, problem, size, rivals) in COLORINGS.items():
        label = f"colour {problem}, {task}, n = {problems.length(problem, size):,}"
        theirs = [_peer(peer, task, problem, size) for peer in rivals if peer in peers]
        case(name, label, [_coloring(task, problem, size), *theirs])
    growths = (_growth(options.rounds), _memory())
    return Report(tuple(cases.values()), growths, tuple(_targets(cases, peers)), versions)


EVALUATIONS = {
    "brusselator": ("brusselator", 32, "float64", ("asdex", "casadi", "scipy")),
    "diffusion 1000": ("diffusion", 1_000, "float64", ("asdex", "scipy", "jax")),
    "diffusion 4000": ("diffusion", 4_000, "float64", ("asdex", "scipy", "jax")),
    "diagonal": ("diagonal", 10_000, "float32", ("asdex", "jax")),
}
"""Problem, size, number type, and the peers that can do it."""

COLORINGS = {
    "column": ("column", "brusselator", 100, ("asdex", "casadi", "scipy")),
    "star 2000": ("star", "band", 2_000, ("asdex", "casadi")),
    "star 20000": ("star", "band", 20_000, ("asdex",)),
    "star 100000": ("star", "band", 100_000, ()),
    "arrow": ("auto", "arrow", 100_000, ()),
}
"""Method, problem, size, and the peers that can do it in a reasonable time."""


def _peer(form: str, task: str, problem: str, size: int, dtype: str = "float64") -> Contestant:
    arguments = {"peer": form, "task": task, "problem": problem, "size": size, "dtype": dtype}
    return Peer(form, "sparse_peers", arguments)


def _timed(work: Callable[[], Any], piece: int) -> Callable[[], float]:
    return lambda: steady(lambda count: [work() for _ in range(count)], piece)


def _evaluation(problem: str, size: int, dtype: str) -> Contestant:
    made: list[Any] = []
    jax.config.update("jax_enable_x64", dtype == "float64")
    x = jnp.asarray(problems.point(problem, size, dtype))

    def prepare() -> Prepared:
        jax.config.update("jax_enable_x64", dtype == "float64")
        began = time.perf_counter()
        made.append(sparse.jacobian(problems.FUNCTIONS[problem](jnp, size), x))
        jax.block_until_ready(made[0](x).data)
        taken = time.perf_counter() - began
        v = problems.direction(len(x)).astype(dtype)
        return Prepared(problems.summary(np.asarray(made[0](x) @ v)), taken)

    return Local("chainrule", prepare, lambda: _timed(lambda: made[0](x).data.block_until_ready(), 16)())


def _coloring(task: str, problem: str, size: int) -> Contestant:
    pattern = Pattern.from_scipy(problems.PATTERNS[problem](size))
    order = "auto" if task == "auto" else "natural"

    def work() -> Any:
        return sparse.color(pattern, task, order)

    def prepare() -> Prepared:
        began = time.perf_counter()
        for _ in range(16):  # as often as it takes to load the compiler
            work()
        return Prepared([float(pattern.shape[0]), float(pattern.nnz)], time.perf_counter() - began)

    return Local("chainrule", prepare, _timed(work, 1))


def _growth(rounds: int) -> Growth:
    """Colouring the Brusselator in one order, by size."""
    seconds, entries = [], []
    for size in SIZES:
        pattern = Pattern.from_scipy(problems.brusselator_pattern(size))
        sparse.color(pattern, "column", "natural")
        taken = [sparse.color(pattern, "column", "natural").seconds for _ in range(rounds)]
        seconds.append(float(np.median(taken)))
        entries.append(float(pattern.nnz))
    return Growth("seconds of colouring columns", "unknowns", _lengths(), tuple(seconds), tuple(entries))


def _memory() -> Growth:
    """What the same colouring allocates at its peak."""
    peaks, entries = [], []
    for size in SIZES:
        pattern = Pattern.from_scipy(problems.brusselator_pattern(size))
        tracemalloc.start()
        sparse.color(pattern, "column", "natural")
        peaks.append(float(tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
        entries.append(float(pattern.nnz))
    return Growth("peak bytes of colouring columns", "unknowns", _lengths(), tuple(peaks), tuple(entries))


def _lengths() -> tuple[float, ...]:
    return tuple(float(problems.length("brusselator", size)) for size in SIZES)


def _targets(cases: dict[str, Case], peers: list[str]) -> list[str]:
    """Each target beside what was measured."""
    lines = []
    for name, peer, most in RATIOS:
        found = _ratio(cases[name], peer)
        if found is not None:
            lines.append(_line(f"{cases[name].label}: time over {peer}", found, most))
    lines += _preparations(peers)
    counts = _colors(peers)
    for (label, most), found in zip(COLORS.items(), _our_colors(), strict=True):
        rivals = ", ".join(f"{peer} {counts[peer][label]}" for peer in counts if label in counts[peer])
        lines.append(_line(f"products, {label}" + (f" ({rivals})" if rivals else ""), found, most))
    arrow = cases["arrow"].ours.summary.median
    lines.append(_line("colour arrow, n = 100,000: seconds", arrow, 1.0))
    rival = _named(cases["star 2000"], "casadi")
    if rival is not None:
        share = cases["star 100000"].ours.summary.median / rival.summary.median
        lines.append(_line("star colours of band, ours at 100,000 over casadi at 2,000", share, 1.0))
    return lines + _collected()


def _preparations(peers: list[str]) -> list[str]:
    """Preparing one Jacobian in a new process, medians of alternating runs; what is kept, is kept for everybody."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for peer, form, kept, most in PREPARATIONS:
            if peer not in peers:
                continue
            cache = [f"{folder}/{form}"] if kept else []
            runs: dict[str, list[float]] = {"chainrule": [], form: []}
            for _ in range(_NEW_PROCESSES + bool(kept)):
                for name, taken in runs.items():
                    taken.append(_new_process(name, "brusselator", "32", *cache))
            ours, theirs = (float(np.median(taken[bool(kept) :])) for taken in runs.values())
            what = "programs kept on disk" if kept else "nothing kept"
            label = f"prepare brusselator, n = 2,048, new process, {what}: time over {form} ({theirs:.3g} s)"
            lines.append(_line(label, ours / theirs, most))
    return lines


def _new_process(name: str, *arguments: str) -> float:
    python = sys.executable if name == "chainrule" else str(PYTHON)
    command = [python, str(WORKERS / "sparse_prepare.py"), name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(done.stdout.splitlines()[-1])


_NEW_PROCESSES = 5
PREPARATIONS = (
    ("asdex", "asdex", False, 1.0),
    ("asdex", "asdex", True, 1.0),
    ("casadi", "casadi-MX", True, 2.0),
)
"""Peer, its form, whether compiled programs are kept between processes, and the most our time may be of theirs."""

RATIOS = (
    ("brusselator", "asdex", 0.9),
    ("brusselator", "casadi", 1.0),
    ("diffusion 1000", "jax", 1 / 80),
    ("diffusion 4000", "jax", 1 / 1500),
    ("diffusion 1000", "asdex", 1.0),
    ("diffusion 4000", "asdex", 1.0),
    ("diffusion 1000", "scipy", 1 / 150),
    ("diffusion 4000", "scipy", 1 / 150),
    ("diagonal", "jax", 1 / 1500),
    ("column", "scipy", 2.0),
    ("column", "casadi", 1.0),
    ("star 20000", "asdex", 1 / 200),
)
"""Case, peer, and the most our time may be as a multiple of theirs (of their fastest form)."""

COLORS = {
    "brusselator 32": 10,
    "brusselator 30": 6,
    "band 2000": 16,
    "arrow 300": 3,
    "network 200": 10,
    "network 1000": 11,
}
"""Pattern and size, and the most products that are on target."""


def _collected() -> list[str]:
    """Matrices that others have reported colours for, where they are at hand."""
    lines, absent = [], []
    for name, counts in matrices.PUBLISHED.items():
        matrix = matrices.load(name)
        if matrix is None:
            absent.append(name)
            continue
        for method, most in counts.items():
            found = sparse.color(matrix, method, budget=BUDGET)
            what = f"colours of {name}, {method} (at least {found.lower_bound}, {found.seconds:.2g} s)"
            lines.append(_line(what, found.num_colors, most))
    if absent:
        lines.append(f"skipped, not in the folder CHAINRULE_MATRICES: {', '.join(absent)}")
    return lines


def _our_colors() -> list[int]:
    found = []
    for label in COLORS:
        problem, size = label.split()
        pattern = Pattern.from_scipy(problems.PATTERNS[problem](int(size)))
        method = "star" if problem in problems.SYMMETRIC else "auto" if problem == "arrow" else "column"
        found.append(sparse.color(pattern, method).num_colors)
    return found


def _colors(peers: list[str]) -> dict[str, dict[str, int]]:
    """What the peers need for the same patterns, counted once in their own environment."""
    wanted = [peer for peer in peers if peer != "jax"]
    if not wanted:
        return {}
    code = WORKERS / "sparse_counts.py"
    done = subprocess.run(
        [str(PYTHON), str(code), json.dumps([wanted, list(COLORS)])],
        capture_output=True,
        text=True,
        check=True,
    )
    counts: dict[str, dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return counts


def _named(case: Case, peer: str) -> Times | None:
    """The fastest form of a peer."""
    forms = [times for times in case.times if times.name.partition("-")[0] == peer]
    return min(forms, key=lambda times: times.summary.median, default=None)


def _ratio(case: Case, peer: str) -> float | None:
    theirs = _named(case, peer)
    return None if theirs is None else ratio(case.ours, theirs).median


def _line(what: str, found: float, most: float) -> str:
    verdict = "met" if found <= most else "MISSED"
    return f"{what}: {found:.3g}, target at most {most:.3g}: {verdict}"
