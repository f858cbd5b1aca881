"""The regions on which a ReLU network is affine: random or trained, drawn and counted against the bounds."""

from typing import Any, Literal, final

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule.core import random
from chainrule.core.pictures import Polygons, Table
from chainrule.data.dataset import Data
from chainrule.explain.methods.fitting import fit_network
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn import losses
from chainrule.nn.constructions import Network, affine, mlp
from chainrule.nn.constructions.regions import (
    Region,
    count_sampled,
    most_regions,
    on_plane,
    reachable_regions,
)


@final
class RegionsSettings(Settings):
    """The network."""

    width: int = Field(8, ge=1, le=64, description="units of each hidden layer")
    layers: int = Field(2, ge=1, le=6, description="hidden layers")
    data: Literal["moons", "rings", "pinwheel", "xor"] = Field(
        "moons", description="what it learns to tell apart"
    )
    steps: int = Field(1000, ge=0, description="steps of training; the picture before training comes first")
    seed: int = Field(0, ge=0, description="weights and data")


def run(settings: RegionsSettings, listener: Listener) -> Outcome:
    """Cut the plane before and after training."""
    data = sources.load(settings.data, n=1000, seed=settings.seed)
    x, y = jnp.asarray(data.train.x), jnp.asarray(data.train.y)
    network = _start(settings, len(data.schema.classes))

    def loss(network: Network) -> jax.Array:
        return losses.cross_entropy(network(x), y).mean()

    trained = fit_network(network, loss, steps=settings.steps, lr=1e-2)
    low, high = np.asarray(x).min(axis=0) - 0.4, np.asarray(x).max(axis=0) + 0.4
    window = (float(low[0]), float(high[0]), float(low[1]), float(high[1]))
    pictures, numbers = [], {}
    rows: list[list[Any]] = []
    for when, one in (("before training", network), ("after training", trained)):
        found = on_plane(one, window)
        sampled = count_sampled(one, random_points(window, settings.seed))
        listener(f"{when}: {len(found)} regions")
        pictures.append(_picture(when, found, data))
        rows.append([when, len(found), sampled])
        numbers[when.replace(" ", "_")] = {"regions": len(found), "sampled": sampled}
    one_layer, reachable = (
        most_regions(settings.width, 2),
        reachable_regions(max(settings.width, 2), 2, settings.layers),
    )
    right = float((trained(x).argmax(axis=-1) == y).mean())
    return Outcome(
        [
            f"{network}: {rows[0][1]} regions in the window before training, {rows[1][1]} after {settings.steps} "
            f"steps ({100 * right:.1f} % of the training points right).",
            f"One layer of {settings.width} units cuts the plane into {one_layer} regions at most; some network of "
            f"{settings.layers} such layers has {reachable:,} or more.",
        ],
        pictures,
        Table(
            "regions-table",
            "Regions in the window",
            ["network", "exact", "met by 20,000 random points"],
            rows,
        ),
        {**numbers, "one_layer_most": one_layer, "reachable": reachable, "accuracy": right},
    )


def random_points(window: tuple[float, float, float, float], seed: int) -> np.ndarray:
    """Points all over a window."""
    left, right, bottom, top = window
    return np.random.default_rng(seed).uniform([left, bottom], [right, top], (20_000, 2))


def _start(settings: RegionsSettings, classes: int) -> Network:
    """A random network whose biases are random too, so that its lines do not all meet at the origin."""
    key = random.key(settings.seed, "weights")
    network = mlp([2, *[settings.width] * settings.layers, classes], key=key)
    keys = jax.random.split(key, network.depth)
    layers = [
        affine(one.weight, 0.5 * jax.random.normal(k, (one.weight.shape[1],)))
        for one, k in zip(network.layers, keys, strict=True)
    ]
    return Network(layers, network.activations)


def _picture(when: str, found: list[Region], data: Data) -> Polygons:
    classes = data.schema.classes
    x, y = np.asarray(data.train.x)[:300], np.asarray(data.train.y)[:300]
    slope = np.array(
        [np.linalg.norm(region.weight - region.weight.mean(axis=1, keepdims=True)) for region in found]
    )
    return Polygons(
        f"regions-{when.split()[0]}",
        f"{len(found)} affine regions {when}",
        "first coordinate",
        "second coordinate",
        [region.vertices for region in found],
        slope,
        {name: x[y == number] for number, name in enumerate(classes)},
        caption="On each polygon the network is one affine map; darker where its outputs are steeper.",
    )


experiment = Experiment(
    "Affine regions of a ReLU network in the plane, before and after training, against the bounds.",
    RegionsSettings,
    run,
    toy={"width": 4, "layers": 1, "steps": 5},
    reference="Montúfar, Pascanu, Cho and Bengio, 2014, arXiv:1402.1869",
)

__all__ = ["RegionsSettings", "experiment", "random_points", "run"]
