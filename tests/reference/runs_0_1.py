"""Makes `runs-0.1`: one small run of every model as version 0.1 of the development tree wrote it, and what it gave.

    python -m tests.reference.runs_0_1

The folders stand for the runs people have on their disks. Settings and arrays have got other names since; later
versions must still open, sample, score and resume these runs, so they are never made again.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

import chainrule as cr
from chainrule.core import random
from chainrule.models.protocol import CanSample
from chainrule.train import Run, fit, resume

RUNS = Path(__file__).with_name("runs-0.1")
MOONS: dict[str, Any] = {"name_or_path": "moons", "n": 60}
DIGITS: dict[str, Any] = {"name_or_path": "digits", "split": (0.9, 0.05, 0.05)}
BINARY = {**DIGITS, "name_or_path": "binary-digits"}
CAPTIONED = {**DIGITS, "name_or_path": "captioned-digits"}
TEXT: dict[str, Any] = {"name_or_path": "shakespeare", "split": (0.98, 0.01, 0.01), "window": 16}
PAIRS: dict[str, Any] = {"name_or_path": "copy", "n": 60, "length": 4}
SERIES: dict[str, Any] = {"name_or_path": "cycles", "n": 60, "steps": 16}
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "ar": ("ar", SERIES, {}),
    "bert": ("bert", TEXT, {"layers": 1, "heads": 2, "width": 8}),
    "bert-1": ("bert", TEXT, {"layers": 1, "heads": 2, "width": 8, "preset": "bert", "segments": 2}),
    "bert-patches": ("bert", DIGITS, {"layers": 1, "heads": 2, "width": 8}),
    "char-rnn": ("char-rnn", TEXT, {"embedding": 4, "width": 6, "cell": "lstm", "depth": 2}),
    "cnn": ("cnn", DIGITS, {"width": 4, "stages": 2, "blocks": 1}),
    "control": ("control", DIGITS, {"body": {"denoiser": "unet", "width": 4, "depth": 1}}),
    "control-adapter": (
        "control",
        DIGITS,
        {"kind": "adapter", "body": {"denoiser": "unet", "width": 4, "depth": 1}},
    ),
    "denoising-autoencoder": ("denoising-autoencoder", MOONS, {"width": 8, "depth": 1, "code": 4}),
    "diffusion": ("diffusion", MOONS, {"width": 8, "depth": 1, "variance": "learned"}),
    "diffusion-captions": (
        "diffusion",
        CAPTIONED,
        {"denoiser": "unet", "width": 4, "depth": 1, "dropping": 0.2},
    ),
    "diffusion-captions-mlp": ("diffusion", CAPTIONED, {"denoiser": "mlp", "width": 4, "depth": 1}),
    "diffusion-dit": ("diffusion", DIGITS, {"denoiser": "dit", "width": 8, "depth": 1}),
    "fvsbn": ("fvsbn", BINARY, {}),
    "gpt": ("gpt", TEXT, {"layers": 1, "heads": 2, "width": 8}),
    "gpt-2": ("gpt", TEXT, {"layers": 1, "heads": 2, "width": 8, "preset": "gpt2"}),
    "made": ("made", MOONS, {"width": 8, "depth": 1, "components": 2}),
    "mlp": ("mlp", MOONS, {"width": 8, "depth": 2, "normalization": "batch"}),
    "nade": ("nade", BINARY, {"width": 4}),
    "ngram": ("ngram", TEXT, {"order": 2, "contexts": 16}),
    "pair-encoder": ("pair-encoder", CAPTIONED, {"width": 8, "channels": 4, "features": 4}),
    "pixel-cnn": ("pixel-cnn", BINARY, {"width": 4, "blocks": 1, "first_kernel": 3}),
    "reader": ("reader", DIGITS, {"body": {"name": "bert", "layers": 1, "heads": 2, "width": 8}}),
    "reader-gpt": (
        "reader",
        {"name_or_path": "plays", "split": (0.9, 0.05, 0.05), "longest": 16},
        {"body": {"name": "gpt", "layers": 1, "heads": 2, "width": 8}},
    ),
    "resnet": ("resnet", DIGITS, {"depth": 8, "width": 2}),
    "score": ("score", MOONS, {"width": 8, "depth": 1}),
    "seq2seq": ("seq2seq", PAIRS, {"width": 8, "embedding": 4}),
    "series-rnn": ("series-rnn", SERIES, {"width": 6, "cell": "gru"}),
    "skip-gram": ("skip-gram", TEXT, {"embedding": 4, "reach": 2, "negatives": 2}),
    "translator": ("translator", PAIRS, {"layers": 1, "heads": 2, "width": 8}),
    "vdm": ("vdm", MOONS, {"denoiser": "mlp", "width": 8, "depth": 1}),
    "vgg": ("vgg", DIGITS, {"scale": 1 / 256, "depth": 11}),
    "window-mlp": ("window-mlp", TEXT, {"context": 3, "embedding": 4, "width": 8, "depth": 1}),
}
"""Model, data and settings by the name of the run."""
LARGE = ("control", "control-adapter", "diffusion-captions")
"""Runs whose checkpoints hold the weights alone, neither moments nor averages."""


def make(name: str) -> None:
    """Train three steps, note scores and samples, and note the losses of three steps more."""
    model, source, settings = CASES[name]
    path = RUNS / name
    shutil.rmtree(path, ignore_errors=True)
    data = cr.data.load(**source)
    built = cr.models.build(model, data, **settings)
    train: dict[str, Any] = {
        "steps": 3,
        "batch": 8,
        "keep": 1,
        "log_every": 1,
        "schedule": {"name": "constant"},
    }
    if name in LARGE:
        train |= {"optimizer": {"name": "sgd"}, "ema": 0.0}
    run = fit(built, data, run=path, **train)
    expected: dict[str, Any] = {"scores": {n: m.value for n, m in run.score().items()}}
    if isinstance(run.model, CanSample):
        drawn = np.asarray(run.sample(2, key=random.key(0, "sample")))
        expected["sample"] = drawn.astype(float).ravel()[:16].tolist()
    copy = Path(shutil.copytree(path, path.with_name(f"{name}-more")))
    more = resume(Run.open(copy), steps=6)
    expected["losses"] = more.curve("loss")[1].tolist()
    shutil.rmtree(copy)
    for left in (".lock", "log.txt", "tokenizer.json"):
        (path / left).unlink(missing_ok=True)
    for file, field in (("env.json", "platform"), ("status.json", "host")):
        values = json.loads((path / file).read_text())
        (path / file).write_text(json.dumps(values | {field: "anywhere"}) + "\n")
    (path / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    for case in CASES:
        make(case)
        print(case)
