"""Images of a training batch, changed at random as the settings say; see `nn.augment`."""

import numpy as np

from chainrule.core import random
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Key
from chainrule.data.batches import Batch
from chainrule.data.splits import Split
from chainrule.nn import augment
from chainrule.train.config import Augment


def check(settings: Augment, split: Split) -> None:
    """Refuse data that are not images, and moves beyond the size of an image."""
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
    if one.y is not None and np.ndim(one.y) >= 3 and (settings.flip or settings.crop):
        raise ArgumentError(
            f"augment: targets of shape {np.shape(one.y)[1:]} would not move with their images",
            remedy="use augment.colour alone",
        )


def augmented(batch: Batch, key: Key, settings: Augment) -> Batch:
    """The batch with its images changed; nothing but the key decides how."""
    x = batch.x
    if settings.flip or settings.crop:
        to_move = random.named(key, "moves")
        moves = augment.draw_moves(to_move, len(x), flip=settings.flip, crop=settings.crop)
        x = augment.move_images(x, moves)
    if settings.colour:
        x = augment.relight(x, random.named(key, "light"), settings.colour)
    return batch._replace(x=x)


__all__ = ["augmented", "check"]
