"""A training step of a 784-512-512-10 perceptron: `chainrule.train.fit` against PyTorch, SGD and Adam.

Ours is what a user gets: the steady state of `fit`, with its batches, finite checks, metrics and logging. PyTorch's is
a bare loop over data that are already scaled. The losses of the first ten steps must agree.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, Report, measure
from benchmarks.peer import Peer
from benchmarks.workloads import (
    BATCH,
    first_losses,
    images,
    operations,
    perceptron,
    settled_steps,
    steady_seconds,
)
from chainrule.data.batches import Batches
from chainrule.data.dataset import Data
from chainrule.models.protocol import Model

PEERS = {"torch": "eager", "torch-compile": "compile", "torch-compile-step": "compile-step"}
RATES = {"sgd": 0.1, "adam": 1e-3}
CHECKED_STEPS = 10
NEVER = 10**9


def run(options: Options) -> Report:
    """Measure both optimisers."""
    peers = options.chosen(list(PEERS))
    data = images()
    model = perceptron(data)
    cases: list[Case] = []
    versions: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "work.npz"
        write_work(file, model, data)
        for optimizer, lr in RATES.items():
            contestants: list[Contestant] = [ours(model, data, optimizer, lr)]
            contestants += [
                Peer(
                    name,
                    "torch_mlp",
                    {
                        "file": str(file),
                        "form": PEERS[name],
                        "optimizer": optimizer,
                        "lr": lr,
                        "threads": THREADS,
                        "check": CHECKED_STEPS,
                    },
                )
                for name in peers
            ]
            case, found = measure(
                f"{optimizer}, batch {BATCH}",
                contestants,
                rounds=options.rounds,
                tolerance=1e-3,
                watch=options.watch,
            )
            cases.append(case)
            versions |= found
    return Report(tuple(cases), versions=versions)


def ours(model: Model, data: Data, optimizer: str, lr: float) -> Contestant:
    """`fit` with evaluations and checkpoints out of the way."""
    settings = {
        "batch": BATCH,
        "optimizer": {"name": optimizer, "lr": lr, "decay": 0.0},
        "schedule": {"name": "constant"},
        "eval_every": NEVER,
        "save_every": NEVER,
    }
    return Local(
        "chainrule",
        lambda: Prepared(*first_losses(model, data, CHECKED_STEPS, **settings)),
        lambda: steady_seconds(model, data, settled_steps(operations(512)), **settings),
    )


def write_work(file: Path, model: Any, data: Data) -> None:
    """Data, order of the examples and initial weights, so that everybody starts from the same numbers."""
    work = {
        "x": data.train.arrays["x"].reshape(len(data.train), -1),
        "y": data.train.arrays["y"],
        "index": Batches(len(data.train), BATCH, seed=0).indices(0, 256),
    }
    for number, layer in enumerate([*(block.linear for block in model.blocks), model.head]):
        work |= {f"w{number}": np.asarray(layer.weight), f"b{number}": np.asarray(layer.bias)}
    np.savez(file, allow_pickle=False, **work)
