"""Equivariance of features and invariance of predictions under shifts of the input."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.feature_maps import feature_maps
from chainrule.explain.methods.symmetry import equivariance, invariance
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import CanPredict, Model
from chainrule.train import Run


@final
class SymmetrySettings(Settings):
    """How far images are shifted."""

    most: int = Field(4, ge=1, description="shifts to the right, from 1 to this many pixels")
    examples: int = Field(128, ge=1, description="test images")


def examine(run: Run, data: Data, settings: SymmetrySettings) -> Outcome:
    """Relative change of every feature map against its shifted self, and of the prediction against itself."""
    model: Any = run.model  # predicts, see `_applies`
    part, said = data.held_out()
    x = jnp.asarray(part.batch(np.arange(min(settings.examples, len(part)))).x)
    shifts = np.arange(1, settings.most + 1)
    maps = eqx.filter_jit(lambda x: feature_maps(model.predict, x))
    curves = {}
    found = maps(x)
    for layer in sorted({0, len(found) - 1}):
        known = shifts[shifts * found[layer].shape[2] % x.shape[2] == 0]  # the others have no counterpart
        if len(known):
            change = equivariance(_entry(maps, layer), x, [(0, int(s)) for s in known])
            curves[f"layer {layer}"] = (known.astype(np.float64), change)
    change = invariance(eqx.filter_jit(model.predict), x, [(0, int(s)) for s in shifts])
    curves["prediction"] = (shifts.astype(np.float64), change)
    return Outcome(
        [
            f"A shift by one pixel changes predictions by {change[0]:.1%} (relative to their size), one by "
            f"{settings.most} by {change[-1]:.1%}.",
            *said,
        ],
        [
            Lines(
                "symmetry",
                "What a shift changes",
                "pixels to the right",
                "relative change",
                curves,
                caption="Feature maps are compared with their own shifted copy, predictions with themselves. Only "
                "shifts that the map's stride divides have a counterpart.",
            )
        ],
        None,
        {name: {"shift": c[0].tolist(), "change": c[1].tolist()} for name, c in curves.items()},
    )


def _entry(f: Any, i: int) -> Any:
    return lambda x: f(x)[i]


def _applies(model: Model, schema: Schema) -> bool:
    if not isinstance(model, CanPredict) or not kinds.of(schema).spatial:
        return False
    blank = jax.ShapeDtypeStruct((1, *schema.shape), jnp.float32)
    return bool(jax.eval_shape(lambda x: feature_maps(model.predict, x), blank))


probe = Probe(
    "How feature maps move and predictions change when images are shifted.",
    "a network of images with rectifiers on feature maps",
    _applies,
    examine,
    SymmetrySettings,
    toy={"most": 1, "examples": 4},
)

__all__ = ["SymmetrySettings", "examine", "probe"]
