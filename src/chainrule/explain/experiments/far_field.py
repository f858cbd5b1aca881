"""Certainty where there are no data: the confidence of a ReLU network along rays that leave its training set."""

from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule.core import random
from chainrule.core.pictures import Lines, Scatter, Table
from chainrule.explain.methods.fitting import fit_network
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn import losses
from chainrule.nn.constructions import Network, mlp
from chainrule.nn.constructions.regions import far_field


@final
class FarFieldSettings(Settings):
    """The network and the rays."""

    data: Literal["moons", "rings", "pinwheel", "xor"] = Field(
        "moons", description="what it learns to tell apart"
    )
    width: int = Field(32, ge=1, le=512, description="units of each of two hidden layers")
    steps: int = Field(500, ge=0, description="steps of training")
    rays: int = Field(6, ge=1, le=36, description="directions, evenly spread")
    distance: float = Field(100.0, gt=0, description="how far the rays go")
    seed: int = Field(0, ge=0, description="weights and data")


def run(settings: FarFieldSettings, listener: Listener) -> Outcome:
    """Train a classifier and walk away from its data."""
    data = sources.load(settings.data, n=500, noise=0.1, seed=settings.seed)
    x, y = jnp.asarray(data.train.x), jnp.asarray(data.train.y)

    def loss(network: Network) -> jax.Array:
        return losses.cross_entropy(network(x), y).mean()

    start = mlp(
        [2, settings.width, settings.width, len(data.schema.classes)],
        key=random.key(settings.seed, "weights"),
    )
    network = fit_network(start, loss, steps=settings.steps, lr=1e-2)
    listener(f"training loss {float(loss(network)):.4g}")
    angles = 2 * np.pi * np.arange(settings.rays) / settings.rays
    t = np.geomspace(0.1, settings.distance, 200)
    series, far = {}, []
    rows: list[list[Any]] = []
    for angle in angles:
        direction = np.array([np.cos(angle), np.sin(angle)])
        logits = network(jnp.asarray(t[:, None] * direction[None, :], jnp.float32))
        confidence = np.asarray(jax.nn.softmax(logits, axis=-1).max(axis=-1))
        found = far_field(network, direction)
        label = f"{np.degrees(angle):.0f}°"
        series[label] = (t, confidence)
        rows.append([label, found.settled, float(confidence[-1]), found.confidence])
        far.append(found.confidence)
    radius = float(np.linalg.norm(np.asarray(x), axis=1).max())
    certain = sum(limit > 0.999 for limit in far)
    return Outcome(
        [
            f"Along {certain} of {settings.rays} rays the confidence tends to 1, although the data end at a "
            f"distance of {radius:.2g}.",
            f"From a distance of {max(row[1] for row in rows):.3g} on, no unit changes any more: the network is "
            "affine there, so the logits grow apart linearly.",
        ],
        [
            Lines(
                "far-field-rays",
                "Confidence along rays from the origin",
                "distance",
                "largest probability",
                series,
                log_x=True,
                marks=((radius, "the data end"),),
            ),
            _map(network, data, 4 * radius),
        ],
        Table(
            "far-field-table", "Rays", ["direction", "affine from", "confidence at the end", "limit"], rows
        ),
        {"radius": radius, "certain": certain, "rays": {row[0]: row[3] for row in rows}},
    )


def _map(network: Network, data: sources.Data, reach: float) -> Scatter:
    grid = np.linspace(-reach, reach, 121)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    confidence = jax.nn.softmax(network(jnp.asarray(points, jnp.float32)), axis=-1).max(axis=-1)
    x, y = np.asarray(data.train.x), np.asarray(data.train.y)
    return Scatter(
        "far-field-map",
        "Confidence around the data",
        "first coordinate",
        "second coordinate",
        {name: x[y == number] for number, name in enumerate(data.schema.classes)},
        field=np.asarray(confidence).reshape(121, 121),
        extent=(-reach, reach, -reach, reach),
        caption="Darker: more certain. The network is least certain along its decision boundary, not far from "
        "its data.",
    )


experiment = Experiment(
    "Confidence of a ReLU network along rays that leave the data: it tends to 1.",
    FarFieldSettings,
    run,
    toy={"width": 4, "steps": 5, "rays": 2},
    reference="Hein, Andriushchenko and Bitterwolf, Why ReLU networks yield high-confidence predictions far "
    "away from the training data, 2019, arXiv:1812.05720",
)

__all__ = ["FarFieldSettings", "experiment", "run"]
