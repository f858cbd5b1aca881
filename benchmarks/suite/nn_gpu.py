"""Training steps of image networks on one GPU in bfloat16: `chainrule.train.fit` against PyTorch with torch.compile.

Ours is what a user gets: the steady state of `fit` with `precision=bfloat16`, with its batches, finite checks, metrics
and logging. PyTorch's is a bare loop: autocast, channels last, fused Adam, the whole network compiled, once as
it comes and once with its launches recorded as CUDA graphs. Both start from the same weights; the losses of the first
steps must agree as far as bfloat16 allows. Needs a GPU, and PyTorch beside JAX in the same environment.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks.harness import BenchmarkError, Case, Contestant, Local, Options, Prepared, Report, measure
from benchmarks.peer import Peer
from benchmarks.workloads import first_losses, steady_seconds
from chainrule import models
from chainrule.data.batches import Batches
from chainrule.data.dataset import Data
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Rows
from chainrule.models.protocol import Model

PEERS = {"torch-compile": "compile", "torch-compile-graphs": "graphs"}
LR = 1e-4
CHECKED_STEPS = 3
NEVER = 10**9
CASES = {
    "ResNet-18, 32 px, batch 1,024": (18, 32, 1024, 10),
    "ResNet-50, 224 px, batch 256": (50, 224, 256, 1000),
}
"""Depth, pixels a side, batch, classes."""


def run(options: Options) -> Report:
    """Measure every network."""
    if jax.default_backend() != "gpu":
        raise BenchmarkError("no GPU found: this benchmark compares on one")
    peers = options.chosen(list(PEERS))
    cases: list[Case] = []
    notes: list[str] = []
    versions: dict[str, str] = {"device": jax.devices()[0].device_kind}
    for label, (depth, pixels, batch, classes) in CASES.items():
        data = pictures(pixels, classes, 4 * batch)
        model = models.build("resnet", data, depth=depth, zero_start=False)
        with tempfile.TemporaryDirectory() as folder:
            work = {"depth": depth, "lr": LR, "check": CHECKED_STEPS}
            file = write_work(Path(folder), model, data, batch)
            contestants: list[Contestant] = [ours(model, data, batch)]
            contestants += [
                Peer(
                    name,
                    "torch_images",
                    {**work, "folder": str(file), "form": PEERS[name]},
                    Path(sys.executable),
                )
                for name in peers
            ]
            case, found = measure(
                label, contestants, rounds=options.rounds, tolerance=2e-2, watch=options.watch
            )
        cases.append(case)
        versions |= found
        notes += [
            f"{label}: {time.name} {batch / time.summary.median:,.0f} images a second" for time in case.times
        ]
    return Report(tuple(cases), notes=tuple(notes), versions=versions)


def pictures(pixels: int, classes: int, count: int) -> Data:
    """Random colour images: speed does not depend on what they show."""
    draw = np.random.default_rng(0)

    def rows(n: int) -> Rows:
        x = draw.integers(0, 256, (n, pixels, pixels, 3), dtype=np.uint8)
        return Rows({"x": x, "y": draw.integers(0, classes, n).astype(np.int32)}, Scaling(0.0, 1 / 255))

    names = tuple(map(str, range(classes)))
    train = rows(count)
    return Data(
        name="random-pictures",
        schema=Schema("image", (pixels, pixels, 3), target="class", classes=names, levels=256),
        train=train,
        val=rows(8),
        test=rows(8),
        scaling=train.scaling,
        target_scaling=None,
        hash=f"random-pictures-{pixels}-{count}",
        source={"name_or_path": "random-pictures", "seed": 0},
    )


def ours(model: Model, data: Data, batch: int) -> Contestant:
    """`fit` with evaluations and checkpoints out of the way."""
    settings = {
        "batch": batch,
        "optimizer": {"name": "adam", "lr": LR, "decay": 0.0},
        "schedule": {"name": "constant"},
        "precision": "bfloat16",
        "eval_every": NEVER,
        "save_every": NEVER,
    }
    return Local(
        "chainrule",
        lambda: Prepared(*first_losses(model, data, CHECKED_STEPS, **settings)),
        lambda: steady_seconds(model, data, 60, **settings),
    )


def write_work(folder: Path, model: Any, data: Data, batch: int) -> Path:
    """Data, order of the examples and initial weights, so that everybody starts from the same numbers."""
    models.export_weights(model, folder / "weights.safetensors")
    index = Batches(len(data.train), batch, seed=0).indices(0, 64)
    np.savez(folder / "data.npz", allow_pickle=False, index=index, **data.train.arrays)
    return folder
