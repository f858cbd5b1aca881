"""Transformers on two cores: training a small GPT against PyTorch, writing with a cache, attention by length.

Training is what a user gets from `fit`, on the text that `CHAINRULE_BENCH_TEXT` names or else on the embedded plays.
Both sides start from the same weights and read the same passages; the losses of the first steps must agree. Then each
trains to its end once, and notes say what it reached and how long it took, compilation included.
"""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from benchmarks.harness import (
    THREADS,
    Contestant,
    Growth,
    Local,
    Options,
    Prepared,
    Report,
    measure,
)
from benchmarks.peer import Peer
from benchmarks.workers.protocol import steady
from benchmarks.workloads import first_losses, steady_seconds
from chainrule import models
from chainrule.data import load
from chainrule.data.base import Data, Schema
from chainrule.data.batches import Batches
from chainrule.models.autoregressive.gpt import GPT
from chainrule.models.base import Model
from chainrule.nn import SelfAttention
from chainrule.nn.attention import EluPlusOne, FeatureMixing, Mixing, Softmax
from chainrule.train import fit
from chainrule.train.metrics import mean_loss

SMOKE = True
PEERS = {"torch": "eager", "torch-compile": "compile"}
WINDOW, BATCH, STEPS, LR = 64, 12, 2000, 1e-3
CHECKED_STEPS = 10
NEVER = 10**9
TEXT = "CHAINRULE_BENCH_TEXT"
RECIPE: dict[str, Any] = {
    "batch": BATCH,
    "optimizer": {"name": "adamw", "lr": LR, "betas": (0.9, 0.99), "decay": 0.1, "clip": 1.0},
    "eval_every": NEVER,
    "save_every": NEVER,
}


def run(options: Options) -> Report:
    """Measure training, writing and attention."""
    peers = options.chosen(list(PEERS))
    steps = 120 if options.smoke else STEPS
    data = plays()
    model = models.build("gpt", data, preset="gpt2", bias=False)
    versions: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = write_work(Path(folder), model, data, steps)
        case, found = measure(
            f"training step, {BATCH} x {WINDOW} characters",
            [training(model, data), *(peer(name, place) for name in peers)],
            rounds=options.rounds,
            tolerance=1e-3,
            watch=options.watch,
        )
        versions |= found
        notes = whole_runs(data, steps, place, peers)
    writing = measure(
        "writing a symbol, context 1,024",
        writers(128 if options.smoke else 1024),
        rounds=options.rounds,
        tolerance=1e-3,
        watch=options.watch,
    )[0]
    growth = attention_growth(options.smoke)
    notes += step_times(128 if options.smoke else 2048)
    notes += [f"{one.quantity}: exponent {one.measured_exponent:.2f}" for one in growth]
    return Report((case, writing), growth, tuple(notes), versions)


# ---------------------------------------------------------------------- training


def plays() -> Data:
    """Text in characters; one part in ten to judge by."""
    return load(os.environ.get(TEXT, "shakespeare"), window=WINDOW, split=(0.9, 0.099, 0.001))


def training(model: Model, data: Data) -> Contestant:
    """`fit` with evaluations and checkpoints out of the way."""
    settings = {**RECIPE, "schedule": {"name": "constant", "warmup": 0}}
    return Local(
        "chainrule",
        lambda: Prepared(*first_losses(model, data, CHECKED_STEPS, **settings)),
        lambda: steady_seconds(model, data, 120, **settings),
    )


def peer(name: str, folder: Path, **more: Any) -> Peer:
    """PyTorch, from the same weights."""
    work = {"folder": str(folder), "form": PEERS[name], "heads": 4, "window": WINDOW, "lr": LR}
    return Peer(name, "torch_gpt", {**work, "check": CHECKED_STEPS, "threads": THREADS, **more})


def whole_runs(data: Data, steps: int, folder: Path, peers: Sequence[str]) -> list[str]:
    """What everybody reaches in a whole training run, and the seconds it takes with compilation."""
    found = []
    for label, settings in (("modern, the default", {}), ("gpt2", {"preset": "gpt2", "bias": False})):
        model = models.build("gpt", data, **settings)
        schedule = {"name": "cosine", "warmup": 100, "floor": 0.1}
        with tempfile.TemporaryDirectory() as place:
            began = time.perf_counter()
            trained = fit(model, data, run=f"{place}/run", steps=steps, schedule=schedule, **RECIPE).model
            seconds = time.perf_counter() - began
        loss = mean_loss(trained, data.val, jax.random.key(0))[0]["loss"]
        found.append(f"{steps} steps: chainrule ({label}) {loss:.4f} nats in {seconds:.1f} s")
    for name in peers:
        worker = peer(name, folder, whole=True)
        try:
            done = worker.prepare()
        finally:
            worker.close()
        found.append(
            f"{steps} steps: {name} (gpt2) {done.result[0]:.4f} nats in {done.compile_seconds:.1f} s"
        )
    return found


