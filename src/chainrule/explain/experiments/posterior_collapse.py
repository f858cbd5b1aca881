"""Posterior collapse: a decoder that sees the entries before each entry does without codes, unless something is done.

Examples are chains of zeros and ones that change with a small probability, so that all there is to know of an entry
stands in the one before, and their entropy is known. The same variational auto-encoder is trained with independent
entries, with a decoder that sees what came before, and with that decoder and one remedy at a time.
"""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data, models
from chainrule.core import random
from chainrule.core.pictures import Bars, Lines, Table
from chainrule.core.types import Array, Key
from chainrule.data.batches import Batch
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.protocol import HasLatents, LatentUse, Model
from chainrule.models.protocol.latents import IDLE

_TRAIN, _HELD = 4096, 1024
_REMEDIES: dict[str, dict[str, Any]] = {
    "independent entries": {"decoder": "factorised"},
    "autoregressive": {},
    "free_bits=0.25": {"free_bits": 0.25},
    "context_dropout=0.5": {"context_dropout": 0.5},
    "chunk=2": {"chunk": 2},
    "encoder_steps=5": {"encoder_steps": 5},
}


@final
class PosteriorCollapseSettings(Settings):
    """The chains, and how the models are trained."""

    length: int = Field(8, ge=3, le=64, description="entries of a chain")
    change: float = Field(
        0.2, gt=0, lt=0.5, description="probability with which an entry differs from the last"
    )
    beta: float = Field(1.2, gt=0, description="weight of the rate; at 1 collapse takes longer to come about")
    steps: int = Field(1500, ge=1, description="of training, of every model")
    seed: int = Field(0, ge=0, description="chains, weights and draws")


def run(settings: PosteriorCollapseSettings, listener: Listener) -> Outcome:
    """Train every variant on the same chains and see whether its code is used."""
    draw = np.random.default_rng(settings.seed)
    chains = data.from_arrays(
        _chains(draw, _TRAIN + 2 * _HELD, settings), levels=2, split=(0.66, 0.17, 0.17), name="chains"
    )
    held_out = Batch(jnp.asarray(chains.test.batch(np.arange(min(_HELD, len(chains.test)))).x))
    rows, curves = {}, {}
    for name, remedy in _REMEDIES.items():
        listener(f"{name}: {settings.steps:,} steps")
        chosen = {"decoder": "autoregressive", "latent": 2, "width": 32, "warmup": 0.0, "beta": settings.beta}
        model = models.build("vae", chains, seed=settings.seed, **{**chosen, **remedy})
        found = train(
            model,
            chains,
            steps=settings.steps,
            every=max(1, settings.steps // 15),
            batch=128,
            seed=settings.seed,
            optimizer={"name": "adam", "lr": 3e-3},
        )
        use, bound = _judged(found.model, held_out, random.key(settings.seed, "judged"))
        rate = float(use.divergence.sum())
        # Centres may still vary a little where they say next to nothing.
        rows[name] = (rate, int(use.active.sum()) if rate >= IDLE else 0, float(bound))
        curves[name] = (found.steps, found.val["rate"])
    return _outcome(settings, rows, curves)


@eqx.filter_jit
def _judged(model: Model, batch: Batch, key: Key) -> tuple[LatentUse, Array]:
    assert isinstance(model, HasLatents)
    rate, distortion = model.rate_and_distortion(batch, key)
    return model.latent_use(batch, key), (rate + distortion).mean()


def _chains(draw: np.random.Generator, count: int, settings: PosteriorCollapseSettings) -> np.ndarray:
    first = np.arange(settings.length) == 0
    flips = draw.random((count, settings.length)) < np.where(first, 0.5, settings.change)
    return (np.cumsum(flips, axis=1) % 2).astype(np.float32)


def _outcome(
    settings: PosteriorCollapseSettings,
    rows: dict[str, tuple[float, int, float]],
    curves: dict[str, tuple[np.ndarray, np.ndarray]],
) -> Outcome:
    p = settings.change
    entropy = np.log(2) - (settings.length - 1) * (p * np.log(p) + (1 - p) * np.log(1 - p))
    alone = rows["autoregressive"]
    kept = [name for name in rows if name not in ("autoregressive", "independent entries") and rows[name][1]]
    return Outcome(
        [
            f"With a decoder that sees the entries before, {alone[1]} of 2 entries of the code are in use and the rate "
            f"is {alone[0]:.2g} nats; with independent entries {rows['independent entries'][1]} at "
            f"{rows['independent entries'][0]:.2g} nats.",
            f"What keeps codes in use: {', '.join(kept) or 'none of the remedies'}.",
            f"A chain has {entropy:.4g} nats of entropy. The decoder that sees the entries before reaches "
            f"{alone[2]:.4g} without a code, independent entries {rows['independent entries'][2]:.4g} with one: a code "
            "in use is not by itself a better model.",
        ],
        [
            Bars(
                "posterior-collapse",
                "What the code says of an example",
                "variant",
                "rate in nats",
                list(rows),
                {"rate": np.array([row[0] for row in rows.values()])},
                caption=f"Held-out chains, beta {settings.beta:g}, after {settings.steps:,} steps.",
            ),
            Lines(
                "rate-over-training",
                "The rate over training",
                "step",
                "rate in nats",
                curves,
                caption="On validation chains.",
            ),
        ],
        Table(
            "posterior-collapse",
            "At the end of training",
            ["variant", "rate", "entries in use", "bound of -log p"],
            [[name, round(rate, 3), active, round(bound, 3)] for name, (rate, active, bound) in rows.items()],
            caption="Means over held-out chains, in nats.",
        ),
        {
            "entropy": float(entropy),
            **{
                name: {"rate": rate, "active": active, "bound": bound}
                for name, (rate, active, bound) in rows.items()
            },
        },
    )


experiment = Experiment(
    "Posterior collapse: a decoder that does without codes, and what keeps them in use.",
    PosteriorCollapseSettings,
    run,
    toy={"length": 4, "steps": 3},
    reference="Bowman et al., Generating sentences from a continuous space, CoNLL 2016",
)

__all__ = ["PosteriorCollapseSettings", "experiment", "run"]
