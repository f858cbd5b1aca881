"""PixelCNN and PixelRNN on binarised MNIST: test nats, beside the published figures, and seconds per step.

Grey pixels become black or white once, by a coin with their own probability, as in the published sets; the official
test images stay the test set. Published for static MNIST: PixelCNN 81.30, row LSTM 80.54, diagonal BiLSTM 79.20 nats
(van den Oord, Kalchbrenner and Kavukcuoglu, 2016). `--case row` runs one of them; `PIXEL_EPOCHS` sets their length.
"""

import os
from typing import Any, NamedTuple

import jax

from benchmarks.harness import Case, Options, Report
from benchmarks.mnist import judged, timed
from chainrule import models
from chainrule.data import load
from chainrule.train import Run

EPOCHS = int(os.environ.get("PIXEL_EPOCHS", "40"))


class _Contest(NamedTuple):
    model: str
    settings: dict[str, Any]
    published: float


CONTESTS = {
    "cnn": _Contest("pixel-cnn", {"width": 64, "blocks": 8}, 81.30),
    "row": _Contest("pixel-rnn", {"variant": "row", "width": 64, "depth": 7}, 80.54),
    "diagonal": _Contest("pixel-rnn", {"variant": "diagonal", "width": 64, "depth": 3}, 79.20),
}
CHOICES = tuple(CONTESTS)
TRAINING: dict[str, Any] = {
    "batch": 256,
    "epochs": EPOCHS,
    "optimizer": {"name": "adamw", "lr": 2e-3, "decay": 0.01, "clip": 1.0},
    "schedule": {"name": "cosine", "warmup": 200},
    "ema": 0.999,
}


def run(options: Options) -> Report:
    """Time a step, train and judge every model."""
    options.chosen([])  # nobody to compare with: the published figures are
    data = load("mnist", binarize="stochastic")
    cases: list[Case] = []
    notes: list[str] = []
    versions: dict[str, str] = {"device": jax.devices()[0].device_kind}
    for name, contest in CONTESTS.items():
        if options.case not in (None, name):
            continue
        model = models.build(contest.model, data, **contest.settings)
        case, found = timed(f"{contest.model} {name}", model, data, options, **TRAINING)
        cases.append(case)
        versions.update(found)
        said = f"{contest.model} {name}, {EPOCHS} epochs: {judged(model, data, _nats, TRAINING)}"
        notes.append(f"{said} (published {contest.published:.2f})")
        print(notes[-1], flush=True)
    return Report(tuple(cases), notes=tuple(notes), versions=versions)


def _nats(trained: Run) -> str:
    return f"test {trained.score('test')['nll']}"