def write_work(folder: Path, model: Model, data: Data, steps: int) -> Path:
    """Text, order of the passages and initial weights, so that everybody starts from the same numbers."""
    stored = safetensors.numpy.load_file(models.export_weights(model, folder / "weights.safetensors"))
    np.savez(folder / "weights.npz", allow_pickle=False, **stored)
    index = Batches(len(data.train), BATCH, seed=0).indices(0, steps)
    symbols, val = data.train.arrays["symbols"], data.val.arrays["symbols"]
    np.savez(folder / "data.npz", allow_pickle=False, index=index, symbols=symbols, val=val)
    return folder


# ---------------------------------------------------------------------- writing


def writers(context: int) -> list[Contestant]:
    """One symbol after another from a cache, and the same by reading everything again."""
    schema = Schema("text", (context + 1,), symbols=tuple(map(chr, range(65))))
    model = models.build("gpt", schema)
    assert isinstance(model, GPT)
    text = jnp.zeros((1, context), jnp.int32)
    advance = eqx.filter_jit(model.advance, donate="all-except-first")
    last = eqx.filter_jit(lambda x: model.logits(x)[0, -1])

    def cached(count: int) -> Any:
        state = model.advance(model.start(1, context), text[:, :8])[1]
        for _ in range(count):
            logits, state = advance(state, text[:, :1])
        return logits.block_until_ready()

    def again(count: int) -> Any:
        for _ in range(count):
            logits = last(text)
        return logits.block_until_ready()

    def prepared(logits: Callable[[], Any]) -> Prepared:
        began = time.perf_counter()
        result = np.asarray(logits(), np.float64).ravel()[:5]
        return Prepared([float(v) for v in result], time.perf_counter() - began)

    def whole() -> Any:
        return model.advance(model.start(1, context), text)[0][0, -1]

    return [
        Local("chainrule", lambda: prepared(whole), lambda: steady(cached, piece=context - 16, seconds=2.0)),
        Local(
            "reading again", lambda: prepared(lambda: last(text)), lambda: steady(again, piece=2, seconds=2.0)
        ),
    ]


def step_times(room: int) -> list[str]:
    """Whether a step late in a text costs what an early one does, and what the memory of linear attention weighs."""
    schema = Schema("text", (room + 1,), symbols=tuple(map(chr, range(65))))
    notes = []
    for attention in ("softmax", "linear"):
        model = models.build("gpt", schema, attention=attention)
        assert isinstance(model, GPT)
        advance = eqx.filter_jit(model.advance)
        token = jnp.zeros((1, 1), jnp.int32)
        late_at = room - room // 14
        medians, sizes = [], []
        for start in (room // 20, late_at):
            state = model.advance(model.start(1, room), jnp.zeros((1, start), jnp.int32))[1]
            seconds = []
            for _ in range(min(60, room - late_at)):
                began = time.perf_counter()
                logits, state = advance(state, token)
                logits.block_until_ready()
                seconds.append(time.perf_counter() - began)
            medians.append(float(np.median(seconds[5:])))
            sizes.append(sum(a.nbytes for a in jax.tree.leaves(state)))
        notes.append(
            f"{attention}, buffer {room}: a step near {late_at} takes {medians[1] / medians[0]:.2f} times one near "
            f"{room // 20}; {sizes[0]:,} and {sizes[1]:,} bytes of memory"
        )
    return notes


# ---------------------------------------------------------------------- attention by length


def attention_growth(smoke: bool) -> tuple[Growth, ...]:
    """Seconds of one attention layer of width 64 against the length of the text, beside the operations XLA counts."""
    kinds: dict[str, tuple[Mixing, tuple[int, ...]]] = {
        "softmax": (Softmax(), (1024, 2048, 4096, 8192)),
        "linear": (FeatureMixing(EluPlusOne()), (16384, 32768, 65536, 131072, 262144)),
    }
    found = []
    for name, (mixing, sizes) in kinds.items():
        sizes = tuple(n // 16 for n in sizes) if smoke else sizes
        layer = SelfAttention(64, heads=1, causal=True, mixing=mixing, key=jax.random.key(0))
        seconds, operations = [], []
        for n in sizes:
            x = jax.random.normal(jax.random.key(1), (1, n, 64))
            compiled = jax.jit(lambda x, layer=layer: layer(x)).lower(x).compile()
            operations.append(float(compiled.cost_analysis()["flops"]))
            compiled(x).block_until_ready()
            turns = []
            for _ in range(5):
                began = time.perf_counter()
                compiled(x).block_until_ready()
                turns.append(time.perf_counter() - began)
            seconds.append(float(np.median(turns)))
        found.append(
            Growth(f"seconds of {name} attention", "length", sizes, tuple(seconds), tuple(operations))
        )
    return tuple(found)
