"""The noise of a generator: what lies along and between its vectors, and which examples it can make at all.

Inversion looks for the noise of an example by gradient descent. What a generator made itself it finds again, up to the
end of the descent; held-out examples leave a residual, and one much larger than that of training examples would mean
that those were learned by heart.
"""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Images, Lines, Picture, Scatter, Table
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Split
from chainrule.explain.methods.noise_inversion import Inverted, invert
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasGenerator, Model
from chainrule.probability.interpolation import between
from chainrule.train import Run

_WAY = 9
_FINE = 60
"""Vectors of a way that is drawn as a line."""
_AXES = 6
_REACH = 2.5
"""Deviations that a walk along one entry goes each way."""
_SHOWN = 8
_MOST, _LEAST = 64, 8
"""Examples of each kind whose noise is looked for, unless told."""
_ENTRIES = 2**14
"""Of the images among them, about."""
_STARTS = 16
_SMALL = 2**6
"""Entries of images from which a descent is dear."""


@final
class NoiseSpaceSettings(Settings):
    """How many examples are looked for, and for how long."""

    n: int | None = Field(
        None,
        ge=1,
        le=10_000,
        description="examples of each kind whose noise is looked for; none: 64, and of images fewer, 8 of large ones",
    )
    starts: int | None = Field(
        None,
        ge=1,
        le=64,
        description="draws of noise that the descent begins at; none: 16, and 4 for images larger than digits",
    )
    steps: int = Field(300, ge=1, le=100_000, description="steps of each descent")
    rate: float = Field(0.1, gt=0, le=10, description="first step of the descent")
    seed: int = Field(0, ge=0, description="of the starts, and of the noise that is shown")


def examine(run: Run, data: Data, settings: NoiseSpaceSettings) -> Outcome:
    """Walk through the noise, and look for that of held-out, training and generated examples."""
    model: Any = run.model  # a generator, see `_applies`
    key = random.key(settings.seed, "noise space")
    part, said = data.held_out()
    n, starts = noise_counts(settings, data.schema)
    sets = {"generated": None, "training": data.train, "held out": part}
    found = {
        name: _inverted(model, split, settings, (n, starts), random.named(key, name))
        for name, split in sets.items()
    }
    typical = float(np.asarray(data.train.batch(np.arange(min(1000, len(data.train)))).x, np.float64).std())
    rows: list[list[str | float | int]] = []
    for name, (_, inverted) in found.items():
        residual, ends = np.asarray(inverted.residual), np.asarray(inverted.of_starts)
        length = np.linalg.norm(np.asarray(inverted.noise), axis=1).mean()
        rows.append(
            [
                name,
                float(residual.mean()),
                float(np.quantile(residual, 0.9)),
                float(ends.mean()),
                float(length),
            ]
        )
    means = {str(row[0]): float(row[1]) for row in rows}
    findings = [
        f"Noise was found that makes held-out examples up to {means['held out']:.3g} (root mean squared difference; "
        f"the data vary by {typical:.3g}), training examples up to {means['training']:.3g}, and examples of the "
        f"generator's own up to {means['generated']:.3g}.",
        _by_heart(means),
    ]
    expected = float(np.linalg.norm(np.asarray(model.noise(key, 1000)), axis=1).mean())
    table = Table(
        "inversion",
        "How near a generator comes to examples",
        ["examples", "residual", "90th percentile", "of all starts", "length of the noise"],
        rows,
        caption=f"Root mean squared difference in units of the model, the best of {starts} starts. Noise as "
        f"it is drawn has a length of {expected:.3g}.",
    )
    pictures = [_residuals(found), *_walks(model, data.schema, key), *_pairs(data.schema, found)]
    return Outcome([*findings, *said], pictures, table, {"residual": means, "deviation of the data": typical})


