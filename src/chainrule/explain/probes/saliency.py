"""Saliency maps of an image classifier: occlusion, Grad-CAM and gradient, with a sanity check on shuffled weights."""

from collections.abc import Callable, Mapping
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Images, Table
from chainrule.core.types import Array, Float
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.methods.feature_maps import feature_maps, layer_number
from chainrule.explain.methods.gradients.grad_cam import grad_cam
from chainrule.explain.methods.gradients.occlusion import occlusion, patches
from chainrule.explain.methods.gradients.saliency import pixel_saliency
from chainrule.explain.methods.image_tiles import alike_channels, as_tile, overlaid
from chainrule.explain.methods.quality.randomisation import rank_correlation, shuffled, verdict
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasLogits, Model
from chainrule.train import Run

_CAM = "Grad-CAM"
SIGNED = ("occlusion",)
"""Maps of values of both signs."""


@final
class SaliencySettings(Settings):
    """What is looked at, and how finely."""

    examples: int = Field(6, ge=1, description="test images")
    patch: int | None = Field(
        None, ge=1, description="side of the patch that is covered; none: a quarter of the image"
    )
    stride: int | None = Field(None, ge=1, description="pixels between two patches; none: half a patch")
    cam: int = Field(-1, description="rectified layer of Grad-CAM, counted from 0; negative: from the last")
    activations: int = Field(0, description="rectified layer whose activity is shown, counted likewise")
    channels: int = Field(8, ge=1, description="channels of it for each image, the most active ones")
    draws: int = Field(3, ge=1, description="networks with shuffled weights the maps are held against")
    seed: int = Field(0, ge=0, description="of the shuffling")


