"""NADE with 500 hidden units on binarised MNIST: test nats, to hold against the published 88.33, and seconds per step.

Grey pixels become black or white once, by a coin with their own probability, as in the published sets; the official
test images stay the test set. Three weight decays are trained and the one with the best validation nats is scored,
once, on the test images. MNIST is looked for in the folder `mnist` of `$CHAINRULE_DATA`. Made for a GPU (minutes); with
`NADE_EPOCHS=1` it can be tried on a CPU.
"""

import os
import tempfile
import time

import jax

from benchmarks.harness import Options, Report
from benchmarks.mnist import timed
from chainrule import models
from chainrule.data import load
from chainrule.data.dataset import Data
from chainrule.models.protocol import Model
from chainrule.train import Run, fit

EPOCHS = int(os.environ.get("NADE_EPOCHS", "40"))
DECAYS = (0.02, 0.1, 0.3)
BATCH = 100


def run(options: Options) -> Report:
    """Time a step, train with every decay, score the best."""
    options.chosen([])  # nobody to compare with: the published figure is
    data = load("mnist", binarize="stochastic")
    model = models.build("nade", data, width=500)
    case, versions = timed(f"nade 784-500, batch {BATCH}", model, data, options, batch=BATCH)
    notes = []
    best: tuple[float, float, str] | None = None
    with tempfile.TemporaryDirectory() as folder:
        for decay in DECAYS:
            began = time.perf_counter()
            trained = train(model, data, decay, f"{folder}/decay-{decay}")
            losses = trained.curve("loss", "val")[1]
            seconds = time.perf_counter() - began
            notes.append(
                f"decay {decay}: best validation {losses.min():.2f} nats at step {trained.step}, in {seconds:.0f} s"
            )
            if best is None or losses.min() < best[0]:
                best = (float(losses.min()), decay, str(trained.path))
        assert best is not None
        nats = Run.open(best[2], data=data).score("test")["nll"]
    notes.append(f"test, with decay {best[1]}: {nats} on {len(data.test):,} images (published: 88.33)")
    device = {"device": jax.devices()[0].device_kind}
    return Report((case,), notes=tuple(notes), versions={**versions, **device})


def train(model: Model, data: Data, decay: float, path: str) -> Run:
    """One whole run, judged on the validation images once an epoch."""
    epoch = len(data.train) // BATCH
    return fit(
        model,
        data,
        run=path,
        epochs=EPOCHS,
        batch=BATCH,
        optimizer={"name": "adamw", "lr": 1e-3, "decay": decay},
        schedule={"name": "cosine", "warmup": 200},
        stopping={"patience": 8},
        log_every=epoch,
        eval_every=epoch,
        save_every=epoch,
    )
