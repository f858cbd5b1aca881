"""A training step of a variational auto-encoder, ours and PyTorch's, and the memory of scoring by 5,000 codes."""

import tempfile
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.harness import THREADS, Case, Contestant, Local, Options, Prepared, measure
from benchmarks.peer import Peer
from benchmarks.workloads import first_losses, settled_steps, steady_seconds
from chainrule import models
from chainrule.data import from_arrays
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.probability.variational import chunked_log_weights

BATCH, WIDTH, LATENT, PIXELS = 128, 256, 16, 784
RATE = 1e-3
CODES, CHUNK = 5000, 100
NEVER = 10**9
FORMS = {"torch": "eager", "torch-compile": "compile"}


def vae_step(options: Options, peers: list[str]) -> tuple[Case, dict[str, str], list[str]]:
    """The case, versions of what was used, and what is to be said of memory."""
    data = _images()
    model = models.build("vae", data.schema, latent=LATENT, width=WIDTH, depth=1, warmup=0.0)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "work.npz"
        index = _write(file, model, data)
        theirs: list[Contestant] = [
            Peer(name, "torch_vae", {"file": str(file), "form": FORMS[name], "lr": RATE, "threads": THREADS})
            for name in peers
        ]
        case, versions = measure(
            f"VAE {PIXELS}-{WIDTH}-{LATENT}, batch {BATCH}",
            [_ours(model, data, index), *theirs],
            rounds=options.rounds,
            tolerance=1e-4,
            watch=options.watch,
        )
    return case, versions, [_memory(model, data)]


def _images(count: int = 8192) -> Data:
    draw = np.random.default_rng(0)
    return from_arrays((draw.random((count, 28, 28, 1)) < 0.3).astype(np.float32), levels=2, kind="image")


def _write(file: Path, model: Any, data: Data) -> np.ndarray:
    index = np.random.default_rng(1).integers(0, len(data.train), (64, BATCH))
    halves = {"encoder": model.networks.encoder.network, "decoder": model.networks.decoder.network}
    arrays = {
        f"{half}{name}{number}": np.asarray(array)
        for half, network in halves.items()
        for number, layer in enumerate(network.layers)
        for name, array in (("w", layer.weight), ("b", layer.bias))
    }
    np.savez(file, x=np.asarray(data.train.x).reshape(len(data.train), -1), index=index, **arrays)
    return index


def _ours(model: Any, data: Data, index: np.ndarray) -> Local:
    settings: dict[str, Any] = {
        "batch": BATCH,
        "ema": 0.0,
        "optimizer": {"name": "adam", "lr": RATE, "decay": 0.0},
        "schedule": {"name": "constant"},
        "eval_every": NEVER,
        "save_every": NEVER,
    }
    operations = 2 * BATCH * 3 * 2 * PIXELS * WIDTH

    def prepare() -> Prepared:
        _, seconds = first_losses(model, data, 3, **settings)
        return Prepared(_without_noise(model, data, index[0]), seconds)

    return Local(
        "chainrule", prepare, lambda: steady_seconds(model, data, settled_steps(operations), **settings)
    )


def _without_noise(model: Any, data: Data, rows: np.ndarray) -> list[float]:
    x = jnp.asarray(np.asarray(data.train.x)[rows])
    given = model.networks.given(None, len(x))
    mean, spread = jnp.split(model.networks.posterior_parameters(x, given), 2, axis=-1)
    rate = 0.5 * (mean**2 + jnp.exp(spread) - 1 - spread).sum(axis=-1).mean()
    return [float(rate), float(model.nats(model.log_likelihood(x, mean, given)).mean())]


def _memory(model: Any, data: Data) -> str:
    batch = Batch(jnp.asarray(np.asarray(data.train.x)[:53]))

    def scored(model: Any, batch: Batch, key: Any) -> Any:
        weights = lambda key, count: model.log_weights(batch, key, count)  # noqa: E731
        return chunked_log_weights(weights, key, samples=CODES, chunk=CHUNK)

    compiled = eqx.filter_jit(scored).lower(model, batch, jax.random.key(0)).compile().compiled
    needed = compiled.memory_analysis().temp_size_in_bytes
    whole = len(batch.x) * CODES * PIXELS * 4
    return (
        f"{len(batch.x)} images by {CODES:,} codes: {needed / 1e6:.0f} MB of temporary memory, compiled; their "
        f"decoded codes alone are {whole / 1e6:.0f} MB"
    )


__all__ = ["vae_step"]
