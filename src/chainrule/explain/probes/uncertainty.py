"""A denoiser's uncertainty: the posterior standard deviation of each pixel at rising noise."""

from typing import Annotated, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Images, Lines
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.denoisers import is_image_diffusion
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasDenoiser, Model
from chainrule.train import Run

_MOST = 1024


@final
class UncertaintySettings(Settings):
    """The examples and the noise."""

    lams: tuple[Annotated[float, Field(ge=-30, le=30)], ...] = Field(
        (4.0, 2.0, 0.0, -2.0, -4.0), min_length=1, description="noise levels, as log signal-to-noise ratio"
    )
    example: int = Field(0, ge=0, description="which held-out example is shown")
    n: int = Field(16, ge=1, description="held-out examples for the curve")
    seed: int = Field(0, ge=0, description="noise")


def examine(run: Run, data: Data, settings: UncertaintySettings) -> Outcome:
    """Standard deviations from the derivative of the estimate, beside the error that is made."""
    model = run.model
    assert isinstance(model, HasDenoiser)
    part, said = data.held_out()
    chosen = np.unique(np.append(np.arange(min(settings.n, len(part))), min(settings.example, len(part) - 1)))
    index = int(np.searchsorted(chosen, min(settings.example, len(part) - 1)))
    x0 = model.to_network_units(jnp.asarray(part.batch(chosen).x, jnp.float32))
    noise = jax.random.normal(random.key(settings.seed, "probe"), x0.shape)
    rows: list[list[np.ndarray]] = [[], [], []]
    expected, made = [], []
    for lam in settings.lams:
        x = model.noised(x0, noise, lam)
        guess, variance = _unsure(model, x, jnp.asarray(lam, jnp.float32))
        std = jnp.sqrt(jnp.maximum(variance, 0)).reshape(x.shape)
        expected.append(float(jnp.sqrt(jnp.square(std).mean())))
        made.append(float(jnp.sqrt(jnp.square(guess - x0).mean())))
        for row, image in zip(rows, (model.to_model_units(x), model.to_model_units(guess), std), strict=True):
            row.append(np.clip(np.asarray(image[index]), 0, 1))
    lams = np.asarray(settings.lams)
    labels = [f"lam {lam:g}" for lam in lams] + [""] * 2 * len(lams)
    worst = int(np.argmax(expected))
    return Outcome(
        [
            f"At lam = {lams[worst]:g} the network expects to be off by {expected[worst]:.3f} a pixel, and is off by "
            f"{made[worst]:.3f} (pixels run from -1 to 1).",
            *said,
        ],
        [
            Images(
                "uncertainty",
                "What is seen, what it is taken for, and how surely",
                np.stack([image for row in rows for image in row]),
                labels,
                len(lams),
                "Below: the standard deviation of each pixel given what is seen, bright where anything goes.",
            ),
            Lines(
                "uncertainty-error",
                "Expected and actual error",
                "lam = log signal-to-noise ratio",
                "root mean square of a pixel",
                {"expected": (lams, np.asarray(expected)), "made": (lams, np.asarray(made))},
            ),
        ],
        None,
        {"lam": lams.tolist(), "expected": expected, "made": made},
    )


@eqx.filter_jit
def _unsure(model: HasDenoiser, x: jax.Array, lam: jax.Array) -> tuple[jax.Array, jax.Array]:
    covariance = model.posterior_covariance(x, lam)
    return model.denoised(x, lam), jnp.diagonal(covariance, axis1=1, axis2=2)


def _applies(model: Model, schema: Schema) -> bool:
    return is_image_diffusion(model, schema) and schema.dimensions <= _MOST


probe = Probe(
    "Pixels a denoiser is unsure of, from the derivative of its estimate.",
    f"a diffusion model of images with at most {_MOST:,} entries",
    _applies,
    examine,
    UncertaintySettings,
    toy={"n": 1, "lams": (0.0,)},
)

__all__ = ["UncertaintySettings", "examine", "probe"]
