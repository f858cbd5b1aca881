"""What several benchmarks work on, and the product's own training loop as something that can be timed."""

import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.harness import BenchmarkError
from chainrule import models
from chainrule.cli.memory import keep_freed
from chainrule.data.dataset import Data
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Rows
from chainrule.models.protocol import Model
from chainrule.train import events, fit

BATCH = 64
CLASSES = 10
PIXELS = 784


def images(count: int = 16_384, seed: int = 0) -> Data:
    """Random 28×28 images in ten classes: speed does not depend on what the pixels show."""
    draw = np.random.default_rng(seed)

    def rows(n: int) -> Rows:
        x = draw.integers(0, 256, (n, 28, 28, 1), dtype=np.uint8)
        return Rows({"x": x, "y": draw.integers(0, CLASSES, n).astype(np.int32)}, Scaling(0.0, 1 / 255))

    schema = Schema("image", (28, 28, 1), target="class", classes=tuple(map(str, range(CLASSES))), levels=256)
    train, val, test = rows(count), rows(1024), rows(64)
    return Data(
        name="random-images",
        schema=schema,
        train=train,
        val=val,
        test=test,
        scaling=train.scaling,
        target_scaling=None,
        hash=f"random-images-{count}-{seed}",
        source={"name_or_path": "random-images", "seed": seed},
    )


def perceptron(data: Data, width: int = 512) -> Model:
    """The 784-width-width-10 network."""
    return models.build("mlp", data, width=width, depth=3, dropout=0.0)


def operations(width: int) -> float:
    """Floating-point operations of the matrix products of one step: the first layer needs no input gradient."""
    first, rest = PIXELS * width, width * width + width * CLASSES
    return 2 * BATCH * (2 * first + 3 * rest)


def parameters(width: int) -> int:
    """Numbers in the network."""
    return (PIXELS + 1) * width + (width + 1) * width + (width + 1) * CLASSES


def first_losses(model: Model, data: Data, count: int, **settings: Any) -> tuple[list[float], float]:
    """Losses of the first steps of `fit`, and the seconds it spent compiling."""
    keep_freed()  # as `chainrule train` does
    compiled: list[float] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Compiled):
            compiled.append(event.seconds)

    with tempfile.TemporaryDirectory() as folder:
        run = fit(model, data, run=f"{folder}/run", listener=listen, log_every=1, steps=count, **settings)
        losses = [float(v) for v in run.curve("loss")[1]]
    return losses, compiled[0]


def steady_seconds(model: Model, data: Data, steps: int, **settings: Any) -> float:
    """Seconds per step of `fit` once it runs at full speed, with everything it does between two compiled calls.

    The first calls (short, until the loop knows its own speed) and the last (which ends in a checkpoint) are left out.
    """
    keep_freed()  # as `chainrule train` does
    marks: list[tuple[float, int]] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Progress):
            marks.append((time.perf_counter(), event.step))

    with tempfile.TemporaryDirectory() as folder:
        fit(model, data, run=f"{folder}/run", listener=listen, steps=steps, **settings)
    settled = marks[_SETTLING:-1]
    if len(settled) < 2:
        raise BenchmarkError(f"steps={steps}: only {len(marks)} calls, too few to see a steady state")
    (began, first), (ended, last) = settled[0], settled[-1]
    return (ended - began) / (last - first)


_SETTLING = 2


def settled_steps(operations: float) -> int:
    """Steps for about ten calls of `fit`: a call ends after 256 steps or 0.2 seconds, at some 150 GFLOP/s."""
    return 10 * max(4, round(min(256, 0.2 * 150e9 / operations)))


__all__ = [
    "BATCH",
    "CLASSES",
    "PIXELS",
    "first_losses",
    "images",
    "operations",
    "parameters",
    "perceptron",
    "settled_steps",
    "steady_seconds",
]
