"""One round of the adversarial game in slow motion, in the plane: the discriminator learns, then the generator follows.

Colour is the probability that the discriminator gives to "real"; an arrow on a generated point is where the generator's
gradient would move it. First only the colours change, then only the points.
"""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Scatter, Table
from chainrule.core.types import Array, Float, Key
from chainrule.explain.methods.adversarial_pair import (
    AdversarialPair,
    discriminator_loss,
    generator_loss,
    play,
    scores,
)
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings

_GRID = 60
_ARROWS = 60
_JUDGED = 1000
"""Points by which losses are measured."""


@final
class AdversarialStepSettings(Settings):
    """The data, when to look, and how slowly."""

    modes: int = Field(8, ge=1, le=100, description="Gaussians on a circle of radius 2")
    deviation: float = Field(0.1, gt=0, le=2, description="of each")
    before: int = Field(400, ge=0, le=1_000_000, description="rounds played before one looks")
    discriminator_updates: int = Field(
        20,
        ge=1,
        le=100_000,
        description="of the discriminator in slow motion: one alone would hardly be seen",
    )
    generator_updates: int = Field(5, ge=1, le=100_000, description="of the generator in slow motion")
    lr: float = Field(1e-3, gt=0, le=1, description="learning rate of both")
    width: int = Field(64, ge=1, le=4096, description="hidden units of both networks, two layers of them")
    batch: int = Field(128, ge=2, le=100_000, description="points of each kind in an update")
    saturating: bool = Field(False, description="whether the generator descends log(1 - D) instead of -log D")
    points: int = Field(300, ge=10, le=5000, description="points drawn of each kind")
    seed: int = Field(0, ge=0, description="weights and draws")


def run(settings: AdversarialStepSettings, listener: Listener) -> Outcome:
    """Play some rounds, then look three times: before, after the discriminator's updates, after the generator's."""
    centres = _centres(settings.modes)

    def draw(key: Key, n: int) -> Array:
        which, around = jax.random.split(key)
        chosen = jnp.asarray(centres)[jax.random.randint(which, (n,), 0, settings.modes)]
        return chosen + settings.deviation * jax.random.normal(around, (n, 2))

    options: dict[str, Any] = {"batch": settings.batch, "lr": settings.lr, "saturating": settings.saturating}
    pair = AdversarialPair.start(
        2, 2, width=settings.width, depth=2, key=random.key(settings.seed, "players")
    )
    keys = jax.random.split(random.key(settings.seed, "rounds"), 4)
    listener(f"{settings.before:,} rounds before one looks")
    pair = play(pair, draw, keys[0], settings.before, **options)
    real = draw(keys[3], _JUDGED)
    moments = {"before": pair}
    pair = play(
        *(pair, draw, keys[1], 1),
        discriminator_updates=settings.discriminator_updates,
        generator_updates=0,
        **options,
    )
    moments["the discriminator has learned"] = pair
    pair = play(
        *(pair, draw, keys[2], 1),
        discriminator_updates=0,
        generator_updates=settings.generator_updates,
        **options,
    )
    moments["the generator has followed"] = pair
    found = {name: _look(settings, one, real) for name, one in moments.items()}
    return _outcome(settings, found, np.asarray(real))


