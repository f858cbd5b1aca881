"""What judging 10,000 samples by 64 features costs, beside NumPy by the book, torchmetrics and prdc.

Three distances that every generative model is scored by: the Fréchet distance of features, the kernel distance over 100
subsets of 1,000, and precision, recall, density and coverage by balls of five neighbours. Everybody gets the same
features in double precision and must find the same numbers; subsets are drawn by chance, so that their mean need only
come close. `--smoke` runs toy sizes.
"""

import time
from collections.abc import Callable
from typing import Any

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, Report, against, measure
from benchmarks.peer import Peer
from benchmarks.workers import score_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.probability.samples import fidelity, frechet_distance, kernel_distance_over_subsets

PEERS = ("numpy", "torchmetrics", "prdc")
SMOKE = True


def run(options: Options) -> Report:
    """Measure all three."""
    peers = options.chosen(PEERS)
    rows = 600 if options.smoke else problems.ROWS
    real, samples = problems.features(rows)
    size = min(problems.SIZE, rows // 2)
    cases: list[Case] = []
    versions: dict[str, str] = {}
    asked: list[tuple[str, str, Callable[[], list[float]], tuple[str, ...], float]] = [
        ("Frechet", "frechet", lambda: [frechet_distance(samples, real)], ("numpy", "torchmetrics"), 1e-3),
        (
            f"kernel, {problems.SUBSETS} subsets of {size:,}",
            "kernel",
            lambda: [kernel_distance_over_subsets(samples, real, subsets=problems.SUBSETS, size=size).mean],
            ("torchmetrics",),
            0.1,
        ),
        (
            "precision to coverage",
            "neighbours",
            lambda: list(fidelity(real, samples, problems.NEIGHBOURS)),
            ("prdc",),
            1e-3,
        ),
    ]
    for label, task, work, able, tolerance in asked:
        print(f"{label} ...", flush=True)
        given = {"task": task, "rows": rows, "threads": THREADS}
        theirs: list[Contestant] = [
            Peer(peer, "score_peers", {"package": peer, **given}) for peer in peers if peer in able
        ]
        case, found = measure(
            f"{label}, n = {rows:,}",
            [_local(work), *theirs],
            rounds=options.rounds,
            tolerance=tolerance,
            watch=options.watch,
        )
        cases.append(case)
        versions.update(found)
    notes = [line for case in cases for line in against(case, 1.0)]
    return Report(tuple(cases), (), tuple(notes), versions)


def _local(work: Callable[[], list[float]]) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = work()
        return Prepared(found, time.perf_counter() - began)

    def repeat(count: int) -> Any:
        return [work() for _ in range(count)]

    return Local("chainrule", prepare, lambda: steady(repeat, 1))


__all__ = ["run"]
