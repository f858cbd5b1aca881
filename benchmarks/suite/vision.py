"""Images and sound: suppression, RoIAlign, training steps of detector and segmenter, the STFT, a WaveNet that writes.

Class-wise suppression keeps at most 100 of 1,000 boxes of 20 classes; RoIAlign brings 256 boxes of a 50 x 50 map of 64
channels to 7 x 7 cells of 2 x 2 points; both beside torchvision, or PyTorch by the book where that is not installed.
The detector is `chainrule train detector` without augmentation, beside the same network and loss as PyTorch modules:
losses of the first steps must agree; so is the segmenter (`segmenter_step.py`). The STFT turns eight recordings of
131,072 samples into spectra and back. WaveNet writes from the queues of its layers, beside itself reading everything
again for every sample: both must write the same.
`--smoke` runs toy sizes.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import (
    THREADS,
    Case,
    Contestant,
    Growth,
    Local,
    Options,
    Prepared,
    Report,
    against,
    measure,
)
from benchmarks.peer import PYTHON, Peer
from benchmarks.segmenter_step import NEVER, SMOKE_EVERY, SMOKE_STEPS, TORCH, segmenting
from benchmarks.workers import vision_problems as problems
from benchmarks.workers.protocol import steady
from benchmarks.workloads import first_losses, steady_seconds
from chainrule import models
from chainrule.data import Schema, load
from chainrule.data.batches import Batches
from chainrule.models.autoregressive.wavenet import WaveNet
from chainrule.models.vision.detector import Detector
from chainrule.models.vision.pyramid import grids
from chainrule.nn.detection import nms, roi_align
from chainrule.nn.spectral import STFT, power

PEERS = (*TORCH, "torchvision", "scipy")
CHOICES = ("nms", "align", "detector", "segmenter", "stft", "wavenet")
SMOKE = True
BATCH, LR = 16, 1e-4
"""A rate small enough for rounding errors not to grow beyond the tolerance within the steps that are compared."""
CHECKED_STEPS = 5
Measured = tuple[Case, dict[str, str]]


def run(options: Options) -> Report:
    """Measure every case, or one."""
    chosen = [peer for peer in options.chosen(PEERS) if peer != "torchvision" or _has_torchvision()]
    work: dict[str, Callable[[Options, list[str]], Measured]] = {
        "nms": _suppressing,
        "align": _aligning,
        "detector": _training,
        "segmenter": segmenting,
        "stft": _transforming,
        "wavenet": _writing,
    }
    cases: list[Case] = []
    versions: dict[str, str] = {}
    growth: tuple[Growth, ...] = ()
    for name in CHOICES if options.case is None else (options.case,):
        print(f"{name} ...", flush=True)
        case, found = work[name](options, chosen)
        cases.append(case)
        versions |= found
        if name == "wavenet":
            growth = writing_growth(options.smoke)
    notes = [line for case in cases for line in against(case, 1.0)]
    return Report(tuple(cases), growth, tuple(notes), versions)


def _has_torchvision(python: Path = PYTHON) -> bool:
    """Whether the environment of the peers has one that fits its PyTorch; if not PyTorch by the book stands alone."""
    if not python.exists():
        return False
    asked = subprocess.run(
        [str(python), "-c", "import torchvision.ops"], capture_output=True, text=True, check=False
    )
    if asked.returncode and "No module named 'torchvision'" not in asked.stderr:
        said = asked.stderr.strip().splitlines()[-1:] or ["it cannot be imported"]
        print(f"torchvision is left out: {said[0]}", flush=True)
    return asked.returncode == 0


def _compared(
    options: Options,
    chosen: list[str],
    label: str,
    task: str,
    size: tuple[int, int],
    work: Callable[[], list[float]],
    able: tuple[str, ...],
) -> Measured:
    """One piece of work, beside the peers that can do it."""
    given = {"task": task, "count": size[0], "side": size[1], "threads": THREADS}
    theirs: list[Contestant] = [
        Peer(peer, "vision_peers", {"package": peer, **given}) for peer in chosen if peer in able
    ]
    ours = _local("chainrule", work)
    return measure(label, [ours, *theirs], rounds=options.rounds, tolerance=1e-3, watch=options.watch)


def _local(name: str, work: Callable[[], list[float]]) -> Contestant:
    def prepare() -> Prepared:
        began = time.perf_counter()
        found = work()
        return Prepared(found, time.perf_counter() - began)

    def repeat(count: int) -> Any:
        return [work() for _ in range(count)]

    return Local(name, prepare, lambda: steady(repeat, 1))


# ---------------------------------------------------------------------- boxes and regions


def _suppressing(options: Options, chosen: list[str]) -> Measured:
    count = 60 if options.smoke else problems.BOXES
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

    def work() -> list[float]:
        return [float(one) for one in suppressed(boxes, scores, labels)]

    label = f"suppression of {count:,} boxes"
    return _compared(options, chosen, label, "nms", (count, 0), work, ("torch", "torchvision"))


def _aligning(options: Options, chosen: list[str]) -> Measured:
    many, side = (8, 16) if options.smoke else (problems.REGIONS, problems.SIDE)
    features, boxes = (jnp.asarray(one) for one in problems.regions(many, side))
    cells = (problems.CELLS, problems.CELLS)

    @jax.jit
    def aligned(features: jax.Array, boxes: jax.Array) -> jax.Array:
        found = roi_align(features, boxes, cells)
        return jnp.stack([found.sum(), (found**2).sum()])

    def work() -> list[float]:
        return [float(one) for one in aligned(features, boxes)]

    label = f"RoIAlign of {many} regions"
    return _compared(options, chosen, label, "align", (many, side), work, ("torch", "torchvision"))


# ---------------------------------------------------------------------- training


def _training(options: Options, chosen: list[str]) -> Measured:
    """Steps of `fit` by Adam, against a loop over PyTorch's modules from the same weights."""
    toy = {"width": 4, "levels": 2, "blocks": 0, "channels": 8} if options.smoke else {}
    batch = 4 if options.smoke else BATCH
    data = load("shapes", n=40 if options.smoke else 400)
    model = models.build("detector", data, **toy)
    assert isinstance(model, Detector)
    settings: dict[str, Any] = {
        "batch": batch,
        "optimizer": {"name": "adam", "lr": LR, "decay": 0.0, "clip": None},
        "schedule": {"name": "constant", "warmup": 0},
        "augment": {"flip": False, "resized_crop": 1.0, "colour": 0.0},
        "eval_every": SMOKE_EVERY if options.smoke else NEVER,
        "save_every": NEVER,
    }
    ours = Local(
        "chainrule",
        lambda: Prepared(*first_losses(model, data, CHECKED_STEPS, **settings)),
        lambda: steady_seconds(model, data, SMOKE_STEPS if options.smoke else 60, **settings),
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "work.npz"
        _write_detector(file, model, data, batch)
        given = {"file": str(file), "lr": LR, "threads": THREADS, "check": CHECKED_STEPS}
        theirs: list[Contestant] = [
            Peer(peer, "torch_detector", {**given, "form": TORCH[peer]}) for peer in chosen if peer in TORCH
        ]
        return measure(
            f"detector, training step, batch {batch}",
            [ours, *theirs],
            rounds=options.rounds,
            tolerance=1e-3,
            watch=options.watch,
        )


def _write_detector(file: Path, model: Detector, data: Any, batch: int) -> None:
    """Images, boxes, the order of the batches and initial weights, so that everybody starts from the same numbers."""
    part, config = data.train, model.config
    whole = part.batch(np.arange(len(part)))
    state = {id(array) for array in model.state()}
    weights = [one for one in jax.tree.leaves(eqx.filter(model, eqx.is_array)) if id(one) not in state]
    np.savez(
        file,
        allow_pickle=False,
        x=np.asarray(whole.x, np.float32),
        y=np.asarray(whole.y, np.float32),
        index=Batches(len(part), batch, seed=0).indices(0, 256),
        sizes=[
            *(config.width, config.levels, config.blocks, config.channels, config.depth),
            len(model.schema.classes),
        ],
        grids=[(*grid, stride) for grid, stride in grids(model.schema.shape, config.levels, "detector")],
        box_weight=config.box_weight,
        **{f"w{number}": np.asarray(one) for number, one in enumerate(weights)},
    )


# ---------------------------------------------------------------------- sound


def _transforming(options: Options, chosen: list[str]) -> Measured:
    samples = 4096 if options.smoke else problems.SAMPLES
    sound = jnp.asarray(problems.sound(samples))
    transform = STFT(problems.WINDOW, hop=problems.HOP)

    @jax.jit
    def there_and_back(x: jax.Array) -> jax.Array:
        found = transform(x)
        back = transform.inverse(found, samples)
        return jnp.stack([power(found).sum(), (back[:, ::7] * x[:, ::7]).sum()])

    def work() -> list[float]:
        return [float(one) for one in there_and_back(sound)]

    label = f"STFT and back, {problems.SOUNDS} x {samples:,} samples"
    return _compared(options, chosen, label, "stft", (samples, 0), work, ("torch", "scipy"))


def _writing(options: Options, chosen: list[str]) -> Measured:
    del chosen
    length = 24 if options.smoke else 512
    model = _wavenet()
    return measure(
        f"WaveNet, {length} samples written",
        [
            _local("chainrule", lambda: _said(model.sample(jax.random.key(0), 1, length=length))),
            _local("reading again", lambda: _said(_reread(model, jax.random.key(0), length))),
        ],
        rounds=options.rounds,
        tolerance=1e-3,
        watch=options.watch,
    )


def _wavenet() -> WaveNet:
    """Ten layers over sound, with the weights they begin with."""
    model = models.build("wavenet", Schema("audio", (2048, 1)))
    assert isinstance(model, WaveNet)
    return model


def _said(drawn: jax.Array) -> list[float]:
    """Two numbers that tell what was written."""
    values = np.asarray(drawn, np.float64)[0, :, 0]
    return [float(np.abs(values).sum()), float((values * np.arange(len(values))).sum())]


@eqx.filter_jit
def _reread(model: WaveNet, key: jax.Array, length: int) -> jax.Array:
    """The same draws as `WaveNet.sample`, each after a pass over everything that is there."""

    def move(so_far: jax.Array, now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        at, own = now
        parameters = jax.lax.dynamic_index_in_dim(model.parameters(so_far), at, 1, keepdims=False)
        drawn = model.output.sample(parameters, own, jnp.ones(()))
        return jax.lax.dynamic_update_index_in_dim(so_far, drawn, at, 1), None

    blank = jnp.zeros((1, length, 1))
    return jax.lax.scan(move, blank, (jnp.arange(length), jax.random.split(key, length)))[0]


def writing_growth(smoke: bool) -> tuple[Growth, ...]:
    """Seconds of a whole recording by its length: one step a sample, or a pass over all of them for each."""
    model, sizes = _wavenet(), (8, 16, 24, 32) if smoke else (64, 128, 256, 512)
    ways: dict[str, tuple[Callable[[int], Any], int]] = {
        "from queues": (lambda length: model.sample(jax.random.key(0), 1, length=length), 1),
        "reading again": (lambda length: _reread(model, jax.random.key(0), length), 2),
    }
    found = []
    for name, (work, expected) in ways.items():
        seconds = []
        for length in sizes:
            jax.block_until_ready(work(length))
            taken = []
            for _ in range(3):
                began = time.perf_counter()
                jax.block_until_ready(work(length))
                taken.append(time.perf_counter() - began)
            seconds.append(min(taken))
        found.append(
            Growth(
                f"seconds of WaveNet, {name}",
                "samples",
                tuple(map(float, sizes)),
                tuple(seconds),
                tuple(float(size) ** expected for size in sizes),
            )
        )
    return tuple(found)


__all__ = ["run", "writing_growth"]
