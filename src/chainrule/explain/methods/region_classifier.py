"""R-CNN stage by stage: every proposed region is stretched to one size and seen by a convolutional network of its own.

The network first learns the classes of regions; then its last hidden layer is kept as it is, and a logistic regression
for each class and a ridge regression of the four edges are fitted to it (Girshick et al., 2014, arXiv:1311.2524). What
each stage takes is measured, which is what later detectors improve on.
"""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Bool

from chainrule.core import random
from chainrule.core.errors import DataError
from chainrule.core.types import Array, Float, Int, Key, Tree
from chainrule.kernels.linear_models import logistic, ridge
from chainrule.networks.image_towers import ConvBlock
from chainrule.nn import Linear, losses
from chainrule.nn.detection import (
    decode_boxes,
    detections,
    encode_boxes,
    iou,
    pairwise,
    propose_regions,
    warp_regions,
)

_CONTEXT = 16 / 227
_BATCH, _OF_OBJECTS = 128, 32
"""Regions of a step of training, and how many of them are of objects, as published."""
_OBJECT, _GROUND, _REGRESSED = 0.5, 0.3, 0.6
"""IoU from which a region trains the network as an object; below which the classifiers call it ground; from which its
edges are regressed."""
_AT_ONCE = 256
"""Regions that pass the network together."""


class RegionProposals(NamedTuple):
    """Regions of some images, filled up to one number."""

    boxes: Float[np.ndarray, "images kept 4"]
    there: Bool[np.ndarray, "images kept"]
    seconds: float


def propose(images: Float[np.ndarray, "images height width channels"], kept: int) -> RegionProposals:
    """What selective search finds in each image, the largest merges first."""
    began = time.perf_counter()
    boxes, there = propose_regions(images, kept)
    return RegionProposals(boxes, there, time.perf_counter() - began)


