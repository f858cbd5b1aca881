"""Three auto-encoders side by side: D(E(x)), D(E(x) + noise) and D(E(x + noise)), and what each of them learns."""

import dataclasses
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
from chainrule.core.pictures import Picture, Scatter, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.explain.methods.training import train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.latent.denoising_field import DenoisingField, denoising_field, exact_denoiser
from chainrule.models.protocol import CanSample, HasBound

_STRUCTURES: dict[str, tuple[str, str]] = {
    "D(E(x))": ("autoencoder", "none"),
    "D(E(x) + noise)": ("denoising-autoencoder", "code"),
    "D(E(x + noise))": ("denoising-autoencoder", "data"),
}
_JUDGED = 1000
"""Held-out points by which they are judged, and points that are drawn."""
_CIRCLE = 2000
"""Points on the circle in many dimensions."""
_CIRCLE_NOISE = 0.1


@final
class AutoEncodersSettings(Settings):
    """The data and the three models."""

    data: str = Field("moons", description="points in the plane, by the name of a data set or a path")
    sigma: float = Field(0.3, gt=0, description="standard deviation of the noise, on data or code")
    code: int = Field(2, ge=1, description="entries of the code; as many as the data have leave room to copy")
    width: int = Field(128, ge=1, description="units of each hidden layer")
    depth: int = Field(2, ge=1, le=10, description="hidden layers of the encoder and of the decoder")
    steps: int = Field(3000, ge=1, description="training steps of each")
    dimensions: int = Field(50, ge=2, le=10_000, description="of the space that a circle of radius one is in")
    seed: int = Field(0, ge=0, description="initial weights, batches and noise")


class _Judged(NamedTuple):
    """What one of them does to held-out points."""

    clean: float
    """Squared error of an entry that is rebuilt as it is."""
    denoised: float
    """Squared error of an entry that is rebuilt from a noisy example."""
    bound: float | None
    """Of the likelihood, in nats of an example; `None` without one."""
    field: DenoisingField
    drawn: np.ndarray | None
    """New points; `None` where there is nothing to draw from."""


def run(settings: AutoEncodersSettings, listener: Listener) -> Outcome:
    """Train the three on the same points, and ask each to rebuild, to denoise and to draw."""
    data = sources.load(settings.data)
    if not kinds.of(data.schema).is_plane(data.schema):
        raise ArgumentError(
            f"auto-encoders(data={settings.data!r}): these are no points in the plane",
            remedy="use data=moons, or another set of points: chainrule data ls",
        )
    found = {}
    for name, (model, noise) in _STRUCTURES.items():
        found[name] = _judged(settings, data, _trained(settings, data, model, noise))
        listener(f"{name}: squared error {found[name].clean:.4f}, of noisy points {found[name].denoised:.4f}")
    x, y = _noisy(settings, data)
    points = jnp.asarray(data.train.batch(np.arange(len(data.train))).x, jnp.float32)
    best = exact_denoiser(points, settings.sigma)
    clean, least = (float(jnp.square(best(seen) - x).mean()) for seen in (x, y))
    circle = circle_noise(settings.dimensions, settings.seed)
    numbers: dict[str, Any] = {
        name: {
            "error": one.clean,
            "denoising_error": one.denoised,
            "bound": one.bound,
            "cosine": one.field.cosine,
            "field_error": one.field.error,
        }
        for name, one in found.items()
    }
    numbers |= {"do_nothing": float(jnp.square(y - x).mean()), "exact": least, "exact_clean": clean}
    numbers["circle"] = circle
    return Outcome(
        _findings(settings, found, numbers), _pictures(found, data), _table(found, numbers), numbers
    )


