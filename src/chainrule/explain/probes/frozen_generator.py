"""A trained generator's gradient while its discriminator goes on learning alone: does it fade, as the theory says?

The generator stands still and the discriminator of the run goes on by the cross-entropy of both kinds of examples,
without penalties. The gradient of the saturating game fades as it gets sure; that of the non-saturating game does not.
"""

from typing import Any, final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines, Table
from chainrule.core.types import Array, Tree
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.frozen_generator import FrozenGame, GradientLook, looks
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasDiscriminator, HasParts, Model
from chainrule.train import Run

_REAL = 10_000
"""Training examples that the discriminator learns from at most."""
_LEAST = 1e-12


@final
class FrozenGeneratorSettings(Settings):
    """How long the discriminator learns alone, and at how many examples gradients are measured."""

    steps: int = Field(1000, ge=1, le=1_000_000, description="updates of the discriminator")
    every: int = Field(50, ge=1, le=100_000, description="updates between two measurements")
    batch: int = Field(128, ge=2, le=100_000, description="examples of each kind in an update")
    n: int = Field(256, ge=2, le=100_000, description="examples of each kind at which is measured")
    lr: float = Field(1e-3, gt=0, le=1, description="rate of the discriminator (Adam)")
    seed: int = Field(0, ge=0, description="draws")


def examine(run: Run, data: Data, settings: FrozenGeneratorSettings) -> Outcome:
    """Train the discriminator on, measure the generator's gradients on the way, and set them beside the bound."""
    play, generator, discriminator = _frozen(run.model)
    count = min(_REAL, len(data.train))
    real = np.asarray(data.train.batch(np.arange(count)).x, np.float32)
    examples = min(settings.n, count)
    key = random.key(settings.seed, "frozen generator")
    if len(play.score(discriminator, jnp.asarray(real[:2]))) != 2:
        raise ArgumentError(
            "probe frozen-generator: this discriminator decides about several examples at once (pack)",
            remedy="train with pack=1",
        )
    counts = -(-settings.steps // settings.every)
    found = looks(
        *(play, generator, discriminator, jnp.asarray(real), key),
        counts=counts,
        every=settings.every,
        batch=settings.batch,
        examples=examples,
        lr=settings.lr,
    )
    found = GradientLook(*(np.asarray(column, np.float64) for column in found))
    return _outcome(np.arange(counts + 1) * settings.every, found)


def _frozen(model: Any) -> tuple[FrozenGame, Tree, Tree]:
    """The game as functions of the parameters of its players, and these."""
    where = {part.name: part.where for part in model.parts()}
    owned = {name: eqx.partition(where[name](model), eqx.is_inexact_array) for name in where}

    def with_part(name: str, parameters: Tree) -> Any:
        return eqx.tree_at(where[name], model, eqx.combine(parameters, owned[name][1]))

    def generate(parameters: Tree, z: Array) -> Array:
        made: Array = with_part("generator", parameters).generate(z)
        return made

    def score(parameters: Tree, x: Array) -> Array:
        scores: Array = with_part("discriminator", parameters).judge(x)
        return scores

    return FrozenGame(generate, score, model.noise), owned["generator"][0], owned["discriminator"][0]


def _outcome(steps: np.ndarray, found: GradientLook) -> Outcome:
    said = np.isfinite(found.bound)
    holds = bool((found.saturating[said] <= found.bound[said] * (1 + 1e-3)).all())
    ratio = found.non_saturating[-1] / max(found.saturating[-1], _LEAST)
    findings = [
        f"After {steps[-1]:,} updates of the discriminator alone, D is {found.fake[-1]:.3g} on generated and "
        f"{found.real[-1]:.3g} on real examples (before: {found.fake[0]:.3g} and {found.real[0]:.3g}).",
        f"The saturating gradient went from {found.saturating[0]:.2g} to {found.saturating[-1]:.2g}, the "
        f"non-saturating one from {found.non_saturating[0]:.2g} to {found.non_saturating[-1]:.2g}, now {ratio:,.3g} "
        "times as large.",
        _of_bound(steps, found, said, holds),
    ]
    series = {
        "saturating, log(1 - D)": (steps, np.maximum(found.saturating, _LEAST)),
        "non-saturating, -log D": (steps, np.maximum(found.non_saturating, _LEAST)),
    }
    if said.any():
        series["bound on the saturating one"] = (steps[said], found.bound[said])
    picture = Lines(
        "frozen-generator",
        "Gradient of a generator that stands still",
        "updates of the discriminator alone",
        "norm of the gradient",
        series,
        log_y=True,
        caption="The bound begins where eps, the largest distance of D and of its slope from those of a perfect "
        "discriminator, is below 1.",
    )
    rows = np.unique(np.linspace(0, len(steps) - 1, 8).astype(int))
    columns = ["updates", "saturating", "non-saturating", "bound", "eps", "D of generated", "D of real"]
    table = Table(
        "frozen-generator-table",
        "On the way",
        columns,
        [[int(steps[i]), *(_cell(column[i]) for column in found)] for i in rows],
    )
    numbers = {
        "steps": steps.tolist(),
        "saturating": found.saturating.tolist(),
        "non_saturating": found.non_saturating.tolist(),
        "bound": [float(value) if np.isfinite(value) else None for value in found.bound],
        "eps": found.eps.tolist(),
        "bound_holds": holds,
    }
    return Outcome(findings, [picture], table, numbers)


def _cell(value: float) -> float | str:
    return float(f"{value:.4g}") if np.isfinite(value) else "none"


def _of_bound(steps: np.ndarray, found: GradientLook, said: np.ndarray, holds: bool) -> str:
    if not said.any():
        return (
            f"No bound applies: eps stays at {found.eps.min():.3g} or above, because a perfect discriminator would "
            "need generated and real examples that nowhere mix, and slopes of D below 1."
        )
    share = (found.saturating[said] / found.bound[said]).max()
    verdict = f"holds at each, {share:.2g} of it at most" if holds else "is exceeded"
    return (
        f"The bound on the saturating gradient says something at {said.sum()} of {len(steps)} measurements, first "
        f"after {steps[np.argmax(said)]:,} updates, and {verdict}."
    )


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, HasDiscriminator) and isinstance(model, HasParts) and not model.conditional


probe = Probe(
    "A trained generator's gradients, saturating and not, and their bound while its discriminator learns alone.",
    "a generator that was trained against a discriminator, without conditions, such as gan",
    _applies,
    examine,
    FrozenGeneratorSettings,
    toy={"steps": 4, "every": 2, "batch": 8, "n": 8},
)

__all__ = ["FrozenGeneratorSettings", "examine", "probe"]
