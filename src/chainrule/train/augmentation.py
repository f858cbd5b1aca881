"""Images of a training batch, changed at random as the settings say; see `nn.scenes` and `nn.augment`."""

import jax.numpy as jnp
import numpy as np

from chainrule import models
from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Key
from chainrule.data import targets
from chainrule.data.batches import Batch, Mixed
from chainrule.data.splits import Split
from chainrule.data.targets.boxes import FILLER
from chainrule.models.protocol import CanLocate, HasOutputs, Model
from chainrule.nn import augment, scenes
from chainrule.train.config import Augment

_LEAST = 2.0
"""Pixels a side that must be left of a box for it to stay a target."""


def check(settings: Augment, split: Split, model: Model) -> None:
    """Refuse data that are not images, moves beyond the size of an image, and mixing where no target is predicted."""
    if settings == Augment():
        return
    one = split.batch(np.zeros(1, np.int32))
    if np.ndim(one.x) != 4 or np.asarray(one.x).dtype.kind != "f":
        raise ArgumentError(
            f"augment: examples of shape {np.shape(one.x)[1:]} are not images",
            remedy="leave augment.* out for data that are not images",
        )
    smallest = min(np.shape(one.x)[1:3])
    if settings.crop > smallest:
        raise ArgumentError(
            f"augment.crop={settings.crop}: images of {smallest} pixels cannot be moved so far",
            remedy=f"an eighth of their size is usual: augment.crop={max(1, smallest // 8)}",
        )
    moves = settings.flip or settings.crop or settings.resized_crop < 1 or settings.rand_augment
    if one.y is not None and np.ndim(one.y) >= 3 and moves and not isinstance(model, CanLocate):
        raise ArgumentError(
            f"augment: targets of shape {np.shape(one.y)[1:]} would not move with their images",
            remedy="use augment.colour alone",
        )
    if settings.mixup or settings.cutmix:
        which = "mixup" if settings.mixup else "cutmix"
        if not isinstance(model, HasOutputs) or one.y is None:
            raise CapabilityError(
                f"augment.{which}: {models.title(model)} predicts no target that could be mixed with its images",
                remedy="leave augment.mixup and augment.cutmix out",
            )


def augmented(batch: Batch, key: Key, settings: Augment, model: Model) -> Batch:
    """The batch with its images changed; nothing but the key decides how."""
    return mixed(changed(batch, key, settings, model), key, settings)


def changed(batch: Batch, key: Key, settings: Augment, model: Model) -> Batch:
    """The batch with each image changed by itself; examples of any kind where nothing is to be changed.

    Boxes and masks of a model that says where things are go the way of their images; a box that has left its image, or
    nearly so, is no target any more.
    """
    if settings == Augment():
        return batch
    target = targets.of(model.schema) if isinstance(model, CanLocate) and batch.y is not None else None
    boxed, masked = target is not None and target.has_boxes, target is not None and target.has_mask
    found = scenes.augmented(
        scenes.Scenes(batch.x, batch.y if masked else None, batch.y[..., :4] if boxed else None),
        key,
        resized_crop=settings.resized_crop,
        flip=settings.flip,
        crop=settings.crop,
        operations=settings.rand_augment,
        magnitude=settings.magnitude,
        light=settings.colour,
    )
    y = batch.y
    if found.boxes is not None:
        left = (found.boxes[..., 2:] - found.boxes[..., :2]).min(axis=-1) >= _LEAST
        y = jnp.concatenate([found.boxes, jnp.where(left, y[..., 4], FILLER)[..., None]], axis=-1)
    return batch._replace(x=found.images, y=y if found.masks is None else found.masks)


def mixed(batch: Batch, key: Key, settings: Augment) -> Batch:
    """The batch with images and targets mixed, where the settings ask for it."""
    if not (settings.mixup or settings.cutmix):
        return batch
    x, y, weights = batch.x, batch.y, batch.weights
    mix = augment.draw_mix(
        *(random.named(key, "mix"), len(x), x.shape[1:3]), mixup=settings.mixup, cutmix=settings.cutmix
    )
    others = None if weights is None else weights[mix.order]
    return batch._replace(x=augment.mix_images(x, mix), y=Mixed(y, y[mix.order], others, mix.share))


__all__ = ["augmented", "changed", "check", "mixed"]
