"""A diffusion U-Net: a training step and DDIM sampling, against the same network in PyTorch.

Training is what a user gets: the steady state of `fit`, which draws noise, times and dropped classes of its own.
PyTorch runs a bare loop with the same network, weights, optimiser and kind of noise, eagerly with images channels last,
and compiled. Sampling walks 50 steps of DDIM from the same noise, without guidance. Before anything is timed, the loss
and the length of its gradient at one fixed noise, and entries of the samples, must agree.
"""

import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, Report, measure
from benchmarks.peer import PYTHON, Peer
from benchmarks.workers.protocol import steady
from benchmarks.workloads import steady_seconds
from chainrule import models
from chainrule.core import tree
from chainrule.data.dataset import Data
from chainrule.data.scaling import Scaling
from chainrule.data.schema import Schema
from chainrule.data.splits import Rows
from chainrule.models.diffusion import samplers, schedules
from chainrule.models.diffusion.denoisers.learned import LearnedDenoiser, NetworkDenoiser
from chainrule.models.diffusion.diffusion import Diffusion
from chainrule.models.diffusion.process import noised
from chainrule.models.diffusion.targets import truth

TORCH = {"torch-channels-last": "channels-last", "torch-compile": "compile"}
RATE = 1e-4
STEPS = 50
CLASSES = 10
NEVER = 10**9


@final
@dataclass(frozen=True)
class Workload:
    """Pictures and a network for them."""

    name: str
    pixels: int
    channels: int
    width: int
    depth: int
    batch: int
    drawn: int
    """Samples of one walk."""
    steps: int
    """Training steps of one turn: enough for several calls of `fit`."""
    half: bool = False
    """Whether networks compute in bfloat16."""

    @property
    def label(self) -> str:
        """What it is, in words."""
        return f"{self.pixels} px, width {self.width}{', bfloat16' if self.half else ''}"


CPU = (Workload("small", 8, 1, 32, 1, 128, 64, 200), Workload("middle", 28, 1, 32, 1, 32, 16, 60))
GPU = (Workload("large", 32, 3, 64, 1, 512, 512, 400, half=True),)
TASKS = {"training": "training step", "sampling": f"{STEPS} steps of DDIM"}


def choices(workloads: tuple[Workload, ...]) -> tuple[str, ...]:
    """Names of the cases."""
    return tuple(f"{workload.name}-{task}" for workload in workloads for task in TASKS)


CHOICES = choices(CPU)


def run(options: Options) -> Report:
    """Measure every network on the CPU."""
    return compare(options, CPU, PYTHON, "cpu")


def compare(
    options: Options,
    workloads: tuple[Workload, ...],
    python: Path,
    device: str,
    forms: Mapping[str, str] = TORCH,
) -> Report:
    """Measure networks on a device; `python` is the interpreter that has PyTorch for it."""
    peers = options.chosen(list(forms))
    cases: list[Case] = []
    versions: dict[str, str] = {}
    for workload in workloads:
        data, model = pictures(workload), trained(workload)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "work.npz"
            write_work(file, model, workload, data)
            for task, make in (("training", training), ("sampling", sampling)):
                if options.case not in (None, f"{workload.name}-{task}"):
                    continue
                contestants: list[Contestant] = [make(model, workload, data)]
                arguments = {"file": str(file), "task": task, "lr": RATE, "threads": THREADS}
                arguments |= {"device": device, "half": workload.half}
                contestants += [
                    Peer(peer, "torch_unet", {**arguments, "form": forms[peer]}, python) for peer in peers
                ]
                size = workload.batch if make is training else workload.drawn
                case, found = measure(
                    f"U-Net, {workload.label}: {TASKS[task]}, batch {size}",
                    contestants,
                    rounds=options.rounds,
                    tolerance=2e-2 if workload.half else 2e-3,
                    watch=options.watch,
                )
                cases.append(case)
                versions |= found
    return Report(tuple(cases), versions=versions)


def pictures(workload: Workload) -> Data:
    """Random pictures in ten classes: speed does not depend on what they show."""
    draw = np.random.default_rng(0)

    def rows(n: int) -> Rows:
        shape = (n, workload.pixels, workload.pixels, workload.channels)
        x = draw.integers(0, 256, shape, dtype=np.uint8)
        return Rows({"x": x, "y": draw.integers(0, CLASSES, n).astype(np.int32)}, Scaling(0.0, 1 / 255))

    train = rows(8 * workload.batch)
    return Data(
        name="random-pictures",
        schema=_schema(workload),
        train=train,
        val=rows(16),
        test=rows(16),
        scaling=train.scaling,
        target_scaling=None,
        hash=f"random-pictures-{workload.pixels}",
        source={"name_or_path": "random-pictures", "seed": 0},
    )


def _schema(workload: Workload) -> Schema:
    shape = (workload.pixels, workload.pixels, workload.channels)
    return Schema("image", shape, target="class", classes=tuple(map(str, range(CLASSES))), levels=256)