def noise_counts(settings: NoiseSpaceSettings, schema: Schema) -> tuple[int, int]:
    """How many examples and starts: where the settings leave that open, as many as do not take long."""
    spatial = kinds.of(schema).spatial
    n = min(_MOST, max(_LEAST, _ENTRIES // schema.dimensions)) if spatial else _MOST
    starts = _STARTS // 4 if spatial and schema.dimensions > _SMALL else _STARTS
    return settings.n or n, settings.starts or starts


def _by_heart(means: dict[str, float]) -> str:
    ratio = means["held out"] / max(means["training"], 1e-12)
    what = (
        "the generator may have learned training examples by heart"
        if ratio > 1.5
        else "nothing says that training "
    )
    what += "" if ratio > 1.5 else "examples were learned by heart"
    return f"Held-out examples leave {ratio:.2f} times the residual of training examples: {what}."


def _inverted(
    model: Any, split: Split | None, settings: NoiseSpaceSettings, counts: tuple[int, int], key: jax.Array
) -> tuple[np.ndarray, Inverted]:
    """Examples of a split, or of the generator itself, and what was found for them."""
    n, many = counts
    if split is None:
        y = model.some_conditions(n)
        x = np.asarray(model.generate(model.noise(random.named(key, "own"), n), y))
    else:
        batch = split.batch(np.unique(np.linspace(0, len(split) - 1, n).astype(int)))
        x = np.asarray(batch.x, np.float32)
        y = np.asarray(batch.y) if model.conditional else None
    count = len(x)
    starts = model.noise(key, many * count).reshape(many, count, -1)
    repeated = None if y is None else np.tile(np.asarray(y), (many, *(1,) * (np.ndim(y) - 1)))

    def generate(z: jax.Array) -> jax.Array:
        given = None if repeated is None else repeated[: len(z)]
        made: jax.Array = model.generate(z, given)
        return made

    return x, invert(generate, jnp.asarray(x), starts, settings.steps, settings.rate)


def _residuals(found: dict[str, tuple[np.ndarray, Inverted]]) -> Lines:
    series = {}
    for name, (_, inverted) in found.items():
        residual = np.sort(np.asarray(inverted.residual, np.float64))
        series[name] = (residual, (np.arange(len(residual)) + 1) / len(residual))
    return Lines(
        "residuals",
        "How near the generator comes",
        "residual",
        "share of examples",
        series,
        caption="Distribution of the residuals: a curve further left is nearer.",
    )


def _walks(model: Any, schema: Schema, key: jax.Array) -> list[Picture]:
    """Along single entries, and on great circles between draws."""
    kind = kinds.of(schema)
    pixels = kind.shows_pixels(schema)
    if not pixels and not kind.is_plane(schema):
        return []
    long = _WAY if pixels else _FINE
    ends = model.noise(random.named(key, "ends"), 2 * _AXES)
    axes = np.arange(min(_AXES, ends.shape[1]))
    along = np.tile(np.asarray(ends[0]), (len(axes), long, 1))
    for row, axis in enumerate(axes):
        along[row, :, axis] = np.linspace(-_REACH, _REACH, long)
    circles = np.stack([np.asarray(between(ends[2 * i], ends[2 * i + 1], long)) for i in range(_AXES)])
    reach = f"From -{_REACH:g} to {_REACH:g}, others fixed."
    drawn = _shown_as_images if pixels else _shown_as_paths
    return [
        drawn("traversals", "Along single entries of the noise", reach, *_made(model, along)),
        drawn(
            "great-circles",
            "Between vectors of noise",
            "Great circles between two draws.",
            *_made(model, circles),
        ),
    ]


def _made(model: Any, ways: np.ndarray) -> tuple[np.ndarray, int]:
    """Examples of all vectors of several ways, each of one condition, and how long a way is."""
    count, long, size = ways.shape
    conditions = model.some_conditions(count, long)
    return np.asarray(model.generate(jnp.asarray(ways.reshape(-1, size)), conditions)), long


def _shown_as_images(name: str, title: str, caption: str, made: np.ndarray, long: int) -> Picture:
    images = np.clip(made, 0, 1)
    return Images(name, title, images, (), long, caption, smooth=images.shape[1] <= 32, aligned=True)


def _shown_as_paths(name: str, title: str, caption: str, made: np.ndarray, long: int) -> Picture:
    ways = made.reshape(-1, long, 2)
    return Scatter(
        name,
        title,
        "first coordinate",
        "second coordinate",
        {f"walk {i + 1}": way for i, way in enumerate(ways)},
        joined=True,
        caption=f"{caption} In units of the model; where points lie far apart, a short way in the noise is a long one "
        "for examples.",
    )


def _pairs(schema: Schema, found: dict[str, tuple[np.ndarray, Inverted]]) -> list[Picture]:
    if not kinds.of(schema).shows_pixels(schema):
        return []
    x, inverted = found["held out"]
    made = np.asarray(inverted.made)
    shown = np.concatenate([x[:_SHOWN], made[:_SHOWN]])
    count = min(_SHOWN, len(x))
    labels = ["held out", *[""] * (count - 1), "nearest the generator comes", *[""] * (count - 1)]
    return [
        Images(
            "inverted",
            "Held-out examples and what noise makes of them",
            np.clip(shown, 0, 1),
            labels,
            count,
            aligned=True,
        )
    ]


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasGenerator) and not kinds.of(schema).has_tokens


probe = Probe(
    "The noise of a generator: walks through it, and the noise of held-out examples by gradient descent.",
    "a generator that makes examples of noise, such as gan",
    _applies,
    examine,
    NoiseSpaceSettings,
    toy={"n": 8, "starts": 2, "steps": 3},
)

__all__ = ["NoiseSpaceSettings", "examine", "noise_counts", "probe"]