def examine(run: Run, data: Data, settings: SaliencySettings) -> Outcome:
    """Maps of some test images, the same of networks with shuffled weights, and how alike they are."""
    model: Any = run.model  # a classifier with logits, see `_applies`
    part, said = data.held_out()
    batch = part.batch(np.arange(min(settings.examples, len(part))))
    x = jnp.asarray(batch.x)
    height, width = run.schema.shape[:2]
    patch = settings.patch or max(1, min(height, width) // 4)
    covers = jnp.asarray(patches(height, width, patch, settings.stride or max(1, patch // 2)))
    fill = jnp.asarray(data.train.batch(np.arange(min(1000, len(data.train)))).x.mean(axis=(0, 1, 2)))
    layers = len(jax.eval_shape(lambda x: feature_maps(model.logits, x), x))
    cam = layer_number("cam", settings.cam, layers) if layers else None
    active = layer_number("activations", settings.activations, layers) if layers else None
    p = np.asarray(eqx.filter_jit(lambda model, x: model.predict(x))(model, x))
    classes = p.argmax(axis=-1)
    of = _explainer(x, jnp.asarray(classes), fill, covers, cam)
    learned, worst = of(model)
    keys = jax.random.split(random.key(settings.seed, "saliency"), settings.draws)
    mixed = [of(shuffled(model, key))[0] for key in keys]
    alike = {
        name: np.array(
            [[rank_correlation(*two) for two in zip(one, other[name], strict=True)] for other in mixed]
        ).mean(axis=0)
        for name, one in learned.items()
    }
    blank = {name: sum(bool(np.ptp(m) == 0) for one in mixed for m in one[name]) for name in learned}
    pictures = [_sheet(np.asarray(x), p, learned, mixed[0], run.schema, patch)]
    if _CAM in learned:
        pictures.append(_over(np.asarray(x), p, learned[_CAM], run.schema))
    if active is not None:
        pictures.append(_activity(model, x, active, settings.channels))
    sure = p.max(axis=-1)
    return Outcome(
        [
            f"Covering the {patch} x {patch} pixels that matter most takes the probability of the predicted class from "
            f"{sure.mean():.1%} to {(sure - worst).mean():.1%} (mean of {len(x)} test images).",
            verdict("map", alike, blank, settings.draws * len(x)),
            *([] if layers else ["The network has no rectified feature maps, hence no Grad-CAM."]),
            *said,
        ],
        pictures,
        _table(run.schema, np.asarray(batch.y), classes, sure, worst, alike),
        {
            "probability": sure.tolist(),
            "lost": worst.tolist(),
            "alike": {name: values.tolist() for name, values in alike.items()},
            "blank": blank,
        },
    )


def _explainer(
    x: Array, classes: Array, fill: Array, covers: Array, cam: int | None
) -> Callable[[HasLogits], tuple[dict[str, np.ndarray], np.ndarray]]:
    """From a model to its maps of the images, and what the worst patch takes; one image at a time, compiled once."""

    @eqx.filter_jit
    def one(model: HasLogits, x: Array, classes: Array) -> tuple[dict[str, Array], Array]:
        lost, each = occlusion(model.predict, x, classes, fill, covers)
        found = {"gradient": pixel_saliency(model.logits, x, classes), "occlusion": lost}
        if cam is not None:
            found[_CAM] = grad_cam(model, x, cam, classes)
        return found, each.max(axis=0)

    def of(model: HasLogits) -> tuple[dict[str, np.ndarray], np.ndarray]:
        parts = [one(model, x[i : i + 1], classes[i : i + 1]) for i in range(len(x))]
        maps = {name: np.concatenate([np.asarray(found[name]) for found, _ in parts]) for name in parts[0][0]}
        return maps, np.concatenate([np.asarray(worst) for _, worst in parts])

    return of


def _sheet(
    x: np.ndarray,
    p: np.ndarray,
    learned: Mapping[str, np.ndarray],
    mixed: Mapping[str, np.ndarray],
    schema: Schema,
    patch: int,
) -> Images:
    """A row for each image: the image, its maps, and the same maps of a network with shuffled weights."""
    tiles, labels = [], []
    for i, image in enumerate(x):
        tiles.append(as_tile(image, signed=False))
        labels.append(f"{schema.classes[p[i].argmax()]} {p[i].max():.0%}")
        for end, maps in (("", learned), ("\nshuffled", mixed)):
            tiles += [as_tile(m[i][..., None], signed=name in SIGNED) for name, m in maps.items()]
            labels += [name + end for name in maps]
    return Images(
        "saliency",
        "Where the network looks",
        alike_channels(tiles),
        labels,
        columns=1 + 2 * len(learned),
        aligned=True,
        caption="Each row: a test image with its predicted class, maps of what matters for that class, and the same "
        "maps of the network with shuffled weights. Occlusion: the probability lost when a patch of "
        f"{patch} x {patch} pixels is covered with the mean colour; grey is nothing, bright is lost, dark is gained. "
        "The other maps: bright is much. Each map has a scale of its own.",
    )


def _over(x: np.ndarray, p: np.ndarray, maps: np.ndarray, schema: Schema) -> Images:
    """Each image, and beside it the image under its Grad-CAM."""
    tiles, labels = [], []
    for image, answer, values in zip(x, p, maps, strict=True):
        tiles += [as_tile(image, signed=False), overlaid(image, values / max(float(values.max()), 1e-12))]
        labels += [f"{schema.classes[answer.argmax()]} {answer.max():.0%}", _CAM]
    return Images(
        "saliency-overlay",
        "Grad-CAM over the image",
        alike_channels(tiles),
        labels,
        columns=2 * min(len(x), 3),
        aligned=True,
        caption="Blue: active where it speaks for the predicted class. Each map has a scale of its own.",
    )


def _activity(
    model: HasLogits, x: Float[Array, "batch height width channels"], layer: int, channels: int
) -> Images:
    """A row for each image: the image and what the channels of a layer make of it."""
    maps = eqx.filter_jit(lambda model, x: feature_maps(model.logits, x)[layer])(model, x)
    shown = min(channels, maps.shape[-1])
    large = np.asarray(jax.image.resize(maps, (*x.shape[:3], maps.shape[-1]), "nearest"))
    order = np.argsort(-large.mean(axis=(1, 2)), axis=-1, kind="stable")[:, :shown]
    tiles, labels = [], []
    for i, image in enumerate(np.asarray(x)):
        tiles += [
            as_tile(image, signed=False),
            *(as_tile(large[i, ..., c, None], signed=False) for c in order[i]),
        ]
        labels += ["", *map(str, order[i])]
    return Images(
        "saliency-activity",
        f"Activity of layer {layer}",
        alike_channels(tiles),
        labels,
        columns=1 + shown,
        aligned=True,
        caption=f"Each row: a test image and the {shown} channels of the layer ({maps.shape[1]} x {maps.shape[2]} "
        "positions) that it excites most on average, with their numbers.",
    )


def _table(
    schema: Schema,
    truth: np.ndarray,
    classes: np.ndarray,
    sure: np.ndarray,
    worst: np.ndarray,
    alike: Mapping[str, np.ndarray],
) -> Table:
    rows = [
        [schema.classes[truth[i]], schema.classes[classes[i]], sure[i].item(), worst[i].item()]
        + [values[i].item() for values in alike.values()]
        for i in range(len(classes))
    ]
    return Table(
        "saliency-table",
        "Images and their maps",
        [
            "class",
            "predicted",
            "probability",
            "lost at the worst patch",
            *(f"{name}, alike" for name in alike),
        ],
        rows,
        caption="Alike: rank correlation of the map with that of the network with shuffled weights; a blank map counts "
        "as 0, and as 1 where both are blank.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    return isinstance(model, HasLogits) and kinds.of(schema).spatial and targets.of(schema).one_class


probe = Probe(
    "Where a classifier looks: occlusion, Grad-CAM and gradient, each held against shuffled weights.",
    "a classifier of images that ends in logits",
    _applies,
    examine,
    SaliencySettings,
    toy={"examples": 1, "draws": 1, "patch": 4, "stride": 4},
)

__all__ = ["SaliencySettings", "examine", "probe"]
