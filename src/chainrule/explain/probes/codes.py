"""The noise behind an example: encoded, decoded again, and the way between two codes."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Images, Lines, Picture
from chainrule.data.dataset import Data
from chainrule.explain.base import Outcome, Probe, Settings
from chainrule.explain.methods.generated import is_diffusion
from chainrule.models.diffusion import samplers, schedules
from chainrule.models.diffusion.generative import Generative
from chainrule.models.diffusion.inversion import between, decode, encode
from chainrule.models.diffusion.process import Level
from chainrule.train import Run

_SHOWN = 8
_WAY = 9


@final
class CodesSettings(Settings):
    """The walks up and down."""

    steps: tuple[int, ...] = Field((10, 20, 40, 80), description="steps of the walks")
    n: int = Field(32, ge=2, description="held-out examples")


def look(run: Run, data: Data, settings: CodesSettings) -> Outcome:
    """Encode held-out examples by DDIM walked upwards, decode them, and decode what lies between two."""
    model = run.model
    assert isinstance(model, Generative)
    part = data.test if len(data.test) else data.val
    batch = part.batch(np.arange(min(settings.n, len(part))))
    x = model.inside(jnp.asarray(batch.x, jnp.float32))
    condition = jnp.asarray(batch.y) if model.denoiser.classes else None
    errors, codes, back = [], x, x
    for steps in settings.steps:
        levels = schedules.grid(model.schedule, steps, "uniform-lam", clean=False)
        codes = encode(model.denoiser, x, levels, samplers.DDIM(), condition)
        back = decode(model.denoiser, codes, levels, samplers.DDIM(), condition)
        apart = np.asarray(back - x).reshape(len(x), -1)
        errors.append(float(np.linalg.norm(apart, axis=1).mean()))
    size = float(np.linalg.norm(np.asarray(x).reshape(len(x), -1), axis=1).mean())
    counts = np.asarray(settings.steps)
    pictures: list[Picture] = [
        Lines(
            "round-trip",
            "Up to the code and down again",
            "steps",
            "mean distance from the example",
            {"held-out examples": (counts, np.asarray(errors))},
            log_x=True,
            log_y=True,
            caption=f"Examples themselves have length {size:.3g}.",
        )
    ]
    if run.schema.kind == "image" and run.schema.shape[-1] in (1, 3):
        rows = jnp.concatenate([x[:_SHOWN], _quiet(model, codes[:_SHOWN], levels), back[:_SHOWN]])
        pictures.append(Images("codes", "Examples, their codes, and back", _pixels(model, rows), (), _SHOWN))
        pictures.append(
            _way(model, x, np.asarray(batch.y) if condition is not None else np.arange(len(x)), levels)
        )
    return Outcome(
        [
            f"In {counts[-1]} steps an example comes back {errors[-1]:.3g} away ({100 * errors[-1] / size:.1f} % of "
            f"its length), in {counts[0]} steps {errors[0]:.3g}.",
        ],
        pictures,
        None,
        {"steps": counts.tolist(), "error": errors, "length": size},
    )


def _quiet(model: Generative, codes: jax.Array, levels: Level) -> jax.Array:
    """Codes as dim as pictures: three standard deviations from black to white."""
    return codes / (3 * jnp.asarray(model.schedule.process.prior_std(levels.at(0)), codes.dtype))


def _pixels(model: Generative, x: jax.Array) -> np.ndarray:
    return np.clip(np.asarray(model.outside(x)), 0, 1)


def _way(model: Generative, x: jax.Array, kinds: np.ndarray, levels: Level) -> Picture:
    """What lies between the codes of two examples, of different classes where there are classes."""
    other = int(np.argmax(kinds != kinds[0]))
    ends = encode(model.denoiser, x[np.array([0, other])], levels, samplers.DDIM())
    strip = decode(model.denoiser, between(ends[0], ends[1], _WAY), levels, samplers.DDIM())
    return Images(
        "interpolation",
        "Between two codes",
        _pixels(model, strip),
        (),
        _WAY,
        "Codes on the great circle between those of two held-out examples, decoded without a class.",
    )


probe = Probe(
    "Codes of examples: the error of the round trip, and what lies between two codes.",
    "a diffusion model",
    is_diffusion,
    look,
    CodesSettings,
)

__all__ = ["CodesSettings", "look", "probe"]
