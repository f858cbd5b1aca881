"""RealNVP and Glow on MNIST in 8 bits: test bits per dimension, beside the published figures, and seconds per step.

Pixels of 28x28 images with noise over the gap between two of their 256 levels, behind a logit with a margin of 1e-6, as
in the published figures: RealNVP 1.06 and Glow 1.05 (as listed by Grathwohl et al., 2019). The numbers are bounds, by
one draw of noise for each test image. The official test images stay the test set. `--case glow` runs one of them;
`FLOW_EPOCHS` sets their length. Single precision: bfloat16 is an option of training, not of densities.
"""

import os
from typing import Any, NamedTuple

import jax

from benchmarks.harness import Case, Options, Report
from benchmarks.mnist import judged, timed
from chainrule import models
from chainrule.data import load
from chainrule.train import Run

EPOCHS = int(os.environ.get("FLOW_EPOCHS", "30"))


class _Contest(NamedTuple):
    settings: dict[str, Any]
    published: float


CONTESTS = {
    "glow": _Contest({"depth": 16, "levels": 2, "width": 128, "logit_margin": 1e-6}, 1.05),
    "realnvp": _Contest({"scales": 2, "width": 64, "depth": 2, "logit_margin": 1e-6}, 1.06),
}
CHOICES = tuple(CONTESTS)
TRAINING: dict[str, Any] = {
    "batch": 256,
    "epochs": EPOCHS,
    "optimizer": {"name": "adamw", "lr": 1e-3, "decay": 0.01, "clip": 50.0},
    "schedule": {"name": "cosine", "warmup": 500},
    "ema": 0.999,
}


def run(options: Options) -> Report:
    """Time a step, train and judge every model."""
    options.chosen([])  # nobody to compare with: the published figures are
    data = load("mnist")
    cases: list[Case] = []
    notes: list[str] = []
    versions: dict[str, str] = {"device": jax.devices()[0].device_kind}
    for name, contest in CONTESTS.items():
        if options.case not in (None, name):
            continue
        model = models.build(name, data, **contest.settings)
        label = f"{name} on 28x28, batch {TRAINING['batch']}"
        case, found = timed(label, model, data, options, steps=100, **TRAINING)
        cases.append(case)
        versions.update(found)
        said = f"{name}, {EPOCHS} epochs: {judged(model, data, _bits, TRAINING)}"
        notes.append(f"{said} (published {contest.published:.2f})")
        print(notes[-1], flush=True)
    return Report(tuple(cases), notes=tuple(notes), versions=versions)


def _bits(trained: Run) -> str:
    return f"test {trained.score('test')['bits_per_dim_bound']}"
