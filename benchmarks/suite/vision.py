"""What suppressing 1,000 boxes and aligning 256 regions costs, beside PyTorch by the book, or torchvision where it is.

Class-wise suppression keeps at most 100 of 1,000 boxes of 20 classes; RoIAlign brings 256 boxes of a 50 x 50 map of 64
channels to 7 x 7 cells of 2 x 2 points. Everybody gets the same boxes and must find the same numbers. `--smoke` runs
toy sizes.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, Report, against, measure
from benchmarks.peer import Peer
from benchmarks.workers import vision_problems as problems
from benchmarks.workers.protocol import steady
from chainrule.nn.detection import nms, roi_align

PEERS = ("torch", "torchvision")
SMOKE = True


def run(options: Options) -> Report:
    """Measure both."""
    able = [peer for peer in options.chosen(PEERS) if peer != "torchvision" or _has_torchvision()]
    count, side = (60, 16) if options.smoke else (problems.BOXES, problems.SIDE)
    many = 8 if options.smoke else problems.REGIONS
    cases: list[Case] = []
    versions: dict[str, str] = {}
    asked = [
        (f"suppression of {count:,} boxes", "nms", count, _suppression(count)),
        (f"RoIAlign of {many} regions", "align", many, _alignment(many, side)),
    ]
    for label, task, size, work in asked:
        print(f"{label} ...", flush=True)
        given = {"task": task, "count": size, "side": side, "threads": THREADS}
        theirs: list[Contestant] = [Peer(peer, "vision_peers", {"package": peer, **given}) for peer in able]
        case, found = measure(
            label,
            [_local(work), *theirs],
            rounds=options.rounds,
            tolerance=1e-3,
            watch=options.watch,
        )
        cases.append(case)
        versions.update(found)
    notes = [line for case in cases for line in against(case, 1.0)]
    return Report(tuple(cases), (), tuple(notes), versions)


def _has_torchvision() -> bool:
    """Whether the environment of the peers has it; where it cannot be installed PyTorch by the book stands alone."""
    peers = Path(__file__).parents[2] / ".venv-peers"
    return any(peers.glob("lib/python*/site-packages/torchvision"))


def _suppression(count: int) -> Callable[[], list[float]]:
    boxes, scores, labels = (jnp.asarray(one) for one in problems.scored_boxes(count))

    @jax.jit
    def suppressed(boxes: jax.Array, scores: jax.Array, labels: jax.Array) -> jax.Array:
        kept = nms(boxes, scores, labels, threshold=problems.THRESHOLD, most=problems.KEPT)
        there = kept.there
        return jnp.stack(
            [
                kept.scores.sum(),
                jnp.where(there, labels[kept.indices], 0).sum().astype(jnp.float32),
                there.sum().astype(jnp.float32),
            ]
        )

    return lambda: [float(one) for one in suppressed(boxes, scores, labels)]


def _alignment(count: int, side: int) -> Callable[[], list[float]]:
    features, boxes = (jnp.asarray(one) for one in problems.regions(count, side))
    cells = (problems.CELLS, problems.CELLS)

    @jax.jit
    def aligned(features: jax.Array, boxes: jax.Array) -> jax.Array:
        found = roi_align(features, boxes, cells)
        return jnp.stack([found.sum(), (found**2).sum()])

    return lambda: [float(one) for one in aligned(features, boxes)]


def _local(work: Callable[[], list[float]]) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = work()
        return Prepared(found, time.perf_counter() - began)

    def repeat(count: int) -> Any:
        return [work() for _ in range(count)]

    return Local("chainrule", prepare, lambda: steady(repeat, 1))


__all__ = ["run"]
