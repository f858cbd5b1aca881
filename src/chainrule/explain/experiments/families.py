"""Families of densities side by side: what each costs to judge and to draw, how well it fits the data.

Models whose density is known and models that bound it (diffusion, auto-encoders) are compared by the same number, which
for a bound is no less than what the density itself would give.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Bars, Table
from chainrule.data.dataset import Data
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.protocol import CanSample, HasAudit, HasBound, HasDensity, HasLogProb, parameter_count
from chainrule.networks import units
from chainrule.train.scores.exact_likelihood import needs_noise

_JUDGED = 512
_TURNS = 5


@final
class FamiliesSettings(Settings):
    """The data, the models and their training."""

    data: str = Field("moons", description="name or path of the data")
    load: dict[str, Any] = Field(default_factory=dict, description="options of the data: load.target=none")
    models: tuple[str, ...] = Field(
        ("made", "maf", "spline-flow", "realnvp"),
        min_length=1,
        description="models that know the density of an example or a bound of it, each with its defaults",
    )
    steps: int = Field(1000, ge=1, le=1_000_000, description="training steps of each, of the same batch")
    batch: int = Field(128, ge=2, le=100_000, description="examples of a batch")
    seed: int = Field(0, ge=0, description="of weights, batches and draws")


class _Judged(NamedTuple):
    """What one family costs and gives."""

    nats: float
    error: float
    bits: float | None
    """Bits per dimension, of data with levels."""
    bound: bool
    """Whether these are bounds."""
    parameters: int
    density_ms: float
    sampling_ms: float
    passes: tuple[int, int] | None
    """One after another: of the density, of a draw."""
    inverse_error: float | None


def run(settings: FamiliesSettings, listener: Listener) -> Outcome:
    """Train every family on the same data for as many steps, and measure both of its directions."""
    data = sources.load(settings.data, **settings.load)
    fresh = {name: _fresh(name, data, settings.seed) for name in settings.models}
    found = {}
    for name, model in fresh.items():
        found[name] = _judged(settings, data, name, model)
        listener(f"{name}: {found[name].nats:.4f} nats")
    best = min(found, key=lambda name: found[name].nats)
    slow = max(found, key=lambda name: found[name].sampling_ms / found[name].density_ms)
    ratio = found[slow].sampling_ms / found[slow].density_ms
    _, said = data.held_out()
    return Outcome(
        [
            f"{best} fits {data.name} best: {found[best].nats:.4f} ± {found[best].error:.4f} nats"
            f"{' or fewer, a bound' if found[best].bound else ''}, held out.",
            f"Drawing costs {slow} {ratio:.3g} times as much as judging as many examples.",
            "An autoregressive model with one Gaussian for each entry is one affine layer of maf; determinants of "
            "triangular layers cost no more than the entries. What differs is which direction goes entry after entry.",
            *said,
        ],
        [_bars(found)],
        _table(found),
        {name: one._asdict() for name, one in found.items()},
    )


def _fresh(name: str, data: Data, seed: int) -> Any:
    """The model before training; an error before any is trained where one cannot be compared."""
    model: Any = models.build(name, data, seed=seed)
    if not (isinstance(model, HasLogProb | HasBound) and isinstance(model, CanSample)):
        raise ArgumentError(
            f"families(models={name}): it draws nothing, or knows neither the density of an example nor a bound of it",
            remedy="use made, nade, maf, spline-flow, realnvp, glow, pixel-cnn, vae, diffusion and the like",
        )
    return model


def _judged(settings: FamiliesSettings, data: Data, name: str, fresh: Any) -> _Judged:
    training = {
        **models.entry(name).training_for(data.schema),
        "batch": settings.batch,
        "seed": settings.seed,
    }
    for word in ("steps", "epochs"):
        training.pop(word, None)
    model: Any = eqx.nn.inference_mode(
        train(fresh, data, steps=settings.steps, every=settings.steps, **training).model
    )
    key = random.key(settings.seed, "families")
    part, _ = data.held_out()
    x = jnp.asarray(part.batch(np.arange(min(_JUDGED, len(part)))).x, jnp.float32)
    if isinstance(model, HasDensity):
        x = units.dequantized(data.schema, x, random.at(key, 0), model.gaps)
    exact = isinstance(model, HasLogProb)
    judge = eqx.filter_jit(lambda x: model.log_prob(x) if exact else model.elbo(x, random.at(key, 3)))
    nats = np.asarray(data.nats(judge(x)))
    audited = model.audit(x, random.at(key, 1)) if isinstance(model, HasAudit) else None
    return _Judged(
        float(nats.mean()),
        float(nats.std() / np.sqrt(len(nats))),
        float(nats.mean() / (data.schema.dimensions * np.log(2))) if data.schema.levels else None,
        not exact or needs_noise(model, data.schema),
        parameter_count(model),
        _milliseconds(lambda: judge(x)),
        _milliseconds(lambda: model.sample(random.at(key, 2), len(x))),
        model.passes if isinstance(model, HasAudit) else None,
        None if audited is None else audited.whole.inverse_error,
    )


def _milliseconds(work: Callable[[], Any]) -> float:
    """The least of a few turns after one that compiles."""
    jax.block_until_ready(work())
    taken = []
    for _ in range(_TURNS):
        began = time.perf_counter()
        jax.block_until_ready(work())
        taken.append(time.perf_counter() - began)
    return 1e3 * min(taken)


def _table(found: dict[str, _Judged]) -> Table:
    rows: list[list[str | float | int]] = [
        [
            name,
            f"{one.nats:.4f} ± {one.error:.4f}",
            "" if one.bits is None else f"{one.bits:.4f}",
            "bound" if one.bound else "exact",
            one.parameters,
            one.density_ms,
            one.sampling_ms,
            "" if one.passes is None else f"{one.passes[0]} / {one.passes[1]}",
            "" if one.inverse_error is None else f"{one.inverse_error:.1e}",
        ]
        for name, one in found.items()
    ]
    return Table(
        "families",
        "Families of densities",
        [
            "model",
            "nats, held out",
            "bits per dimension",
            "",
            "parameters",
            "density ms",
            "draws ms",
            "passes: density / draw",
            "|x - T(T⁻¹x)|",
        ],
        rows,
        caption=f"Times are for {_JUDGED} examples or as many as there are, the least of {_TURNS} turns on this "
        "machine; passes are those that wait for each other.",
    )


def _bars(found: dict[str, _Judged]) -> Bars:
    return Bars(
        "families-times",
        "Which direction is slow",
        "model",
        "milliseconds",
        list(found),
        {
            "density": np.array([one.density_ms for one in found.values()]),
            "draws": np.array([one.sampling_ms for one in found.values()]),
        },
    )


experiment = Experiment(
    "Families of densities on the same data: likelihood or its bound, size, and what judging and drawing cost.",
    FamiliesSettings,
    run,
    toy={"models": ("maf",), "steps": 2},
    reference="Papamakarios et al., Normalizing flows for probabilistic modeling and inference, JMLR 2021, section 3",
)

__all__ = ["FamiliesSettings", "experiment", "run"]
