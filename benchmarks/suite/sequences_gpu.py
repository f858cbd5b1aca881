"""A training step of GPT-2 small on one GPU in bfloat16: `chainrule.train.fit` against PyTorch with torch.compile.

Ours is what a user gets: the steady state of `fit` with `precision=bfloat16`, with its batches, finite checks, metrics
and logging. PyTorch's is a bare loop: autocast, flash attention, fused AdamW, the whole network compiled. Both start
from the same weights and read the same tokens; the losses of the first steps must agree as far as bfloat16 allows.
Needs a GPU, and PyTorch beside JAX in the same environment; `--smoke` runs a toy size anywhere.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import safetensors.numpy

from benchmarks.harness import BenchmarkError, Contestant, Local, Options, Prepared, Report, measure
from benchmarks.peer import PYTHON, Peer
from benchmarks.workloads import first_losses, steady_seconds
from chainrule import models
from chainrule.core import tree
from chainrule.data.batches import Batches
from chainrule.data.dataset import Data
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.text.windows import Windows
from chainrule.models.protocol import Model

SMOKE = True
PEERS = {"torch-compile": "compile", "torch-compile-graphs": "graphs"}
LR = 3e-4
CHECKED_STEPS = 3
NEVER = 10**9
PEAKS = {"NVIDIA H100": 989e12, "NVIDIA H200": 989e12, "NVIDIA A100": 312e12}
"""Dense bfloat16 operations per second, by the beginning of the device's name."""


class Size(NamedTuple):
    """A model and a batch."""

    layers: int
    heads: int
    width: int
    tokens: int
    window: int
    batch: int


SMALL = Size(12, 12, 768, 50_304, 1024, 32)
"""GPT-2 small, with a vocabulary rounded up to a multiple of 128, as everybody does who trains it."""
TOY = Size(2, 2, 32, 128, 32, 8)


def run(options: Options) -> Report:
    """Measure one step."""
    if jax.default_backend() != "gpu" and not options.smoke:
        raise BenchmarkError("no GPU found: this benchmark compares on one; --smoke runs a toy size anywhere")
    size = TOY if options.smoke else SMALL
    peers = options.chosen(list(PEERS))
    data = noise(size)
    shape = {"layers": size.layers, "heads": size.heads, "width": size.width}
    model = models.build("gpt", data, preset="gpt2", bias=False, **shape)
    with tempfile.TemporaryDirectory() as folder:
        write_work(Path(folder), model, data, size)
        work = {"folder": folder, "heads": size.heads, "window": size.window, "lr": LR, "half": True}
        contestants: list[Contestant] = [ours(model, data, size, options.smoke)]
        python = PYTHON if options.smoke else Path(sys.executable)
        contestants += [
            Peer(name, "torch_gpt", {**work, "form": PEERS[name], "check": CHECKED_STEPS}, python)
            for name in peers
        ]
        case, versions = measure(
            f"GPT, {size.layers} layers of {size.width}, {size.batch} x {size.window}",
            contestants,
            rounds=options.rounds,
            tolerance=2e-2,
            watch=options.watch,
        )
    device = jax.devices()[0].device_kind
    notes = [rate(time.name, time.summary.median, size, model, device) for time in case.times]
    return Report((case,), notes=tuple(notes), versions={"device": device, **versions})


def rate(name: str, seconds: float, size: Size, model: Model, device: str) -> str:
    """Tokens per second, and the share of the device's peak that the model's own operations make up."""
    tokens = size.batch * size.window
    said = f"{name}: {tokens / seconds:,.0f} tokens a second"
    peak = next((peak for start, peak in PEAKS.items() if device.startswith(start)), None)
    if peak is None:
        return said
    weights = tree.size(model) - size.window * size.width  # a table of positions multiplies nothing
    operations = tokens * (6 * weights + 12 * size.layers * size.width * size.window)
    return f"{said}, {operations / seconds / peak:.1%} of {peak / 1e12:.0f} TFLOP/s"


def noise(size: Size) -> Data:
    """Random tokens: speed does not depend on what they say."""
    draw = np.random.default_rng(0)
    kind = np.min_scalar_type(size.tokens - 1)
    texts = [
        draw.integers(0, size.tokens, n).astype(kind)
        for n in (64 * size.batch * size.window, 4 * size.window, 4 * size.window)
    ]
    train, val, test = (Windows({"tokens": text}, size.window, stride=size.window) for text in texts)
    return Data(
        name="random-tokens",
        schema=Schema("text", (size.window + 1,), tokens=tuple(f"<{i}>" for i in range(size.tokens))),
        train=train,
        val=val,
        test=test,
        scaling=Scaling(),
        target_scaling=None,
        hash=f"random-tokens-{size}",
        source={"name_or_path": "random-tokens", "seed": 0},
    )


def ours(model: Model, data: Data, size: Size, smoke: bool) -> Contestant:
    """`fit` with evaluations and checkpoints out of the way."""
    settings: dict[str, Any] = {
        "batch": size.batch,
        "optimizer": {"name": "adamw", "lr": LR, "betas": (0.9, 0.99), "decay": 0.1, "clip": 1.0},
        "schedule": {"name": "constant", "warmup": 0},
        "precision": "bfloat16",
        "eval_every": NEVER,
        "save_every": NEVER,
    }
    return Local(
        "chainrule",
        lambda: Prepared(*first_losses(model, data, CHECKED_STEPS, **settings)),
        lambda: steady_seconds(model, data, 2000 if smoke else 60, **settings),
    )


def write_work(folder: Path, model: Model, data: Data, size: Size) -> None:
    """Tokens, order of the passages and initial weights, so that everybody starts from the same numbers."""
    stored = safetensors.numpy.load_file(models.export_weights(model, folder / "weights.safetensors"))
    np.savez(folder / "weights.npz", allow_pickle=False, **stored)
    index = Batches(len(data.train), size.batch, seed=0).indices(0, 32) * size.window  # where passages begin
    tokens = data.train.arrays["tokens"]
    np.savez(folder / "data.npz", allow_pickle=False, index=index, tokens=tokens, val=tokens[:0])
