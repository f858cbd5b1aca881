"""Pictures of a trained diffusion model: noise becoming data, the error at each noise level, the bound."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.pictures import Bars, Images, Lines, Picture, Scatter
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.models.diffusion import samplers
from chainrule.models.diffusion.process import noised
from chainrule.networks.pictures import denoising

if TYPE_CHECKING:
    from chainrule.models.diffusion.generative import Generative

_FRAMES = 10
_STEPS = 50
_SHOWN = 10
_MOST = 256
"""Held-out examples looked at."""


def all_of(model: "Generative", data: Data, key: Key) -> Sequence[Picture]:
    """Every picture that suits the data."""
    part, whose = (data.val, "validation") if len(data.val) else (data.train, "training")
    x = jnp.asarray(part.batch(np.arange(min(_MOST, len(part)))).x)
    whose = f"{len(x)} {whose} examples"
    found: list[Picture] = [error_by_level(model, x, key, whose)]
    if kinds.of(model.schema).shows_pixels(model.schema):
        shown = part.batch(np.arange(min(_SHOWN, len(part)))).y if model.needs_condition else None
        walked = model.trajectory(key, _SHOWN if shown is None else len(shown), condition=shown, steps=_STEPS)
        noisy, estimates = _pixels(model, walked.noisy), _pixels(model, walked.estimates)
        moving = [f(noisy, estimates, walked.lams) for f in (denoising.strip, denoising.film)]
        found = [*moving, forward_strip(model, x, key), *found]
    # A model whose noise was chosen by the data has a flow and no score, and no sampler that adds noise.
    if kinds.of(model.schema).is_plane(model.schema) and not all(model.samplers().values()):
        found = [score_field(model, np.asarray(x), key), *found]
    if model.schema.levels:
        found.append(bound_terms(model, x, key, whose))
    return found


def forward_strip(model: "Generative", x: Array, key: Key) -> Picture:
    """One example with more and more noise."""
    level = model.schedule.level(jnp.linspace(model.schedule.first, 1.0, _FRAMES))
    x0 = jnp.repeat(model.to_network_units(x[:1]), _FRAMES, axis=0)
    eps = jnp.repeat(jax.random.normal(key, x0[:1].shape), _FRAMES, axis=0)
    labels = [f"lam {float(lam):.1f}" for lam in level.lam]
    return Images("noising", "From data to noise", _pixels(model, noised(x0, eps, level)), labels, _FRAMES)


def _pixels(model: "Generative", x: Array) -> np.ndarray:
    return np.clip(np.asarray(model.to_model_units(x)), 0, 1)


@eqx.filter_jit
def _errors(model: "Generative", x: Array, lams: Array, key: Key) -> Array:
    x0 = model.to_network_units(x)

    def one(pair: tuple[Array, Array]) -> Array:
        lam, index = pair
        level = model.schedule.process.level(lam)
        eps = jax.random.normal(jax.random.fold_in(key, index), x0.shape, x0.dtype)
        said = model.denoiser.value("eps", noised(x0, eps, level), level)
        return jnp.square(said - eps).reshape(len(x0), -1).mean(axis=1)

    return jax.lax.map(one, (lams, jnp.arange(len(lams))))


def error_by_level(model: "Generative", x: Array, key: Key, whose: str) -> Picture:
    """Mean squared error of the estimated noise over lam, with twice its standard error."""
    lams = np.linspace(*model.schedule.ends(), 25)
    errors = np.asarray(_errors(model, x, jnp.asarray(lams, x.dtype), key))
    mean = errors.mean(axis=1)
    half = 2 * errors.std(axis=1) / math.sqrt(errors.shape[1])
    return Lines(
        "error-by-level",
        "Error at each noise level",
        "lam = log signal-to-noise ratio",
        "mean squared error of the noise",
        {whose: (lams, mean, mean - half, mean + half)},
        caption="lam says how much of the data is left: at 0 data and noise are equally strong; every 2.3 more make "
        "the noise ten times weaker in power, every 2.3 less ten times stronger. On the right noise is too fine to be "
        f"told, on the left there is nothing else. Mean over {whose}, with twice its standard error.",
    )


def bound_terms(model: "Generative", x: Array, key: Key, whose: str) -> Picture:
    """The three parts of the bound."""
    terms = eqx.filter_jit(lambda model, x, key: model.terms(x, key))(model, x, key)
    bits = [np.asarray(term) / (model.schema.dimensions * math.log(2)) for term in terms]
    errors = [float(each.std() / math.sqrt(len(each))) for each in bits]
    names = [f"{name} ± {error:.2g}" for name, error in zip(terms._fields, errors, strict=True)]
    total = sum(float(each.mean()) for each in bits)
    return Bars(
        "bound",
        "Where the bits go",
        "part of the bound",
        "bits per dimension",
        names,
        {whose: np.array([each.mean() for each in bits])},
        f"Their sum, {total:.3f}, bounds the code length from above (discrete levels, no class given).",
    )


def score_field(model: "Generative", x: np.ndarray, key: Key) -> Picture:
    """Where the score points at a little noise, over the data, and the way of some samples."""
    low, high = x.min(axis=0), x.max(axis=0)
    margin = 0.15 * (high - low)
    axes = [np.linspace(*ends, 18) for ends in zip(low - margin, high + margin, strict=True)]
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    level = model.schedule.process.level(jnp.asarray(4.0))
    score = np.asarray(model.denoiser.value("score", jnp.asarray(points, jnp.float32) * level.a, level))
    length = np.linalg.norm(score, axis=1, keepdims=True)
    step = 0.8 * (axes[0][1] - axes[0][0])
    return Scatter(
        "score",
        "Score of slightly noised data",
        "first coordinate",
        "second coordinate",
        {"data": x, "ways of samples": _ways(model, key)},
        arrows=(points, step * score / np.maximum(length, 1e-9)),
        caption="Direction in which the density of the data grows, noise at lam = 4; and six samples on the last half "
        "of their way.",
    )


def _ways(model: "Generative", key: Key) -> np.ndarray:
    """Points on the ways of a few samples, beside unit signal, once they are near the data."""
    levels = model.levels(_STEPS)
    std = jnp.asarray(model.schedule.process.prior_std(levels.at(0)), jnp.float32)
    start = std * jax.random.normal(key, (6, *model.schema.shape))
    drawn = samplers.walk(model.denoiser, start, levels, samplers.DDIM(), key, trajectory=True)
    assert drawn.path is not None
    near = slice(_STEPS // 2, None)
    beside = np.asarray(drawn.path)[near] / np.asarray(levels.a)[1:][near, None, None]
    return beside.reshape(-1, 2)


__all__ = ["all_of", "bound_terms", "error_by_level", "forward_strip", "score_field"]
