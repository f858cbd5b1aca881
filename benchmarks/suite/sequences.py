"""Sequences on two cores: training a small GPT against PyTorch, writing with a cache, attention by length, tokens.

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
from chainrule.data.batches import Batches
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.text.tokenizers.byte_bpe import ByteBPE
from chainrule.explain.experiments.attention_cost import AttentionCostSettings
from chainrule.explain.experiments.attention_cost import run as attention_cost
from chainrule.models.protocol import Model
from chainrule.models.text.gpt import GPT
from chainrule.models.text.language_model import LanguageModel
from chainrule.train import fit
from chainrule.train.evaluation import mean_loss

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
        work = write_work(Path(folder), model, data, steps)
        case, found = measure(
            f"training step, {BATCH} x {WINDOW} characters",
            [training(model, data), *(peer(name, work) for name in peers)],
            rounds=options.rounds,
            tolerance=1e-3,
            watch=options.watch,
        )
        versions |= found
        notes = whole_runs(data, steps, work, peers)
    writing = measure(
        "writing a token, context 1,024",
        writers(128 if options.smoke else 1024),
        rounds=options.rounds,
        tolerance=1e-3,
        watch=options.watch,
    )[0]
    notes += step_times(128, 1000) if options.smoke else step_times(2048, 100_000)
    growth = attention_growth(options.smoke)
    notes += learning_merges(100_000, 80) if options.smoke else learning_merges(10_000_000, 8000)
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
        with tempfile.TemporaryDirectory() as scratch:
            began = time.perf_counter()
            trained = fit(model, data, run=f"{scratch}/run", steps=steps, schedule=schedule, **RECIPE).model
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
    tokens, val = data.train.arrays["tokens"], data.val.arrays["tokens"]
    np.savez(folder / "data.npz", allow_pickle=False, index=index, tokens=tokens, val=val)
    return folder


# ---------------------------------------------------------------------- writing


def writers(context: int) -> list[Contestant]:
    """One token after another from a cache, and the same by reading everything again."""
    schema = Schema("text", (context + 1,), tokens=tuple(map(chr, range(65))))
    model = models.build("gpt", schema)
    assert isinstance(model, GPT)
    text = jnp.zeros((1, context), jnp.int32)
    last = eqx.filter_jit(lambda x: model.logits(x)[0, -1])

    @eqx.filter_jit
    def written(model: GPT, count: int) -> Any:
        """In one compiled loop, as `sample` does."""
        logits, state = model.advance(model.start(1, context), text[:, :8])
        start = (logits[:, -1:], state)
        return jax.lax.fori_loop(0, count, lambda _, now: model.advance(now[1], text[:, :1]), start)[0]

    def cached(count: int) -> Any:
        return written(model, count).block_until_ready()

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


def step_times(room: int, far: int) -> list[str]:
    """What a step late in a text takes against an early one, and the bytes that are remembered at both."""
    schema = Schema("text", (room + 1,), tokens=tuple(map(chr, range(65))))
    late = room - room // 14
    cases: dict[str, tuple[Model, int, int]] = {
        f"softmax, buffer {room}": (models.build("gpt", schema), room // 20, late),
        "linear attention": (models.build("gpt", schema, attention="linear"), far // 1000, far),
        "LSTM": (models.build("char-rnn", schema, cell="lstm"), far // 1000, far),
    }
    notes = []
    for name, (model, *positions) in cases.items():
        assert isinstance(model, LanguageModel)
        advance = eqx.filter_jit(model.advance)
        medians, sizes = [], []
        for position in positions:
            state = _after(advance, model.start(1, room), position)
            seconds = []
            for _ in range(min(60, room - late)):
                began = time.perf_counter()
                logits, state = advance(state, jnp.zeros((1, 1), jnp.int32))
                logits.block_until_ready()
                seconds.append(time.perf_counter() - began)
            medians.append(float(np.median(seconds[5:])))
            sizes.append(sum(a.nbytes for a in jax.tree.leaves(state)))
        notes.append(
            f"{name}: a step near {positions[1]:,} takes {medians[1] / medians[0]:.2f} times one "
            f"near {positions[0]:,}; "
            f"{sizes[0]:,} and {sizes[1]:,} bytes of memory"
        )
    return notes


def _after(advance: Callable[..., Any], state: Any, count: int, piece: int = 1000) -> Any:
    """The state after so many tokens, read in pieces."""
    for length in [piece] * (count // piece) + [count % piece] * (count % piece > 0):
        state = advance(state, jnp.zeros((1, length), jnp.int32))[1]
    return state


# ---------------------------------------------------------------------- attention by length


def attention_growth(smoke: bool) -> tuple[Growth, ...]:
    """Seconds of one head of size 64 against the length of the text, beside the operations XLA counts."""
    settings = AttentionCostSettings(repeats=5)
    if smoke:
        shorter = {name: tuple(n // 16 for n in getattr(settings, name)) for name in ("softmax", "linear")}
        settings = AttentionCostSettings(repeats=1, **shorter)
    return tuple(
        Growth(
            f"seconds of {name} attention", "length", tuple(of["n"]), tuple(of["seconds"]), tuple(of["flops"])
        )
        for name, of in attention_cost(settings, lambda line: None).numbers.items()
    )


# ---------------------------------------------------------------------- tokens


def learning_merges(size: int, merges: int) -> list[str]:
    """Seconds that byte pair encoding takes to learn from made-up words, few of them frequent and most of them rare."""
    draw = np.random.default_rng(0)
    sounds = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    picks, lengths = draw.integers(0, len(sounds), (size // 50, 4)), draw.integers(1, 5, size // 50)
    words = sorted({"".join(sounds[j] for j in row[:n]) for row, n in zip(picks, lengths, strict=True)})
    ranks = draw.zipf(1.3, size // 5) % len(words)
    text = " ".join(words[rank] for rank in draw.permutation(len(words))[ranks])[:size]
    began = time.perf_counter()
    learnt = ByteBPE.train(text, 256 + merges, min_frequency=1).merges
    seconds = time.perf_counter() - began
    return [
        f"byte pair encoding: {len(learnt):,} merges from {len(text):,} characters, "
        f"{len(set(text.split())):,} different words, in {seconds:.1f} s"
    ]
