"""A step of DCGAN (both players) and one with a gradient penalty, beside PyTorch eager and compiled.

Both sides have the same weights, batches and optimisers: ours is the steady state of `fit` with the averages and
diagnostics it always keeps, PyTorch's a bare loop. Losses of both players on the first batch, for given noise, must
agree. `--smoke` runs toy sizes.
"""

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, Report, against, measure
from benchmarks.peer import PYTHON, Peer
from benchmarks.workloads import first_losses, settled_steps, steady_seconds
from chainrule import models
from chainrule.data import from_arrays
from chainrule.data.dataset import Data
from chainrule.models.adversarial.games import games
from chainrule.models.adversarial.penalties import one_centred, scores_and_slopes

FORMS = {"torch": "eager", "torch-compile": "compile"}
COLOURS = 3
NEVER = 10**9


class Workload(NamedTuple):
    """Sizes of both games, and where they are played."""

    side: int = 32
    width: int = 64
    batch: int = 64
    channels: int = 32
    """Of the first layers of the networks that are penalised."""
    precision: str = "float32"
    device: str = "cpu"
    tolerance: float = 1e-3


CPU = Workload()
SMOKE = True
CHOICES = ("dcgan", "penalty")


def run(options: Options) -> Report:
    """Measure both steps."""
    return compare(options, CPU, PYTHON, FORMS)


def compare(options: Options, load: Workload, python: Path, forms: dict[str, str]) -> Report:
    """Measure both steps at these sizes, PyTorch by this interpreter."""
    peers = options.chosen(list(forms))
    if options.smoke:
        load = load._replace(side=16, width=8, batch=16, channels=8, device="cpu")
    cases: list[Case] = []
    versions: dict[str, str] = {}
    size = f"{load.side}x{load.side}x{COLOURS}"
    for task, label, make in (
        ("dcgan", f"DCGAN {size}, width {load.width}, batch {load.batch}", dcgan),
        ("penalty", f"gradient penalty {size}, channels {load.channels}, batch {load.batch}", penalty),
    ):
        if options.case not in (None, task):
            continue
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "work.npz"
            ours = make(file, load)
            given = {"file": str(file), "task": task, "threads": THREADS, "device": load.device}
            theirs: list[Contestant] = [
                Peer(name, "torch_gan", {**given, "form": forms[name]}, python) for name in peers
            ]
            made, found = measure(
                label, [ours, *theirs], rounds=options.rounds, tolerance=load.tolerance, watch=options.watch
            )
        cases.append(made)
        versions.update(found)
    notes = [line for case in cases for line in against(case, 1.0)]
    return Report(tuple(cases), (), tuple(notes), versions)


def images(side: int, count: int = 2048) -> Data:
    """Images of noise, as bytes."""
    draw = np.random.default_rng(0)
    return from_arrays(
        draw.integers(0, 256, (count, side, side, COLOURS)).astype(np.uint8), levels=256, kind="image"
    )


def dcgan(file: Path, load: Workload) -> Local:
    """The published step: non-saturating game, batch normalisation, Adam."""
    data = images(load.side)
    model: Any = models.build(
        "dcgan", data.schema, generator_width=load.width, discriminator_width=load.width
    )
    x, z, u = _inputs(data, model, load.batch)
    weights = _convolutions("g", [stage.layer for stage in model.generator.stages])
    weights |= _convolutions(
        "d", [*(stage.layer for stage in model.discriminator.stages), model.discriminator.head]
    )
    scales = {
        f"{network}s{i}": np.asarray(stage.norm.scale)
        for network, stages in (("g", model.generator.stages), ("d", model.discriminator.stages))
        for i, stage in enumerate(stages)
        if stage.norm.state()
    }
    np.savez(file, x=_images_first(data), z=z, u=u, index=_index(data, load.batch), **weights, **scales)
    settings: dict[str, Any] = {
        "optimizer": {"name": "adam", "lr": 2e-4, "betas": (0.5, 0.999), "decay": 0.0}
    }
    return _ours(model, data, load, settings, lambda: _plain_losses(model, x, z))


