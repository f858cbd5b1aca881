"""Gaussian processes, support vectors and Gram matrices beside scikit-learn, tinygp and GPyTorch.

Everybody works in double precision on the same arrays and must arrive at the same numbers. A Gaussian process with an
RBF kernel of given scale and noise learns 2,000 or 5,000 rows of eight features and predicts 500 new observations with
their variances; its evidence and the three slopes of it are what learning hyper-parameters takes many times. GPyTorch
is asked for Cholesky factors, because its own conjugate gradients give other numbers. A support vector classifier
learns 10,000 rows of 50 features and decides 2,000 new ones. The bound of a sparse process with 512 inducing inputs and
its gradient are followed to 50,000 rows, time and scratch memory of the compiled program. `--smoke` runs toy sizes.
"""

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import Case, Contestant, Growth, Local, Options, Prepared, Report, measure, ratio
from benchmarks.peer import Peer
from benchmarks.workers import kernel_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.kernels import RBF, Constant
from chainrule.kernels.gaussian_processes import GaussianProcess
from chainrule.kernels.gaussian_processes.evidence import evidence
from chainrule.kernels.gaussian_processes.sparse import SparseGaussianProcess
from chainrule.kernels.precision import widened
from chainrule.kernels.support_vectors import SupportVectorClassifier

PEERS = ("scikit-learn", "tinygp", "gpytorch")
SIZES = (2_000, 5_000)
GROWTH = (500, 1_000, 2_000, 4_000)
SVM_GROWTH = (1_250, 2_500, 5_000, 10_000)
SPARSE_GROWTH = (6_250, 12_500, 25_000, 50_000)
INDUCING = 512
SMOKE = True
GOALS = {"posterior": 0.7, "evidence": 0.7, "svm": 1.0, "gram": 1.0}
CHOICES = tuple(GOALS)
Work = Callable[[], Any]
Result = Callable[[Any], list[float]]


def run(options: Options) -> Report:
    """Measure everything."""
    peers = options.chosen(PEERS)
    cases: list[Case] = []
    notes: list[str] = []
    versions: dict[str, str] = {}
    sizes = (200, 300) if options.smoke else SIZES
    rows = 500 if options.smoke else problems.SVM_ROWS
    pairs = 500 if options.smoke else problems.GRAM_ROWS
    asked: list[tuple[str, str, Work, Result, dict[str, Any], tuple[str, ...], float]] = [
        *(
            (f"posterior, n = {n:,}", "posterior", posterior(n), _few, {"count": n}, PEERS, 1e-5)
            for n in sizes
        ),
        *((f"evidence, n = {n:,}", "evidence", slopes(n), _slopes, {"count": n}, PEERS, 1e-5) for n in sizes),
        (f"support vectors, n = {rows:,}", "svm", support(rows), _square, {"count": rows}, PEERS[:1], 1e-3),
        (f"Gram matrix, n = {pairs:,}", "gram", gram(pairs), _corner, {"count": pairs}, PEERS[:1], 1e-9),
    ]
    for label, task, work, result, arguments, able, tolerance in asked:
        if options.case not in (None, task):
            continue
        print(f"{label} ...", flush=True)
        theirs: list[Contestant] = [
            Peer(peer, "kernel_peers", {"package": peer, "task": task, **arguments})
            for peer in peers
            if peer in able
        ]
        case, found = measure(
            label,
            [_local(work, result), *theirs],
            rounds=options.rounds,
            tolerance=tolerance,
            watch=options.watch,
        )
        cases.append(case)
        versions.update(found)
        notes += _target(case, GOALS[task])
    if options.smoke or options.case:
        return Report(tuple(cases), (), tuple(notes), versions)
    grown = (*growth(options.rounds), *sparse_growth(options.rounds))
    most = SPARSE_GROWTH[-1]
    seconds, scratch = (one.values[-1] for one in grown[-2:])
    notes.append(
        f"sparse bound of {most:,} rows by {INDUCING} inducing inputs with its gradient: {seconds:.2g} s, "
        f"{scratch / 1e6:.0f} MB of scratch memory; a kernel matrix would take {8 * most**2 / 1e9:.0f} GB"
    )
    return Report(tuple(cases), grown, tuple(notes), versions)


def posterior(count: int) -> Work:
    """Means and variances of new observations, hyper-parameters given."""
    x, y, new = problems.regression(count)
    process = GaussianProcess(RBF(problems.SCALE), problems.NOISE)
    return lambda: process.fit(x, y).predict(new)