def trained(workload: Workload) -> Diffusion:
    """A network as if trained: a fresh one predicts zero."""
    settings = {"denoiser": "unet", "width": workload.width, "depth": workload.depth}
    model = models.build("diffusion", _schema(workload), **settings)
    assert isinstance(model, Diffusion)
    noise = np.random.default_rng(1)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    moved = jax.tree.map(lambda a: a + jnp.asarray(0.02 * noise.normal(size=a.shape), a.dtype), arrays)
    return eqx.combine(moved, rest)


def fixed(workload: Workload) -> dict[str, np.ndarray]:
    """Examples, classes, noise and levels on which everybody has to agree."""
    draw = np.random.default_rng(2)
    shape = (workload.batch, workload.pixels, workload.pixels, workload.channels)
    times = (np.arange(workload.batch) + 0.5) / workload.batch
    schedule = schedules.schedule("cosine")
    levels = schedules.grid(schedule, STEPS)
    return {
        "fixed.x0": draw.uniform(-1, 1, shape).astype(np.float32),
        "fixed.eps": draw.normal(size=shape).astype(np.float32),
        "fixed.y": (np.arange(workload.batch) % CLASSES).astype(np.int64),
        "fixed.lam": np.asarray(schedule.lam(jnp.asarray(times, jnp.float32))),
        "fixed.start": draw.normal(size=(workload.drawn, *shape[1:])).astype(np.float32),
        "grid.a": np.asarray(levels.a, np.float32),
        "grid.s": np.asarray(levels.s, np.float32),
    }


def write_work(file: Path, model: Diffusion, workload: Workload, data: Data) -> None:
    """The network, the data and what is fixed, for PyTorch."""
    assert isinstance(model.denoiser, NetworkDenoiser)
    named = jax.tree_util.tree_flatten_with_path(eqx.filter(model.denoiser.body, eqx.is_array))[0]
    arrays = {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(a) for path, a in named}
    arrays |= fixed(workload)
    np.savez(file, allow_pickle=False, **arrays, x=data.train.arrays["x"], y=data.train.arrays["y"])


def training(model: Diffusion, workload: Workload, data: Data) -> Contestant:
    """`fit`, with evaluations and checkpoints out of the way; without averaged weights, as the peers."""
    settings = {
        "batch": workload.batch,
        "optimizer": {"name": "adam", "lr": RATE, "decay": 0.0},
        "schedule": {"name": "constant", "warmup": 0},
        "eval_every": NEVER,
        "save_every": NEVER,
        "ema": 0.0,
        "precision": "bfloat16" if workload.half else "float32",
    }
    network = tree.lowered(model.denoiser) if workload.half else model.denoiser

    @eqx.filter_jit
    def judged(network: LearnedDenoiser, given: dict[str, jax.Array]) -> tuple[jax.Array, jax.Array]:
        def loss(denoiser: LearnedDenoiser) -> jax.Array:
            level = schedules.schedule("cosine").process.level(given["fixed.lam"])
            x0, eps = given["fixed.x0"], given["fixed.eps"]
            said = denoiser.predict(noised(x0, eps, level), level, given["fixed.y"])
            return jnp.square(said - truth("v", x0, eps, level)).mean()

        value, slope = eqx.filter_value_and_grad(loss)(network)
        return value, tree.norm(tree.cast(slope, jnp.float32))

    def prepare() -> Prepared:
        given = {name: jnp.asarray(a) for name, a in fixed(workload).items()}
        began = time.perf_counter()
        result = [float(value) for value in judged(network, given)]
        return Prepared(result, time.perf_counter() - began)

    return Local("chainrule", prepare, lambda: steady_seconds(model, data, workload.steps, **settings))


def sampling(model: Diffusion, workload: Workload, data: Data) -> Contestant:
    """One walk of DDIM, every estimate clipped to the range of the data."""
    del data
    given = fixed(workload)
    start = jnp.asarray(given["fixed.start"])
    levels = schedules.grid(model.schedule, STEPS)
    condition = jnp.arange(workload.drawn) % CLASSES
    key = jax.random.key(0)
    network = tree.lowered(model.denoiser) if workload.half else model.denoiser

    def walk() -> jax.Array:
        return samplers.walk(
            network, start, levels, samplers.DDIM(), key, condition=condition, clip="static"
        ).samples

    def work(times: int) -> None:
        for _ in range(times):
            jax.block_until_ready(walk())

    def prepare() -> Prepared:
        began = time.perf_counter()
        out = np.asarray(walk())
        return Prepared(entries(out), time.perf_counter() - began)

    return Local("chainrule", prepare, lambda: steady(work, 1, 1.0))


def entries(samples: np.ndarray) -> list[float]:
    """A few numbers of the samples: means of each of the first eight, shifted away from zero."""
    return [float(2 + one.mean()) for one in samples[:8]]


def own_python() -> Path:
    """The interpreter of this process, where PyTorch stands beside JAX."""
    return Path(sys.executable)


__all__ = ["CPU", "GPU", "Workload", "choices", "compare", "run"]