@final
class RegionNetwork(eqx.Module):
    """Convolutions, each but the first after halving, and a hidden layer that knows where in the region things are."""

    blocks: tuple[ConvBlock, ...]
    hidden: Linear
    classes: Linear

    def __init__(self, channels: int, classes: int, side: int, width: int, features: int, key: Key) -> None:
        keys = jax.random.split(key, 6)
        widths = [channels, width, width, 2 * width, 2 * width]
        self.blocks = tuple(
            ConvBlock(before, after, stride=1 + number % 2, key=keys[number])
            for number, (before, after) in enumerate(itertools.pairwise(widths))
        )
        last = -(-side // 4)
        self.hidden = Linear(last * last * widths[-1], features, key=keys[4])
        self.classes = Linear(features, classes + 1, key=keys[5])

    def maps(self, x: Float[Array, "batch height width channels"]) -> Float[Array, "batch _ _ _"]:
        """The last feature maps, of regions or of whole images."""
        x = 2 * x - 1
        for block in self.blocks:
            x, _ = block(x, jax.random.key(0))  # nothing is drawn
        return x

    def features(self, x: Float[Array, "batch side side channels"]) -> Float[Array, "batch features"]:
        """The hidden layer."""
        return jax.nn.relu(self.hidden(self.maps(x).reshape(len(x), -1)))

    def __call__(self, x: Float[Array, "batch side side channels"]) -> Float[Array, "batch logits"]:
        """Logits of ground and of each class."""
        return self.classes(self.features(x))


class SampledRegions(NamedTuple):
    """Regions of training images, their crops and what they hold."""

    crops: Float[np.ndarray, "regions side side channels"]
    boxes: Float[np.ndarray, "regions 4"]
    own: Float[np.ndarray, "regions 5"]
    """The object that each overlaps most."""
    overlap: Float[np.ndarray, " regions"]
    exact: Bool[np.ndarray, " regions"]
    """Whether it is an object's own box."""


@final
@dataclass(frozen=True)
class RegionClassifier:
    """A trained network with its linear classifiers and regressors."""

    network: RegionNetwork
    scorers: Float[Array, "rows classes"]
    """Logits of each class are the features and a one times these."""
    movers: Float[Array, "rows deltas"]
    """The same for the four deltas of each class."""
    side: int

    def rows(self, features: Float[Array, "regions features"]) -> Float[Array, "regions rows"]:
        """Features with a one beside them."""
        return jnp.concatenate([features, jnp.ones((len(features), 1), features.dtype)], axis=1)

    def judged(self, features: Any, boxes: Any, *, moved: bool) -> tuple[Array, Array]:
        """Boxes for each class and the scores of all classes, (regions, classes, 4) and (regions, classes)."""
        rows = self.rows(features)
        scores = jax.nn.sigmoid(rows @ self.scorers)
        around = jnp.broadcast_to(boxes[:, None].astype(rows.dtype), (*scores.shape, 4))
        if not moved:
            return around, scores
        return decode_boxes((rows @ self.movers).reshape(around.shape), around), scores


def warped(images: np.ndarray, proposals: RegionProposals, side: int) -> np.ndarray:
    """The crops of all regions of all images, fillers included."""
    return np.concatenate(
        [
            np.asarray(_warp(jnp.asarray(image), jnp.asarray(boxes, image.dtype), side))
            for image, boxes in zip(images, proposals.boxes, strict=True)
        ]
    )


@eqx.filter_jit
def _warp(image: Array, boxes: Array, side: int) -> Array:
    return warp_regions(image, boxes, (side, side), context=_CONTEXT)


def sampled(images: np.ndarray, objects: np.ndarray, proposals: RegionProposals, side: int) -> SampledRegions:
    """Regions of training: what was proposed, and the objects themselves."""
    own = objects[..., 4] >= 0
    every = RegionProposals(
        np.concatenate([np.where(own[..., None], objects[..., :4], [0, 0, 1, 1]), proposals.boxes], axis=1),
        np.concatenate([own, proposals.there], axis=1),
        0.0,
    )
    crops = warped(images, every, side)
    exact = np.concatenate([own, np.zeros_like(proposals.there)], axis=1)
    overlap, nearest = np.zeros(every.there.shape), np.zeros((*every.there.shape, 5))
    for number, (boxes, true) in enumerate(zip(every.boxes, objects, strict=True)):
        shared = np.where((true[:, 4] >= 0)[None], pairwise(iou, boxes, true[:, :4]), 0.0)
        overlap[number], nearest[number] = shared.max(axis=1), true[shared.argmax(axis=1)]
    used = every.there.ravel()
    return SampledRegions(
        crops[used],
        every.boxes.reshape(-1, 4)[used],
        nearest.reshape(-1, 5)[used],
        overlap.ravel()[used],
        exact.ravel()[used],
    )


def learnt(
    network: RegionNetwork, found: SampledRegions, *, steps: int, lr: float, seed: int
) -> RegionNetwork:
    """The network after so many steps of Adam on the classes of regions, a quarter of them of objects."""
    labels = np.where(found.overlap >= _OBJECT, found.own[:, 4] + 1, 0).astype(np.int32)
    things, ground = np.flatnonzero(labels), np.flatnonzero(labels == 0)
    if not len(things) or not len(ground):
        raise DataError(
            f"of {len(labels)} regions {len(things)} are of objects and {len(ground)} of ground: both are needed",
            remedy="use more training images: train=400",
        )
    crops, numbers = jnp.asarray(found.crops), jnp.asarray(labels)
    pools = jnp.asarray(things), jnp.asarray(ground)
    optimizer = optax.adam(optax.cosine_decay_schedule(lr, steps))
    arrays, static = eqx.partition(network, eqx.is_inexact_array)

    def loss(arrays: Tree, rows: Int[Array, " batch"]) -> Array:
        logits = eqx.combine(arrays, static)(crops[rows])
        return losses.cross_entropy(logits, numbers[rows]).mean()

    @jax.jit
    def step(arrays: Tree, state: Tree, key: Key) -> tuple[Tree, Tree]:
        keys = jax.random.split(key)
        counts = (_OF_OBJECTS, _BATCH - _OF_OBJECTS)
        drawn = [
            pool[jax.random.randint(one, (count,), 0, len(pool))]
            for pool, one, count in zip(pools, keys, counts, strict=True)
        ]
        slope = jax.grad(loss)(arrays, jnp.concatenate(drawn))
        updates, state = optimizer.update(slope, state)
        return optax.apply_updates(arrays, updates), state

    state = optimizer.init(arrays)
    for number in range(steps):
        arrays, state = step(arrays, state, random.at(random.key(seed, "regions"), number))
    trained: RegionNetwork = eqx.combine(arrays, static)
    return trained


def features_of(network: RegionNetwork, crops: np.ndarray) -> Float[np.ndarray, "regions features"]:
    """The hidden layer for every crop."""
    filled = np.resize(np.arange(len(crops)), -(-len(crops) // _AT_ONCE) * _AT_ONCE).reshape(-1, _AT_ONCE)
    return np.concatenate([np.asarray(_features(network, jnp.asarray(crops[rows]))) for rows in filled])[
        : len(crops)
    ]


@eqx.filter_jit
def _features(network: RegionNetwork, x: Array) -> Array:
    return network.features(x)


def fitted(
    network: RegionNetwork,
    found: SampledRegions,
    classes: int,
    side: int,
    *,
    penalty: float,
    ridge_penalty: float,
) -> RegionClassifier:
    """A linear classifier for each class, and ridge regressions of its boxes, on features that stay as they are.

    Positive is an object's own box, negative a region that overlaps no object of the class by 0.3, as published.
    """
    blank = RegionClassifier(network, jnp.zeros((1, 1)), jnp.zeros((1, 1)), side)
    rows = blank.rows(jnp.asarray(features_of(network, found.crops)))
    scorers, movers = [], []
    for number in range(classes):
        of_class = found.own[:, 4] == number
        positive, negative = of_class & found.exact, ~(of_class & (found.overlap >= _GROUND))
        used = np.flatnonzero(positive | negative)
        logits = logistic(rows[used], jnp.asarray(positive[used].astype(np.int32)), 2, penalty)
        scorers.append(logits[:, 1] - logits[:, 0])
        near = np.flatnonzero(of_class & (found.overlap >= _REGRESSED))
        deltas = encode_boxes(jnp.asarray(found.own[near, :4]), jnp.asarray(found.boxes[near]))
        movers.append(ridge(rows[near], deltas.astype(rows.dtype), ridge_penalty))
    return RegionClassifier(network, jnp.stack(scorers, axis=1), jnp.concatenate(movers, axis=1), side)


class DetectedRegions(NamedTuple):
    """What was found, with regressed edges and without, and the seconds of each stage."""

    moved: Float[np.ndarray, "images most 6"]
    unmoved: Float[np.ndarray, "images most 6"]
    seconds: dict[str, float]


def detect(
    machine: RegionClassifier, images: np.ndarray, proposals: RegionProposals, most: int = 50
) -> DetectedRegions:
    """All stages after the proposals; everything is compiled before the clock starts."""
    size = (images.shape[1], images.shape[2])
    kept = proposals.boxes.shape[1]

    @eqx.filter_jit
    def judged(features: Array, boxes: Array, there: Array, moved: bool) -> Array:
        own, scores = machine.judged(features, boxes, moved=moved)
        classes = scores.shape[1]
        # A region has a box for each class, which is scored for that class alone.
        alone = (scores * there[:, None])[:, :, None] * jnp.eye(classes, dtype=scores.dtype)[None]
        flat = own.reshape(1, -1, 4), alone.reshape(1, -1, classes)
        return detections(*flat, size, most=most, least=0.05, overlap=0.3)[0]

    def ended(features: np.ndarray, moved: bool) -> np.ndarray:
        parts = zip(features.reshape(len(images), kept, -1), proposals.boxes, proposals.there, strict=True)
        found = [
            judged(jnp.asarray(f), jnp.asarray(b, f.dtype), jnp.asarray(t, f.dtype), moved)
            for f, b, t in parts
        ]
        return np.stack([np.asarray(one) for one in found])

    one = RegionProposals(proposals.boxes[:1], proposals.there[:1], 0.0)
    features_of(machine.network, warped(images[:1], one, machine.side))
    seconds = {"proposals": proposals.seconds}
    began = time.perf_counter()
    crops = warped(images, proposals, machine.side)
    seconds["warping"] = time.perf_counter() - began
    began = time.perf_counter()
    features = features_of(machine.network, crops)
    seconds["network"] = time.perf_counter() - began
    unmoved = ended(features, moved=False)
    ended(features, moved=True)
    began = time.perf_counter()
    moved = ended(features, moved=True)
    seconds["classes, edges, suppression"] = time.perf_counter() - began
    return DetectedRegions(moved, unmoved, seconds)


def shared_seconds(network: RegionNetwork, images: Sequence[Any] | np.ndarray) -> float:
    """What the same convolutions take once over each whole image, as Fast R-CNN shares them."""
    passed = eqx.filter_jit(lambda network, x: network.maps(x))
    rows = [jnp.asarray(image)[None] for image in images]
    jax.block_until_ready(passed(network, rows[0]))
    began = time.perf_counter()
    for row in rows:
        jax.block_until_ready(passed(network, row))
    return time.perf_counter() - began


__all__ = [
    "DetectedRegions",
    "RegionClassifier",
    "RegionNetwork",
    "RegionProposals",
    "SampledRegions",
    "detect",
    "features_of",
    "fitted",
    "learnt",
    "propose",
    "sampled",
    "shared_seconds",
    "warped",
]
