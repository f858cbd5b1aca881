"""Class activation maps: where the feature maps that speak for a class are active.

Grad-CAM weighs the maps of a layer by the mean over positions of the class's slope on them and keeps what is positive
(Selvaraju et al., 2017, arXiv:1610.02391). Of a network that ends in a mean over positions and a linear layer that is
the class activation map of Zhou et al. (2016, arXiv:1512.04150) up to a constant, the number of positions.
"""

from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.core.checks import check_class_numbers
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float
from chainrule.explain.methods import feature_maps, taps
from chainrule.explain.methods.feature_maps import layer_number
from chainrule.explain.methods.gradients.occlusion import Scores
from chainrule.models.protocol import HasLogits, HasResidualStream
from chainrule.train import Run

Subject: TypeAlias = Run | HasLogits | Scores
"""A trained run (images in raw units), a model (in model units), or a function from images to scores."""
_SAME = 1e-4
"""Relative difference up to which slopes count as one number."""


def grad_cam(model: Subject, x: Any, layer: int | str, target: Any) -> Float[Array, "batch height width"]:
    """Where the feature maps that speak for a class are active, at the size of the image.

    The model is a run, its images in raw units, a model, its images in model units, or a function from images to
    scores. `layer` counts rectified feature maps from 0, or from the last if negative; of a run or a model it may be
    the name of a module ("stages.1.0.conv", "blocks.2" of a vision transformer). `target` is a class by number, one for
    all images or one for each; of a run by name, too.
    """
    found = _at_layer("grad_cam", model, x, layer, target)
    weights = found.slopes.mean(axis=(1, 2), keepdims=True)
    return _resized(jax.nn.relu((weights * found.maps).sum(axis=-1)), found.size)


def class_activation_map(
    model: Subject, x: Any, target: Any, layer: int | str = -1
) -> Float[Array, "batch height width"]:
    """Feature maps weighed by the weights that a pooled linear head gives them for a class; both signs are kept.

    Refused where the layer is not read by a mean over positions and a linear layer.
    """
    found = _at_layer("class_activation_map", model, x, layer, target)
    spread = jnp.abs(found.slopes - found.slopes[:, :1, :1]).max()
    if not isinstance(spread, jax.core.Tracer) and float(spread) > _SAME * float(jnp.abs(found.slopes).max()):
        raise CapabilityError(
            f"class_activation_map(layer={layer!r}): the slope of the class differs between positions, so the layer is "
            "not read by a mean and a linear layer",
            remedy="take the last layer before the pooling, or grad_cam, which needs no such head",
        )
    positions = found.maps.shape[1] * found.maps.shape[2]
    return _resized((positions * found.slopes * found.maps).sum(axis=-1), found.size)


class _AtLayer(NamedTuple):
    """Feature maps of images, and the slope of a class by each of their entries."""

    maps: Float[Array, "batch rows columns channels"]
    slopes: Float[Array, "batch rows columns channels"]
    size: tuple[int, int]


def _at_layer(where: str, model: Subject, given: Any, layer: int | str, target: Any) -> _AtLayer:
    x = jnp.asarray(given, jnp.result_type(float, jnp.asarray(given).dtype))
    if isinstance(model, Run):
        trained: Any = model.model
        if not isinstance(trained, HasLogits):
            raise CapabilityError(
                f"{where}: {model.id} has no logits", remedy="explain a classifier of images"
            )
        target, x = _numbers(where, target, model.schema.classes), model.scaling.apply(x)
        model = trained
    if x.ndim != 4:
        raise ArgumentError(
            f"{where}(x): shape {x.shape}; images are (batch, height, width, channels)",
            remedy="x[None] is a batch of one image",
        )
    count = jax.eval_shape(model.logits if isinstance(model, HasLogits) else model, x).shape[-1]
    classes = jnp.broadcast_to(jnp.asarray(target), (len(x),))
    check_class_numbers(where, "classes", classes, count)
    cotangent = jax.nn.one_hot(classes, count, dtype=x.dtype)
    maps, slopes = _sensitivity(model, x, cotangent, _checked(where, model, x, layer))
    grid = _grid(model)
    if maps.ndim == 3 and grid is not None:
        maps, slopes = (a[:, -grid[0] * grid[1] :].reshape(len(a), *grid, -1) for a in (maps, slopes))
    if maps.ndim != 4:
        raise ArgumentError(
            f"{where}(layer={layer!r}): it gives {maps.shape}, which is no feature map",
            remedy="choose a layer before positions are pooled",
        )
    return _AtLayer(maps, slopes, (x.shape[1], x.shape[2]))


def _grid(model: object) -> tuple[int, int] | None:
    """Rows and columns of the patches that positions of a stream are; none where there is no stream."""
    return model.stream_grid() if isinstance(model, HasResidualStream) else None


def _checked(where: str, model: HasLogits | Scores, x: Array, layer: int | str) -> int | str:
    if isinstance(layer, str):
        if not isinstance(model, HasLogits):
            raise ArgumentError(
                f"{where}(layer={layer!r}): layers of a function have no names",
                remedy="give a run or a model, or count rectified layers: layer=-1 is the last",
            )
        return layer
    scores = model.logits if isinstance(model, HasLogits) else model
    count = len(jax.eval_shape(lambda x: feature_maps.feature_maps(scores, x), x))
    return layer_number("layer", layer, count)


@eqx.filter_jit
def _sensitivity(model: Any, x: Array, cotangent: Array, layer: int | str) -> tuple[Array, Array]:
    if isinstance(layer, str):
        return taps.sensitivity(model, lambda model: model.logits(x), layer, cotangent)
    scores = model.logits if isinstance(model, HasLogits) else model
    return feature_maps.sensitivity(scores, layer, x, cotangent)


def _numbers(where: str, target: Any, names: tuple[str, ...]) -> Any:
    """Classes by number, from numbers or names."""
    if not isinstance(target, str):
        return target
    if target not in names:
        raise ArgumentError(
            f"{where}(target={target!r}): there is no such class", remedy=f"known: {', '.join(names)}"
        )
    return np.int32(names.index(target))


def _resized(coarse: Float[Array, "batch rows columns"], size: tuple[int, int]) -> Array:
    return jax.image.resize(coarse, (len(coarse), *size), "bilinear")


__all__ = ["Subject", "class_activation_map", "grad_cam"]
