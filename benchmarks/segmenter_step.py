"""A training step of `chainrule train segmenter` without augmentation, beside the same U-Net in PyTorch.

Forward, backward and Adam on a batch of the images with masks; everybody starts from the same weights and sees the same
batches, and the losses of the first steps must agree.
"""

import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, measure
from benchmarks.peer import Peer
from benchmarks.workloads import first_losses, steady_seconds
from chainrule import data as sources
from chainrule import models
from chainrule.data.batches import Batches

TORCH = {"torch": "eager", "torch-channels-last": "channels-last", "torch-compile": "compile"}
BATCH = 8
RATE = 1e-4
"""Small enough for rounding errors not to grow beyond the tolerance within the steps that are compared."""
CHECKED_STEPS = 5
NEVER = 10**9
SMOKE_STEPS, SMOKE_EVERY = 96, 16
"""At toy size evaluations end a call of `fit` after few steps: a steady state is then seen within a hundred."""


def segmenting(options: Options, chosen: list[str]) -> tuple[Case, dict[str, str]]:
    """The measured case, and the versions of the peers."""
    data = sources.load("shape-masks", n=40 if options.smoke else 400)
    settings = {"width": 4, "depth": 2} if options.smoke else {}
    model = models.build("segmenter", data, **settings)
    training = {
        "batch": BATCH,
        "optimizer": {"name": "adam", "lr": RATE, "decay": 0.0, "clip": None},
        "schedule": {"name": "constant", "warmup": 0},
        "augment": {"flip": False, "crop": 0},
        "eval_every": SMOKE_EVERY if options.smoke else NEVER,
        "save_every": NEVER,
    }
    steps = SMOKE_STEPS if options.smoke else 60
    with tempfile.TemporaryDirectory() as folder:
        file, weights = Path(folder) / "work.npz", Path(folder) / "weights.safetensors"
        models.export_weights(model, weights, layout="torch")
        x, y = data.train.batch(np.arange(len(data.train)))[:2]
        index = Batches(len(data.train), BATCH, seed=0).indices(0, 256)
        np.savez(file, allow_pickle=False, x=x, y=y, index=index, **load_file(weights))
        given = {"file": str(file), "lr": RATE, "threads": THREADS, "check": CHECKED_STEPS}
        peers: list[Contestant] = [
            Peer(peer, "torch_segmenter", {**given, "form": TORCH[peer]}) for peer in chosen if peer in TORCH
        ]
        ours = Local(
            "chainrule",
            lambda: Prepared(*first_losses(model, data, CHECKED_STEPS, **training)),
            lambda: steady_seconds(model, data, steps, **training),
        )
        return measure(
            f"segmenter, training step, batch {BATCH}",
            [ours, *peers],
            rounds=options.rounds,
            tolerance=1e-3,
            watch=options.watch,
        )


__all__ = ["NEVER", "SMOKE_EVERY", "SMOKE_STEPS", "TORCH", "segmenting"]
