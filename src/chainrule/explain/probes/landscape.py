"""The loss on a plane through the trained weights: a bowl, a valley or a maze."""

from typing import final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Heatmap, Lines
from chainrule.data.base import Data, Schema
from chainrule.explain.base import Outcome, Probe, Settings
from chainrule.explain.landscape import Surface, curvature, objective, surface
from chainrule.models.base import HasParts, Model
from chainrule.train import Run


@final
class LandscapeSettings(Settings):
    """How much of the plane is looked at, and on what."""

    points: int = Field(25, ge=3, description="points of the grid, each way")
    reach: float = Field(1.0, gt=0, description="how far from the weights, in multiples of their own size")
    examples: int = Field(256, ge=1, description="training examples the loss is averaged over")
    seed: int = Field(0, description="which two directions")


def look(run: Run, data: Data, settings: LandscapeSettings) -> Outcome:
    """The loss on a grid, cuts through it, and the extreme curvatures at its centre."""
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(min(settings.examples, len(data.train)))))
    loss = objective(batch, random.key(0, "probe"))
    key = random.key(settings.seed, "landscape")
    found = surface(loss, run.model, key, points=settings.points, reach=settings.reach)
    low, high = curvature(loss, run.model, key)
    about = (
        f"Mean loss of {len(batch.x)} training examples at step {run.step:,}, running statistics as trained, two "
        "random directions rescaled filter by filter."
    )
    centre = found.losses[settings.points // 2, settings.points // 2]
    return Outcome(
        [
            f"The loss is {centre:.4g} at the weights and between {found.losses.min():.4g} and "
            f"{found.losses.max():.4g} on the plane.",
            f"Curvature at the weights lies between {low:.3g} and {high:.3g}: the most negative is "
            f"{abs(min(low, 0.0)) / max(abs(high), 1e-12):.1%} of the largest.",
        ],
        [*pictures("landscape", "Loss around the weights", found, about)],
        None,
        {"losses": found.losses.tolist(), "steps": found.steps.tolist(), "lowest": low, "highest": high},
    )


def pictures(name: str, title: str, found: Surface, caption: str) -> list[Heatmap | Lines]:
    """A map of log loss and two cuts through the centre."""
    every = max(1, (len(found.steps) - 1) // 6)
    ticks = [f"{round(float(s), 3):g}" if i % every == 0 else "" for i, s in enumerate(found.steps)]
    middle = len(found.steps) // 2
    cuts = {
        "first direction": (found.steps, found.losses[:, middle]),
        "second direction": (found.steps, found.losses[middle]),
    }
    return [
        Heatmap(
            *(name, title, "second direction", "first direction", np.log10(np.maximum(found.losses, 1e-12))),
            rows=ticks,
            columns=ticks,
            caption=f"Logarithm (base 10) of the loss. {caption}",
        ),
        Lines(
            *(f"{name}-cuts", f"{title}: cuts through the centre", "step", "loss", cuts),
            log_y=True,
            caption=caption,
        ),
    ]


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return not isinstance(model, HasParts)


probe = Probe(
    "The loss on a plane through the trained weights, directions rescaled filter by filter.",
    "a model with a single loss",
    _applies,
    look,
    LandscapeSettings,
)

__all__ = ["LandscapeSettings", "look", "pictures", "probe"]
