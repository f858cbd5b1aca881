"""Adversarial robustness: accuracy and confidence when every pixel may change a little in the worst direction."""

from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Images, Lines, Table
from chainrule.core.types import Array
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.attacks import Bounds, climb, fgsm, loss_of
from chainrule.explain.protocol import Outcome, Probe, Settings, Share
from chainrule.models.protocol import CanPredict, Model
from chainrule.train import Run

SHOWN = 6
"""Images of the sheet."""


@final
class AttackSettings(Settings):
    """What is tried."""

    shares: tuple[Share, ...] = Field(
        (0.0, 0.01, 0.02, 0.05, 0.1, 0.2),
        min_length=1,
        description="how far a pixel may move, as shares of the range from darkest to brightest",
    )
    examples: int = Field(500, ge=1, description="test images that are attacked")
    steps: int = Field(20, ge=1, description="steps of the iterated attack")


def examine(run: Run, data: Data, settings: AttackSettings) -> Outcome:
    """Accuracy and confidence against the size of the change, by one step and by many."""
    model: Any = run.model  # a classifier, see `_applies`
    part = data.examples("test")
    n = min(settings.examples, len(part))
    batch = jax.tree.map(jnp.asarray, part.batch(np.arange(n)))
    bounds = (float(batch.x.min()), float(batch.x.max()))
    unit = bounds[1] - bounds[0]
    signs = _signs(model, batch)
    rows, attacked = [], batch.x
    for share in settings.shares:
        eps = jnp.float32(share * unit)
        attacked = (batch.x + eps * signs).clip(*bounds)
        many = _many(model, batch, eps, bounds, settings.steps)
        rows.append([share, *_measure(model, batch, attacked), *_measure(model, batch, many)])
    columns = [
        "change",
        "accuracy, one step",
        "confidence, one step",
        "accuracy, many steps",
        "confidence, many steps",
    ]
    numbers = np.array(rows, dtype=np.float64)
    curves = Lines(
        "attack",
        "Accuracy and confidence under attack",
        "change of a pixel, share of the range",
        "share",
        {label: (numbers[:, 0], numbers[:, i]) for i, label in enumerate(columns) if i},
        caption=f"{n} test images; many steps: {settings.steps}, each projected back onto the allowed change.",
    )
    raw = float(np.ptp(data.scaling.inverse(np.asarray([[bounds[0]], [bounds[1]]], np.float32))))
    first, last = numbers[0], numbers[-1]
    return Outcome(
        [
            f"A change of {last[0]:.0%} of the range ({last[0] * raw:.3g} raw units) takes accuracy from "
            f"{first[1]:.1%} to {last[1]:.1%} in one step and to {last[3]:.1%} in {settings.steps}.",
            f"Confidence in what is then predicted: {last[2]:.0%} after one step, {last[4]:.0%} after "
            f"{settings.steps}.",
        ],
        [curves, _sheet(model, batch, attacked, bounds, run.schema, last[0])],
        Table("attack-table", "Under attack", columns, numbers.tolist()),
        {label: numbers[:, i].tolist() for i, label in enumerate(columns)},
    )


@eqx.filter_jit
def _signs(model: Model, batch: Batch) -> Array:
    return fgsm(loss_of(model, batch.y), batch.x, 1.0) - batch.x


@eqx.filter_jit
def _many(model: Model, batch: Batch, eps: Array, bounds: Bounds, steps: int) -> Array:
    loss, key = loss_of(model, batch.y), random.key(0, "attack")
    return climb(loss, batch.x, eps, 2.5 * eps / steps, steps, key=key, bounds=bounds)


@eqx.filter_jit
def _measure(model: CanPredict, batch: Batch, x: Array) -> tuple[Array, Array]:
    p = model.predict(x)
    return (p.argmax(axis=-1) == batch.y).mean(), p.max(axis=-1).mean()


def _sheet(
    model: CanPredict, batch: Batch, attacked: Array, bounds: Bounds, schema: Schema, share: float
) -> Images:
    """Clean images, what was added, and what came of it; first those that were right before and are wrong after."""
    before, after = (np.asarray(model.predict(x).argmax(axis=-1)) for x in (batch.x, attacked))
    fooled = (before == np.asarray(batch.y)) & (after != before)
    chosen = np.argsort(~fooled, kind="stable")[:SHOWN]
    clean, wrong = (
        (np.asarray(x)[chosen] - bounds[0]) / (bounds[1] - bounds[0]) for x in (batch.x, attacked)
    )
    change = (wrong - clean) / (2 * max(share, 1e-9)) + 0.5
    names = [[schema.classes[k] for k in labels[chosen]] for labels in (before, after)]
    return Images(
        "attack-images",
        "Clean, change, attacked",
        np.clip(np.concatenate([clean, change, wrong]), 0, 1),
        [*names[0], *[""] * len(chosen), *names[1]],
        columns=len(chosen),
        caption=f"Rows: the image and its prediction; the change (grey: none); the sum of both and its prediction. "
        f"Pixels moved by at most {share:.0%} of the range.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, CanPredict) and kinds.of(schema).spatial and targets.of(schema).one_class


probe = Probe(
    "Accuracy and confidence when every pixel may move a little (FGSM and PGD).",
    "a classifier of images",
    _applies,
    examine,
    AttackSettings,
    toy={"shares": (0.0, 0.1), "examples": 10, "steps": 2},
)

__all__ = ["AttackSettings", "examine", "probe"]