def slopes(count: int) -> Work:
    """Log evidence and its slopes by the logarithms of variance, length scale and noise."""
    x, y, _ = problems.regression(count)
    with jax.enable_x64(True):
        kernel = widened(Constant(1.0) * RBF(problems.SCALE))
    noise = np.full(count, problems.NOISE)

    def work() -> Any:
        with jax.enable_x64(True):
            found = evidence(kernel, noise, x, y[:, None])
        by = found.kernel
        return found.value, [by.first.log_value, by.second.log_scale, problems.NOISE * found.noise.sum()]

    return work


def support(count: int) -> Work:
    """A support vector classifier, trained and asked about new points."""
    x, labels, new = problems.classes(count)
    machine = SupportVectorClassifier(C=problems.SVM_C)
    return lambda: machine.fit(x, labels).decision(new)


def gram(count: int) -> Work:
    """The RBF matrix of all pairs."""
    x = problems.points(count)

    def work() -> Any:
        with jax.enable_x64(True):
            return jax.block_until_ready(RBF(problems.GRAM_FEATURES**0.5).gram(x))

    return work


def _few(found: Any) -> list[float]:
    mean, variance = found
    return [float(v) for v in (*mean[:5], *variance[:5])]


def _slopes(found: Any) -> list[float]:
    value, slopes = found
    return [float(value), *(float(s) for s in slopes)]


def _square(found: Any) -> list[float]:
    return [float(np.square(found).mean())]


def _corner(found: Any) -> list[float]:
    return [float(v) for v in np.asarray(found[:3, :3]).ravel()]


def _local(work: Work, result: Result) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = work()
        return Prepared(result(found), time.perf_counter() - began)

    return Local("chainrule", prepare, lambda: _seconds(work))


def _seconds(work: Work) -> float:
    return steady(lambda count: [work() for _ in range(count)], 1)


def growth(rounds: int) -> tuple[Growth, ...]:
    """Seconds by the number of rows."""
    found = []
    for what, made, sizes, power in (
        ("posterior", posterior, GROWTH, 3),
        ("evidence", slopes, GROWTH, 3),
        ("support vectors", support, SVM_GROWTH, 2),
    ):
        print(f"growth of {what} ...", flush=True)
        seconds = []
        for size in sizes:
            work = made(size)
            work()
            seconds.append(float(np.median([_seconds(work) for _ in range(min(rounds, 3))])))
        found.append(
            Growth(
                f"seconds of {what}",
                "rows",
                tuple(float(size) for size in sizes),
                tuple(seconds),
                tuple(float(size) ** power for size in sizes),
            )
        )
    return tuple(found)


def sparse_growth(rounds: int) -> tuple[Growth, Growth]:
    """Seconds and scratch bytes of the bound of a sparse process with its gradient, by the number of rows."""
    print("growth of the sparse bound ...", flush=True)
    seconds, scratch = [], []
    with jax.enable_x64(True):
        for size in SPARSE_GROWTH:
            x, y, _ = (jnp.asarray(part) for part in problems.regression(size))
            process = widened(
                SparseGaussianProcess(Constant(1.0) * RBF(problems.SCALE), problems.NOISE, x[:INDUCING])
            )
            arrays, rest = eqx.partition(process, eqx.is_inexact_array)

            def bound(arrays: Any, x: Any, y: Any, rest: Any = rest) -> Any:
                return eqx.combine(arrays, rest).bound(x, y)

            program = jax.jit(jax.value_and_grad(bound)).lower(arrays, x, y).compile()
            work = lambda p=program, given=(arrays, x, y): jax.block_until_ready(p(*given))  # noqa: E731
            scratch.append(float(program.memory_analysis().temp_size_in_bytes))
            seconds.append(float(np.median([_seconds(work) for _ in range(min(rounds, 3))])))
    rows = tuple(float(size) for size in SPARSE_GROWTH)
    return (
        Growth("seconds of the sparse bound", "rows", rows, tuple(seconds), rows),
        Growth("scratch bytes of the sparse bound", "rows", rows, tuple(scratch), tuple(1.0 for _ in rows)),
    )


def _target(case: Case, goal: float) -> list[str]:
    best = case.best_peer
    if best is None:
        return []
    share = ratio(case.ours, best).median
    met = "met" if share <= goal else "MISSED"
    return [
        f"{case.label}: time over the best peer ({best.name}) {share:.3g}, target at most {goal:g}: {met}"
    ]
