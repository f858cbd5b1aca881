"""The path of training through the space of the weights, and the loss between two solutions."""

from collections.abc import Mapping
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core import random
from chainrule.core.pictures import Table
from chainrule.explain.methods.landscape import barrier, between, curvature
from chainrule.explain.methods.landscape_pictures import line
from chainrule.explain.methods.training import train
from chainrule.explain.probes.landscape import fixed, negative_share, on_path
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.protocol import Model


@final
class TrainingPathSettings(Settings):
    """A model that is watched while it trains."""

    model: str = Field("mlp", description="a model with a single loss")
    data: str = Field("digits", description="what it is trained on")
    load: dict[str, Any] = Field(
        default_factory=dict, description="options of the data source, e.g. load.n=200"
    )
    build: dict[str, Any] = Field(
        default_factory=dict, description="settings of the model, e.g. build.width=32"
    )
    steps: int = Field(300, ge=4, description="steps of each run")
    every: int = Field(15, ge=1, description="steps between two points of the path")
    batch: int = Field(64, ge=1, description="examples of a step")
    lr: float = Field(1e-3, gt=0, description="learning rate of Adam")
    points: int = Field(25, ge=3, description="points of the map, each way")
    examples: int = Field(
        256, ge=2, description="training examples the loss is averaged over, always the same"
    )
    seed: int = Field(0, ge=0, description="weights and batches; the other runs use the next seed")


def run(settings: TrainingPathSettings, listener: Listener) -> Outcome:
    """Train three times, one of them watched: its path, the lines to its start and to the others, its curvatures."""
    data = sources.load(settings.data, **settings.load)
    seen: dict[int, Model] = {}

    def watch(step: int, model: Model) -> None:
        # Training goes on in the same memory, so what is to stay is copied.
        seen[step] = jax.tree.map(lambda leaf: jnp.array(leaf) if eqx.is_array(leaf) else leaf, model)

    def trained(start: int, batches: int, *, watched: bool) -> Model:
        listener(f"training: weights of seed {start}, batches of seed {batches}")
        return train(
            models.build(settings.model, data, seed=start, **settings.build),
            data,
            steps=settings.steps,
            every=min(settings.every, settings.steps) if watched else settings.steps,
            watch=watch if watched else None,
            seed=batches,
            batch=min(settings.batch, len(data.train)),
            optimizer={"name": "adam", "lr": settings.lr},
            schedule={"name": "constant"},
        ).model

    one, two = settings.seed, settings.seed + 1
    end = trained(one, one, watched=True)
    others = {
        "its own start": seen[0],
        "same start, other batches": trained(one, two, watched=False),
        "another start": trained(two, two, watched=False),
    }
    loss = fixed(data.train, settings.examples, "recomputed")
    path = on_path(loss, list(seen), list(seen.values()), settings.points, "recomputed")
    lines = {
        name: between({"loss": loss}, end, other, points=2 * settings.points + 1, beyond=0.1)
        for name, other in others.items()
    }
    key = random.key(settings.seed, "training-path")
    return _told(
        path,
        {name: (steps, found["loss"]) for name, (steps, found) in lines.items()},
        {step: curvature(loss, seen[step], key) for step in (0, max(seen))},
    )


def _told(
    path: Outcome,
    series: Mapping[str, tuple[np.ndarray, np.ndarray]],
    bends: Mapping[int, tuple[float, float]],
) -> Outcome:
    """The path, the losses on the lines from the solution, and the curvatures at both ends, in words and pictures."""
    rises = {name: barrier(*curve) for name, curve in series.items()}
    columns = ["step", "largest curvature", "least curvature", "ratio"]
    rows = [[step, high, low, negative_share(low, high)] for step, (low, high) in bends.items()]
    return Outcome(
        [
            *path.findings,
            "Highest rise of the loss above the chord on the straight line to "
            + "; ".join(f"{name}: {rise:.3g}" for name, rise in rises.items())
            + ".",
            f"The most negative curvature is {rows[0][-1]:.1%} of the largest at the start and {rows[1][-1]:.1%} at "
            "the end.",
        ],
        [
            *path.pictures,
            line(
                *("training-path-lines", "Loss on straight lines from the solution", series),
                ("the solution", ""),
                "To its own start, to a run from the same start with other batches, and to a run from another start. "
                "Running statistics recomputed at every point.",
            ),
            *([path.table] if path.table is not None else []),
        ],
        Table("training-path-table", "Curvature at both ends of the path", columns, rows),
        {
            "shares": path.numbers["shares"],
            "random walk": path.numbers["random walk"],
            "barriers": rises,
            "curvature": {str(step): {"low": low, "high": high} for step, (low, high) in bends.items()},
        },
    )


experiment = Experiment(
    "The path of training on the plane that holds most of it, and the loss between two solutions.",
    TrainingPathSettings,
    run,
    toy={
        "data": "moons",
        "load": {"n": 100},
        "build": {"width": 4},
        "steps": 8,
        "every": 2,
        "batch": 16,
        "points": 3,
        "examples": 32,
    },
    reference="Li et al., Visualizing the loss landscape of neural nets, 2018; Goodfellow et al., Qualitatively "
    "characterizing neural network optimization problems, 2015; Frankle et al., Linear mode connectivity, 2020",
)

__all__ = ["TrainingPathSettings", "experiment", "run"]
