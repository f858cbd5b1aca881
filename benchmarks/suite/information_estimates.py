"""Mutual information by nearest neighbours, beside scikit-learn: two numbers, and a number and a label.

Both standardise the values, break ties with noise of 1e-10 and count neighbours in the largest coordinate, so that both
must find the same number. `--smoke` runs toy sizes.
"""

import time
from collections.abc import Callable

from benchmarks.harness import Case, Contestant, Local, Options, Prepared, Report, against, measure
from benchmarks.peer import Peer
from benchmarks.workers import estimate_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.information import mutual_information_estimate

PEERS = ("scikit-learn",)
SIZES = (2_000, 20_000)
SMOKE = True
GOAL = 1.0


def run(options: Options) -> Report:
    """Measure both kinds of pairs at every size."""
    peers = options.chosen(PEERS)
    sizes = (200,) if options.smoke else SIZES
    cases: list[Case] = []
    versions: dict[str, str] = {}
    for count in sizes:
        for task, pairs in (("numbers", problems.pairs), ("labels", problems.labelled)):
            label = f"ksg, {'two numbers' if task == 'numbers' else 'a number and a label'}, n = {count:,}"
            print(f"{label} ...", flush=True)
            theirs: list[Contestant] = [
                Peer(peer, "estimate_peers", {"task": task, "count": count}) for peer in peers
            ]
            case, found = measure(
                label,
                [_local(_work(*pairs(count))), *theirs],
                rounds=options.rounds,
                tolerance=0.01,
                watch=options.watch,
            )
            cases.append(case)
            versions.update(found)
    notes = [line for case in cases for line in against(case, GOAL)]
    return Report(tuple(cases), (), tuple(notes), versions)


def _work(x: object, y: object) -> Callable[[], float]:
    return lambda: mutual_information_estimate(x, y, "ksg", k=problems.NEIGHBOURS, unit="nats").value


def _local(work: Callable[[], float]) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = work()
        return Prepared([found], time.perf_counter() - began)

    return Local("chainrule", prepare, lambda: steady(lambda rounds: [work() for _ in range(rounds)], 1))


__all__ = ["run"]