def penalty(file: Path, load: Workload) -> Local:
    """One move of each network of the Wasserstein game with a gradient penalty."""
    data = images(load.side)
    model: Any = models.build("wgan-gp", data, channels=load.channels, n_critic=1, lam=10.0)
    x, z, u = _inputs(data, model, load.batch)
    stages = model.generator.stages
    first, last = stages[0].layer, model.discriminator.head
    size = stages[0].folded
    weights = _convolutions(
        "g", [getattr(stage.layer, "conv", stage.layer) for stage in stages[1:]], bias=True
    )
    weights |= _convolutions("d", [stage.layer for stage in model.discriminator.stages], bias=True)
    weights["gw"] = (
        np.asarray(first.weight).reshape(-1, *size).transpose(0, 3, 1, 2).reshape(len(first.weight), -1)
    )
    weights["gb"] = np.asarray(first.bias).reshape(size).transpose(2, 0, 1).ravel()
    coarse = (load.side // 2 ** (len(model.discriminator.stages) - 1),) * 2
    weights["dw"] = np.asarray(last.weight).reshape(*coarse, -1).transpose(2, 0, 1).ravel()
    weights["db"] = np.asarray(last.bias)
    np.savez(
        file,
        x=_images_first(data),
        z=z,
        u=u,
        index=_index(data, load.batch),
        start=np.array([size[2], *size[:2]]),
        **weights,
    )
    settings: dict[str, Any] = {"optimizer": {"name": "adam", "lr": 1e-4, "betas": (0.0, 0.9), "decay": 0.0}}
    return _ours(model, data, load, settings, lambda: _penalised_losses(model, x, z, u))


def _inputs(data: Data, model: Any, batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(2)
    x = np.asarray(data.train.batch(_index(data, batch)[0]).x)
    z = draw.normal(size=(batch, model.config.latent)).astype(np.float32)
    return x, z, draw.random((batch, 1, 1, 1)).astype(np.float32)


def _index(data: Data, batch: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, len(data.train), (16, batch))


def _images_first(data: Data) -> np.ndarray:
    """All training images in [-1, 1], channels first."""
    x = np.asarray(data.train.batch(np.arange(len(data.train))).x, np.float32)
    return (2 * x - 1).transpose(0, 3, 1, 2)


def _convolutions(network: str, layers: list[Any], bias: bool = False) -> dict[str, np.ndarray]:
    """Weights in PyTorch's order."""
    found = {
        f"{network}{i}": np.asarray(layer.weight).transpose(3, 2, 0, 1) for i, layer in enumerate(layers)
    }
    if bias:
        found |= {f"{network}b{i}": np.asarray(layer.bias) for i, layer in enumerate(layers)}
    return found


def _ours(model: Any, data: Data, load: Workload, settings: dict[str, Any], losses: Any) -> Local:
    steps = settled_steps(4e9) if load.device == "cpu" else _GPU_STEPS
    settings = {
        **settings,
        "batch": load.batch,
        "precision": load.precision,
        "ema": 0.0,
        "schedule": {"name": "constant"},
        "eval_every": NEVER,
        "save_every": NEVER,
    }

    def prepare() -> Prepared:
        _, seconds = first_losses(model, data, 2, **settings)
        return Prepared(losses(), seconds)

    return Local("chainrule", prepare, lambda: steady_seconds(model, data, steps, **settings))


_GPU_STEPS = 1500


def _plain_losses(model: Any, x: np.ndarray, z: np.ndarray) -> list[float]:
    """Losses of the fresh players for given noise."""

    @eqx.filter_jit
    def losses(model: Any) -> Any:
        real = model.to_networks(jnp.asarray(x, jnp.float32))
        fake, _ = model.generator.advance(jnp.asarray(z), None)
        judged = model.judged(real, fake, None)
        scores, _ = model.discriminator.advance(fake, None)
        game = games["non-saturating"]
        return game.discriminator(judged.real, judged.fake, 1.0), game.generator(scores, scores)

    return [float(value) for value in losses(model)]


def _penalised_losses(model: Any, x: np.ndarray, z: np.ndarray, u: np.ndarray) -> list[float]:
    @eqx.filter_jit
    def losses(model: Any) -> Any:
        real = model.to_networks(jnp.asarray(x, jnp.float32))
        fake, _ = model.generator.advance(jnp.asarray(z), None)
        judged = model.judged(real, fake, None)
        _, slopes, _ = scores_and_slopes(model.discriminator, u * real + (1 - u) * fake, None)
        game = games["wasserstein"]
        charge = model.config.lam * one_centred(slopes)
        return game.discriminator(judged.real, judged.fake, 1.0) + charge, game.generator(
            judged.real, judged.fake
        )

    return [float(value) for value in jax.block_until_ready(losses(model))]
