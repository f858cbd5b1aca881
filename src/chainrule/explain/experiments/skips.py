"""Skip connections: the same deep network with and without them."""

from typing import Any, Literal, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core import random
from chainrule.core.pictures import Lines, Picture, Table
from chainrule.data.batches import Batch
from chainrule.explain.methods.landscape import curvature, objective, surface
from chainrule.explain.methods.landscape_pictures import around
from chainrule.explain.methods.training import Trained, train
from chainrule.explain.probes.landscape import negative_share
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings


@final
class SkipsSettings(Settings):
    """A residual network and its plain twin."""

    data: str = Field("digits", description="images with classes")
    depth: Literal[8, 14, 20, 32, 44, 56, 110] = Field(
        32, description="layers with weights: 8, 14, 20, 32, 44, 56 or 110"
    )
    width: int = Field(8, ge=1, description="channels of the first stage")
    steps: int = Field(300, ge=1, description="steps of each run")
    every: int = Field(25, ge=1, description="steps between two evaluations on the validation split")
    lr: float = Field(3e-3, gt=0, description="learning rate of Adam")
    points: int = Field(15, ge=3, description="points of the loss landscape, each way")
    examples: int = Field(256, ge=2, description="training images the landscape is averaged over")
    seed: int = Field(0, ge=0, description="weights, batches and directions")


def run(settings: SkipsSettings, listener: Listener) -> Outcome:
    """Train both, draw the loss around where they end, and the size of gradients by depth where they begin."""
    data = sources.load(settings.data, seed=settings.seed)
    batch = jax.tree.map(jnp.asarray, data.train.batch(np.arange(min(settings.examples, len(data.train)))))
    loss = objective(batch, random.key(settings.seed, "landscape"))
    runs: dict[str, Trained] = {}
    shapes: list[Picture] = []
    rows: list[list[str | float]] = []
    gradients: dict[str, np.ndarray] = {}
    for name, skip in (("with skips", True), ("without skips", False)):
        # Not from zero: then no gradient would flow through the blocks with skips before training.
        shape = {"depth": settings.depth, "width": settings.width, "skip": skip, "zero_start": False}
        model = models.build("resnet", data, seed=settings.seed, **shape)
        gradients[name] = by_depth(model, batch)
        one = runs[name] = train(
            model,
            data,
            steps=settings.steps,
            every=min(settings.every, settings.steps),
            seed=settings.seed,
            batch=min(64, len(data.train)),
            optimizer={"name": "adam", "lr": settings.lr},
            schedule={"name": "constant"},
        )
        key = random.key(settings.seed, "landscape")
        found = surface(loss, one.model, key, points=settings.points)
        low, high = curvature(loss, one.model, key)
        shapes += around(
            f"skips-{'with' if skip else 'without'}", f"Loss around the weights, {name}", found, ""
        )
        ratio = negative_share(low, high)
        rows.append([name, float(one.val["loss"][-1]), float(one.val["accuracy"][-1]), high, low, ratio])
        listener(f"{name}: validation accuracy {rows[-1][2]:.1%}, curvature from {low:.3g} to {high:.3g}")
    curves = Lines(
        "skips-loss",
        f"Validation loss, {settings.depth} layers",
        "step",
        "loss, nats",
        {name: (one.steps, one.val["loss"]) for name, one in runs.items()},
    )
    flow = Lines(
        "skips-gradients",
        "Gradient of the loss at every convolution before training",
        "convolution, from the image on",
        "norm of the gradient",
        {name: (np.arange(1.0, len(norms) + 1), norms) for name, norms in gradients.items()},
        log_y=True,
    )
    columns = ["network", "validation loss", "accuracy", "largest curvature", "least curvature", "ratio"]
    first, second = rows
    return Outcome(
        [
            f"After {settings.steps} steps validation accuracy is {first[2]:.1%} with skips, {second[2]:.1%} without.",
            f"Before training the gradient at the first convolution is {gradients['with skips'][0]:.2g} with skips "
            f"and {gradients['without skips'][0]:.2g} without.",
        ],
        [curves, flow, *shapes],
        Table("skips-table", f"{settings.depth} layers with and without skips", columns, rows),
        {str(row[0]): dict(zip(columns[1:], row[1:], strict=True)) for row in rows},
    )


def by_depth(model: Any, batch: Batch) -> np.ndarray:
    """The norm of the gradient with respect to every kernel, from the image on."""
    weights, rest = eqx.partition(model, eqx.is_inexact_array)
    key = random.key(0, "gradient")

    @eqx.filter_jit
    def norms(weights: Any, rest: Any) -> list[jax.Array]:
        slope = jax.grad(lambda w: eqx.combine(w, rest).loss(batch, key)[0])(weights)
        kernels = [slope.stem.conv.weight]
        kernels += [conv.weight for stage in slope.stages for block in stage for conv in block.convolutions]
        return [jnp.linalg.norm(kernel) for kernel in kernels]

    return np.array([float(norm) for norm in norms(weights, rest)])


experiment = Experiment(
    "Skip connections: the same deep network with and without, its training, gradients and loss landscape.",
    SkipsSettings,
    run,
    toy={"depth": 8, "width": 2, "steps": 4, "every": 2, "points": 3, "examples": 16},
    reference="He et al., Deep residual learning, 2016; Li et al., Visualizing the loss landscape of neural "
    "nets, 2018",
)

__all__ = ["SkipsSettings", "by_depth", "experiment", "run"]