def _trained(settings: AutoEncodersSettings, data: Data, name: str, noise: str) -> Any:
    sizes: dict[str, Any] = {"width": settings.width, "depth": settings.depth}
    if noise == "none":
        sizes |= {"latent": settings.code, "activation": "silu"}
    else:
        sizes |= {"code": settings.code, "noise": noise, "sigma": settings.sigma}
    model = models.build(name, data.schema, seed=settings.seed, **sizes)
    rise = {"name": "cosine", "warmup": min(100, settings.steps // 10)}
    training = {
        **models.entry("denoising-autoencoder").training,
        "schedule": rise,
        "seed": settings.seed,
    }
    return train(model, data, steps=settings.steps, every=settings.steps, **training).model


def _noisy(settings: AutoEncodersSettings, data: Data) -> tuple[jax.Array, jax.Array]:
    """Held-out points, and the same with noise."""
    part, _ = data.held_out()
    x = jnp.asarray(part.batch(np.arange(min(_JUDGED, len(part)))).x, jnp.float32)
    noise = jax.random.normal(random.key(settings.seed, "probe"), x.shape)
    return x, x + settings.sigma * noise


def _judged(settings: AutoEncodersSettings, data: Data, model: Any) -> _Judged:
    key = random.key(settings.seed, "sample")
    rebuild = eqx.filter_jit(lambda y: model.decode(model.encode(y)))
    x, y = _noisy(settings, data)
    bound = drawn = None
    if isinstance(model, HasBound):
        bound = float(eqx.filter_jit(model.elbo)(x, key).mean())
    if isinstance(model, CanSample):
        drawn = np.asarray(model.sample(key, min(_JUDGED, 500)))
    return _Judged(
        clean=float(jnp.square(rebuild(x) - x).mean()),
        denoised=float(jnp.square(rebuild(y) - x).mean()),
        bound=bound,
        field=denoising_field(rebuild, data, settings.sigma, key),
        drawn=drawn,
    )


def circle_noise(dimensions: int, seed: int) -> dict[str, float]:
    """Noise around a circle in many dimensions: how much of it points off the circle, and what denoising leaves of it.

    One direction of all is along the circle, so that the share off it is 1 - 1/dimensions.
    """
    draw = np.random.default_rng(seed)
    angle = draw.uniform(0, 2 * np.pi, _CIRCLE)
    x, along = np.zeros((2, _CIRCLE, dimensions))
    x[:, 0], x[:, 1] = np.cos(angle), np.sin(angle)
    along[:, 0], along[:, 1] = -x[:, 1], x[:, 0]
    noise = _CIRCLE_NOISE * draw.normal(size=x.shape)
    even = 2 * np.pi * np.arange(_CIRCLE) / _CIRCLE
    circle = np.zeros((_CIRCLE, dimensions))
    circle[:, 0], circle[:, 1] = np.cos(even), np.sin(even)
    best = exact_denoiser(jnp.asarray(circle, jnp.float32), _CIRCLE_NOISE)
    left = np.asarray(best(jnp.asarray(x + noise, jnp.float32)), np.float64) - x

    def parts(step: np.ndarray) -> tuple[float, float]:
        tangent = np.square((step * along).sum(axis=1)).sum()
        return float(tangent), float(np.square(step).sum() - tangent)

    (tangent, off), (kept, rest) = parts(noise), parts(left)
    return {"off_share": off / (off + tangent), "off_left": rest / off, "along_left": kept / tangent}


def _findings(
    settings: AutoEncodersSettings, found: dict[str, _Judged], numbers: dict[str, Any]
) -> list[str]:
    plain, coded, denoiser = found.values()
    circle = numbers["circle"]
    return [
        f"Noisy held-out points are off by {numbers['do_nothing']:.4f} an entry (squared). D(E(x)) makes "
        f"{plain.denoised:.4f} of it, D(E(x) + noise) {coded.denoised:.4f}, D(E(x + noise)) {denoiser.denoised:.4f}; "
        f"the exact mean given the training points leaves {numbers['exact']:.4f}.",
        f"D(E(x)) with a code of {settings.code} rebuilds points of 2 entries up to {plain.clean:.2g} and tells "
        "nothing about where they lie; it has no bound and nothing to draw from.",
        f"The arrows of D(E(x + noise)) have a cosine of {denoiser.field.cosine:.3f} with sigma² times the exact "
        f"score of the smoothed data and differ by {denoiser.field.error:.0%}; the cosine of those of D(E(x)) is "
        f"{plain.field.cosine:.3f}.",
        f"Bounds of the log-likelihood: {coded.bound:.2f} nats with noise on the code, {denoiser.bound:.2f} with "
        "noise on the data, where the noise is a fixed encoder and only rebuilding is learnt.",
        f"Around a circle in {settings.dimensions} dimensions {circle['off_share']:.1%} of the squared noise point "
        f"off it (1 - 1/{settings.dimensions} = {1 - 1 / settings.dimensions:.1%}). The best denoiser leaves "
        f"{circle['off_left']:.2%} of that, and {circle['along_left']:.0%} of what points along the circle.",
    ]


def _pictures(found: dict[str, _Judged], data: Data) -> list[Picture]:
    slugs = ("copy", "code-noise", "data-noise")
    shown: list[Picture] = [
        dataclasses.replace(one.field.learned, name=f"field-{slug}", title=f"Where {name} moves points")
        for slug, (name, one) in zip(slugs, found.items(), strict=True)
    ]
    shown.append(next(iter(found.values())).field.exact)
    part, _ = data.held_out()
    groups = {"held out": np.asarray(part.batch(np.arange(min(500, len(part)))).x)}
    groups |= {name: one.drawn for name, one in found.items() if one.drawn is not None}
    shown.append(
        Scatter(
            "drawn",
            "What can be drawn",
            "first coordinate",
            "second coordinate",
            groups,
            caption="With noise on the code: codes of a standard normal distribution, decoded. With noise on the data: "
            "Langevin moves along the learnt score, and a last denoising.",
        )
    )
    return shown


def _table(found: dict[str, _Judged], numbers: dict[str, Any]) -> Table:
    rows: list[list[str | float]] = [
        [
            name,
            one.clean,
            one.denoised,
            one.field.cosine,
            one.field.error,
            "none" if one.bound is None else f"{one.bound:.2f}",
        ]
        for name, one in found.items()
    ]
    rows.append(["exact score", numbers["exact_clean"], numbers["exact"], 1.0, 0.0, "none"])
    return Table(
        "auto-encoders",
        "Held-out points",
        [
            "structure",
            "error",
            "error of noisy points",
            "cosine with the score",
            "difference",
            "bound (nats)",
        ],
        rows,
        caption=f"Errors are squares of an entry; doing nothing about the noise costs {numbers['do_nothing']:.4f}.",
    )


experiment = Experiment(
    "Auto-encoders without noise, with noise on the code and with noise on the data: what each learns.",
    AutoEncodersSettings,
    run,
    toy={"steps": 5, "width": 8, "depth": 1, "dimensions": 5},
    reference="Alain and Bengio, What regularized auto-encoders learn from the data-generating distribution, JMLR 2014",
)

__all__ = ["AutoEncodersSettings", "circle_noise", "experiment", "run"]
