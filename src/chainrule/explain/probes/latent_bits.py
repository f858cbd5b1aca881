"""Posterior collapse as a matter of coding: how many bits sending a code saves.

A code z of an example costs its rate and makes the example cheaper. A decoder that sees the entries before each entry
can do without: then sending z saves nothing, and training gives it up. The decoder alone is the same model trained on
with so high a price for the rate that its code says nothing; what that costs minus what the run's model costs is what
z saves.
"""

from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Bars, Lines, Table
from chainrule.core.types import Array, Key
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Split, Subset
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import HasRateWeight, Model
from chainrule.models.protocol.latents import IDLE
from chainrule.train import Run
from chainrule.train.evaluation import over

_CLOSED = 100.0
"""A price of the rate at which no code is worth it."""
_BINS = 40
_REMEDIES = "warmup=0.5, free_bits=0.25, a smaller beta, more steps"
_REMEDIES_OF_CONTEXT = (
    "chunk=2 (codes of small pieces), context_dropout=0.5 (a weaker decoder), free_bits=0.25, encoder_steps=5"
)
"""Settings of a decoder that sees the entries before each entry; others do not have them."""


@final
class LatentBitsSettings(Settings):
    """How long the decoder alone is trained, and what both are judged on."""

    steps: Count = Field(
        500, description="steps of training on, in which the decoder learns to do without a code"
    )
    examples: Count = Field(2000, description="held-out examples, at most")


class _Costs(NamedTuple):
    """Bits of each example."""

    rate: np.ndarray
    distortion: np.ndarray

    @property
    def total(self) -> np.ndarray:
        return self.rate + self.distortion


def examine(run: Run, data: Data, settings: LatentBitsSettings) -> Outcome:
    """Cost of held-out examples with a code and without one."""
    whole, said = data.held_out()
    part = Subset.drawn(whole, settings.examples) if settings.examples < len(whole) else whole
    own = run.settings
    assert isinstance(run.model, HasRateWeight), "ask what applies first"
    closed = train(
        run.model.with_beta(_CLOSED),
        data,
        steps=settings.steps,
        every=settings.steps,
        batch=own.batch,
        optimizer=own.optimizer.model_dump(),
        ema=own.ema,
    ).model
    # With the weight of its rate as it was: one program judges both.
    closed = jax.tree.unflatten(jax.tree.structure(run.model), jax.tree.leaves(closed))
    coded, alone = (_costs(model, data, part) for model in (run.model, closed))
    sees = _context(run.model, part)
    if (trained := run.checkpoints[-1]) < settings.steps:
        said = [
            *said,
            f"The run was trained for {trained:,} steps, the decoder alone for {settings.steps:,} more: go on with "
            "the run before you judge its code.",
        ]
    return _outcome(coded, alone, data.schema, sees, settings, said)


def _costs(model: Model, data: Data, part: Split) -> _Costs:
    rate, distortion = over(
        "rate and distortion",
        _terms,
        eqx.nn.inference_mode(model),
        part,
        random.key(0, "latent-bits"),
    )
    return _Costs(
        np.asarray(rate, np.float64) / np.log(2), np.asarray(data.nats(-distortion), np.float64) / np.log(2)
    )


def _terms(model: Any, batch: Batch, key: Key) -> tuple[Array, Array]:
    # Not a function made anew at every call: one program serves both models.
    rate, distortion = model.rate_and_distortion(batch, key)
    return rate, distortion


def _context(model: Any, part: Split) -> float | None:
    """Bits of an example that the decoder owes to the entries before each entry; none where it does not see them."""
    few = Subset.drawn(part, 64) if len(part) > 64 else part
    batch = jax.tree.map(jnp.asarray, few.batch(np.arange(len(few))))
    found = _context_nats(eqx.nn.inference_mode(model), batch, random.key(0, "latent-bits"))
    return None if found is None else float(np.mean(np.asarray(found)) / np.log(2))


@eqx.filter_jit
def _context_nats(model: Any, batch: Batch, key: Key) -> Array | None:
    nats: Array | None = model.context_nats(batch, key)
    return nats


def _outcome(
    coded: _Costs,
    alone: _Costs,
    schema: Schema,
    sees: float | None,
    settings: LatentBitsSettings,
    said: list[str],
) -> Outcome:
    saved = alone.total - coded.total
    mean, error = float(saved.mean()), float(saved.std() / np.sqrt(len(saved)))
    left = float(alone.rate.mean())
    decoder = (
        "The decoder treats entries as independent given the code."
        if sees is None
        else f"The decoder sees the entries before each entry, which is worth {sees:.3g} bits of an example."
    )
    rest = (
        f"The code of the decoder alone still says {left:.2g} bits (free bits, or too few steps): what it costs "
        "without any is higher."
        if left * np.log(2) > IDLE
        else ""
    )
    means = {
        name: [float(costs.rate.mean()), float(costs.distortion.mean())]
        for name, costs in (("with a code", coded), ("decoder alone", alone))
    }
    return Outcome(
        [
            f"A code saves {mean:.4g} ± {error:.2g} bits of an example ({mean / schema.dimensions:.3g} bits/dim): "
            f"{alone.total.mean():.4g} bits by the decoder alone, {coded.total.mean():.4g} with a code, of which "
            f"{coded.rate.mean():.4g} are for the code (the bound of both, {len(saved):,} examples).",
            _verdict(mean > 2 * error, sees),
            f"It is worth its bits for {float((saved > 0).mean()):.1%} of the examples. {decoder}",
            *([rest] if rest else []),
            *said,
        ],
        [_bars(means, settings.steps), _histogram(saved)],
        Table(
            "latent-bits",
            "Bits of an example",
            ["", "code", "example given it", "together"],
            [[name, rate, distortion, rate + distortion] for name, (rate, distortion) in means.items()],
        ),
        {
            "unit": "bits",
            "saved": mean,
            "error": error,
            "bound": float(coded.total.mean()),
            "decoder_alone": float(alone.total.mean()),
            "rate": float(coded.rate.mean()),
            "rate_left": left,
            "share_of_examples": float((saved > 0).mean()),
            **({} if sees is None else {"context": sees}),
        },
    )


def _verdict(pays: bool, sees: float | None) -> str:
    if pays:
        return "Sending z pays."
    remedies = _REMEDIES if sees is None else _REMEDIES_OF_CONTEXT
    return f"Sending z does not pay: the posterior may as well collapse. What keeps codes in use: {remedies}."


def _bars(means: dict[str, list[float]], steps: int) -> Bars:
    return Bars(
        "latent-bits",
        "Bits of an example",
        "",
        "bits",
        list(means),
        {
            "code": np.array([one[0] for one in means.values()]),
            "the rest": np.array([one[1] for one in means.values()]),
        },
        caption=f"The decoder alone is the same model after {steps:,} more steps with a price of "
        f"{_CLOSED:g} on the rate.",
    )


def _histogram(saved: np.ndarray) -> Lines:
    low, high = float(saved.min()), float(saved.max())
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    return Lines(
        "latent-bits-examples",
        "Bits that a code saves, over the examples",
        "bits saved",
        "share of the examples",
        {"": (middle, np.histogram(saved, edges)[0] / len(saved))},
        marks=((0.0, "nothing saved"),),
    )


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, HasRateWeight)


probe = Probe(
    "How many bits of an example a code saves beside the decoder alone: posterior collapse as a matter of coding.",
    "a variational auto-encoder with a weight of its rate",
    _applies,
    examine,
    LatentBitsSettings,
    toy={"steps": 3, "examples": 16},
)

__all__ = ["LatentBitsSettings", "examine", "probe"]