def _centres(modes: int) -> Float[np.ndarray, "modes 2"]:
    angles = 2 * np.pi * np.arange(modes) / modes
    return (2 * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(np.float32)


@eqx.filter_jit
def _looked(pair: AdversarialPair, real: Array, grid: Array, key: Key, saturating: bool) -> tuple[Array, ...]:
    fake = pair.generate(key, _JUDGED)

    def loss_of_points(x: Array) -> Array:
        return generator_loss(pair.discriminator, x, saturating) * len(x)

    return (
        fake,
        -jax.grad(loss_of_points)(fake),
        jax.nn.sigmoid(scores(pair.discriminator, grid)),
        jax.nn.sigmoid(scores(pair.discriminator, fake)).mean(),
        jax.nn.sigmoid(scores(pair.discriminator, real)).mean(),
        discriminator_loss(pair.discriminator, real, fake),
        generator_loss(pair.discriminator, fake, saturating),
    )


def _look(settings: AdversarialStepSettings, pair: AdversarialPair, real: Array) -> dict[str, Any]:
    side = np.linspace(-3.5, 3.5, _GRID, dtype=np.float32)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    key = random.key(settings.seed, "looks")  # the same noise each time: every point can be followed
    parts = _looked(pair, real, jnp.asarray(grid), key, settings.saturating)
    fake, arrows, field, on_fake, on_real, loss, of_generator = map(np.asarray, parts)
    return {
        "fake": fake,
        "arrows": arrows,
        "field": field.reshape(_GRID, _GRID),
        "on_fake": float(on_fake),
        "on_real": float(on_real),
        "discriminator_loss": float(loss),
        "generator_loss": float(of_generator),
    }


_SHOWN = {
    "discriminator_loss": "loss of D",
    "generator_loss": "loss of G",
    "on_real": "mean D of data",
    "on_fake": "mean D of generated",
}


def _outcome(
    settings: AdversarialStepSettings, found: dict[str, dict[str, Any]], real: np.ndarray
) -> Outcome:
    first, judged, last = found.values()
    moved = last["fake"] - judged["fake"]
    lengths = np.linalg.norm(moved, axis=1) * np.linalg.norm(judged["arrows"], axis=1)
    along = (moved * judged["arrows"]).sum(axis=1)
    cosine = float(np.mean(along[lengths > 0] / lengths[lengths > 0])) if (lengths > 0).any() else 0.0
    nearest = np.linalg.norm(last["fake"][:, None] - _centres(settings.modes)[None], axis=-1)
    visited = len(np.unique(nearest.argmin(axis=1)[nearest.min(axis=1) < 3 * settings.deviation]))
    # Arrows to scale in all three, the longest tenth of them about half a unit long.
    scale = 0.5 / max(float(np.quantile(np.linalg.norm(judged["arrows"], axis=1), 0.9)), 1e-9)
    return Outcome(
        [
            f"{settings.discriminator_updates} updates of the discriminator lower its loss from "
            f"{first['discriminator_loss']:.3f} to {judged['discriminator_loss']:.3f} and raise the generator's from "
            f"{first['generator_loss']:.3f} to {judged['generator_loss']:.3f}; no point has moved.",
            f"{settings.generator_updates} updates of the generator bring its loss to {last['generator_loss']:.3f}: "
            f"its points move {np.linalg.norm(moved, axis=1).mean():.2f} on average, and the cosine between a point's "
            f"way and its arrow is {cosine:.2f} on average, not 1, because one network moves them all together.",
            f"{visited} of {settings.modes} modes have a generated point within three deviations.",
        ],
        [
            _picture(settings, number, name, one, real, scale)
            for number, (name, one) in enumerate(found.items(), start=1)
        ],
        Table(
            "adversarial-step",
            "A round in slow motion",
            ["", *_SHOWN.values()],
            [[name, *(round(one[key], 4) for key in _SHOWN)] for name, one in found.items()],
            caption=f"Over {_JUDGED:,} points of each kind.",
        ),
        {
            **{name: {key: one[key] for key in _SHOWN} for name, one in found.items()},
            "cosine": cosine,
            "modes_visited": visited,
        },
    )


def _picture(
    settings: AdversarialStepSettings,
    number: int,
    name: str,
    one: dict[str, Any],
    real: np.ndarray,
    scale: float,
) -> Scatter:
    shown = one["fake"][: settings.points]
    starts = shown[:_ARROWS]
    steps = scale * one["arrows"][: len(starts)]
    return Scatter(
        f"adversarial-step-{number}",
        f"{number}. {name[0].upper()}{name[1:]}",
        "first coordinate",
        "second coordinate",
        {"data": real[: settings.points], "generated": shown},
        field=one["field"],
        extent=(-3.5, 3.5, -3.5, 3.5),
        contours=((0.5, "1/2"),),
        arrows=(starts, steps),
        caption=f"Colour: D(x), the darker the surer of data. Arrows: down the generator's loss, for {len(starts)} "
        "points, to one scale. The noise is the same in all three, so that every point can be followed.",
    )


experiment = Experiment(
    "A round of the adversarial game in slow motion: scores as colours, gradients as arrows on generated points.",
    AdversarialStepSettings,
    run,
    toy={"before": 3, "width": 4, "batch": 16, "points": 20},
    reference="Goodfellow et al., Generative adversarial nets, NeurIPS 2014",
)

__all__ = ["AdversarialStepSettings", "experiment", "run"]
