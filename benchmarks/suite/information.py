"""Compressing by trained models and reading back: megabytes a second, and how long coding takes beside networks alone.

The networks of a variational auto-encoder are run over the same blocks of images without coding anything, in the order
in which writing or reading needs them; that is what no coder can be faster than. Writing is what `chainrule compress`
does without reading back, reading what `chainrule decompress` does; files are not among either. `--smoke` runs toy
sizes.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.harness import Contestant, Local, Options, Prepared, Report, measure, ratio
from benchmarks.workers.protocol import steady
from chainrule import models
from chainrule.data.schema import Schema
from chainrule.information.compression.bits_back import Known, LatentCode, Move
from chainrule.information.compression.codes import CodedStream, blocks, filled, fitting_rows
from chainrule.information.compression.lanes import decode_lanes, encode_lanes

SMOKE = True
GOAL = 1.5
_COUNT = 1_000
Works: TypeAlias = dict[str, Callable[[], float]]
"""What is timed, by name: ours, the networks alone, ours in two lanes."""


class _Workload(NamedTuple):
    """A model and images for it."""

    label: str
    levels: int
    settings: dict[str, Any]


WORKLOADS = (
    _Workload("784-100-40, zeros and ones", 2, {"latent": 40, "width": 100, "depth": 1}),
    _Workload("784-512-512-40, zeros and ones", 2, {"latent": 40, "width": 512, "depth": 2}),
    _Workload("convolutions, zeros and ones", 2, {"latent": 32, "body": "conv", "channels": (8, 16, 32)}),
    _Workload("784-512-512-40, 256 levels", 256, {"latent": 40, "width": 512, "depth": 2}),
)


def run(options: Options) -> Report:
    """Measure every model."""
    cases, notes, versions = [], [], {}
    for workload in WORKLOADS:
        print(f"{workload.label} ...", flush=True)
        code, symbols = _prepared(workload, 32 if options.smoke else _COUNT)
        for what, label, works in (
            ("writing", workload.label, _writing(code, symbols)),
            ("reading", f"{workload.label}, read back", _reading(code, symbols)),
        ):
            contestants = [_contestant(name, work) for name, work in works.items()]
            case, found = measure(
                label, contestants, rounds=options.rounds, tolerance=1e-6, watch=options.watch
            )
            cases.append(case)
            versions.update(found)
            share = ratio(case.ours, case.times[1]).median
            speed = symbols.size / 1e6 / case.ours.summary.median
            notes.append(
                f"{workload.label}, {what}: {speed:.2f} MB/s, {share:.2f} of the networks alone{_judged(what, share)}; "
                f"two lanes {ratio(case.times[2], case.times[1]).median:.2f}"
            )
    return Report(tuple(cases), (), tuple(notes), versions)


def _prepared(workload: _Workload, count: int) -> tuple[LatentCode, np.ndarray]:
    schema = Schema("image", (28, 28, 1), levels=workload.levels)
    symbols = np.random.default_rng(0).integers(0, workload.levels, (count, 784)).astype(np.int32)
    model = models.build("vae", schema, **workload.settings)
    code = model.code()  # type: ignore[attr-defined]  # a vae has one
    return code.with_rows(fitting_rows(schema, count)).fitted(symbols), symbols


def _judged(what: str, share: float) -> str:
    """Whether writing is as fast as wanted; of reading no number is."""
    return f", target {GOAL}: {'met' if share <= GOAL else 'MISSED'}" if what == "writing" else ""


def _writing(code: LatentCode, symbols: np.ndarray) -> Works:
    return {
        "chainrule": lambda: _written(code, symbols, 1),
        "networks alone": lambda: _networks(code, symbols, code.moves),
        "chainrule, 2 lanes": lambda: _written(code, symbols, 2),
    }


def _reading(code: LatentCode, symbols: np.ndarray) -> Works:
    one, two = (encode_lanes(code, symbols, lanes, 0, lambda done: None) for lanes in (1, 2))
    return {
        "chainrule": lambda: _read(code, symbols, one),
        "networks alone": lambda: _networks(code, symbols, code.moves[::-1]),
        "chainrule, 2 lanes": lambda: _read(code, symbols, two),
    }


def _written(code: LatentCode, symbols: np.ndarray, lanes: int) -> float:
    encode_lanes(code, symbols, lanes, 0, lambda done: None)
    return float(len(symbols))


def _read(code: LatentCode, symbols: np.ndarray, streams: tuple[CodedStream, ...]) -> float:
    """How many images come back as they were."""
    found = decode_lanes(code, streams, len(symbols), 0, lambda done: None)
    return float((found == symbols).all(axis=1).sum())


def _networks(code: LatentCode, symbols: np.ndarray, moves: tuple[Move, ...]) -> float:
    """The networks over the same blocks, without a coder."""
    zeros = np.zeros((code.rows, code.sizes[0]), np.float32)
    for block in blocks(len(symbols), code.rows, code.pace):
        known: Known = {0: filled(symbols[block], code.rows), 1: zeros}
        for move in moves:
            code.distribution(move, known, code.rows)
    return float(len(symbols))


def _contestant(name: str, work: Callable[[], float]) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = work()
        return Prepared([found], time.perf_counter() - began)

    return Local(name, prepare, lambda: steady(lambda rounds: [work() for _ in range(rounds)], 1))


__all__ = ["run"]
