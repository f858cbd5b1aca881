"""Capacity and the bottleneck, beside NumPy by the book and dit.

Capacities are computed until both bounds agree to 1e-9 bits; dit stops by its own rule of the same tolerance. The
bottleneck takes ten random starts until the objective stands still; ours follows solutions down from large beta
besides, and all have to find the same objective. `--smoke` runs toy sizes.
"""

import time
from collections.abc import Callable

from benchmarks.harness import Case, Contestant, Local, Options, Prepared, Report, against, measure
from benchmarks.peer import Peer
from benchmarks.workers import channel_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.information import bottleneck, capacity

PEERS = ("numpy", "dit")
ABLE = {"capacity": PEERS, "bottleneck": ("numpy",)}
SIZES = {"capacity": (8, 64), "bottleneck": (8, 24)}
SMOKE = True
GOAL = 1.0


def run(options: Options) -> Report:
    """Measure both at every size."""
    peers = options.chosen(PEERS)
    cases: list[Case] = []
    versions: dict[str, str] = {}
    for task, sizes in SIZES.items():
        for size in sizes[:1] if options.smoke else sizes:
            label = f"{task}, {size} x {size}"
            print(f"{label} ...", flush=True)
            given = {"task": task, "size": size}
            theirs: list[Contestant] = [
                Peer(peer, "channel_peers", {"package": peer, **given})
                for peer in peers
                if peer in ABLE[task]
            ]
            case, found = measure(
                label,
                [_local(WORK[task](size)), *theirs],
                rounds=options.rounds,
                tolerance=1e-4,
                watch=options.watch,
            )
            cases.append(case)
            versions.update(found)
    notes = [line for case in cases for line in against(case, GOAL)]
    return Report(tuple(cases), (), tuple(notes), versions)


def _capacity(size: int) -> Callable[[], float]:
    matrix = problems.channel(size)
    return lambda: capacity(matrix, problems.TOLERANCE).value


def _bottleneck(size: int) -> Callable[[], float]:
    joint = problems.joint(size)
    settings = {"restarts": problems.STARTS, "tol": problems.STILL, "most": problems.SWEEPS}
    return lambda: bottleneck(joint, problems.BETA, **settings).objective


WORK = {"capacity": _capacity, "bottleneck": _bottleneck}


def _local(work: Callable[[], float]) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = work()
        return Prepared([found], time.perf_counter() - began)

    return Local("chainrule", prepare, lambda: steady(lambda rounds: [work() for _ in range(rounds)], 1))


__all__ = ["run"]
