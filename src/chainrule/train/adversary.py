"""Adversarial training: images of a batch moved within a bound to where the present network errs most.

Goodfellow, Shlens and Szegedy, *Explaining and harnessing adversarial examples*, ICLR 2015 (arXiv:1412.6572); Madry et
al., *Towards deep learning models resistant to adversarial attacks*, ICLR 2018 (arXiv:1706.06083). A single step starts
at a random point and is a little longer than the bound, without which networks learn to be right for that step alone
(Wong, Rice and Kolter, *Fast is better than free*, ICLR 2020, arXiv:2001.03994).
"""

import math

import equinox as eqx
import jax.numpy as jnp

from chainrule import models
from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Key
from chainrule.data import kinds
from chainrule.data.batches import Batch
from chainrule.data.splits import Rows, Split
from chainrule.models.protocol import HasOutputs, Model, Part
from chainrule.nn.attacks import Bounds, check_radius, climb
from chainrule.train.config import Adversary

ONE_STEP = 1.25
"""Length of a single step, in units of the bound."""
MANY_STEPS = 2.5
"""Length of all steps together, where there are several."""


def check(settings: Adversary, split: Split, model: Model) -> None:
    """Refuse data without a range of raw values, models that predict no target, and bounds beyond the range."""
    if not settings.eps:
        return
    if not isinstance(model, HasOutputs):
        raise CapabilityError(
            f"adversary.eps: {models.title(model)} predicts no target that an attack could make it miss",
            remedy="leave adversary.* out",
        )
    if not isinstance(split, Rows) or not kinds.of(model.schema).spatial:
        raise ArgumentError(
            f"adversary.eps={settings.eps:g}: {kinds.of(model.schema).noun} are not images",
            remedy="leave adversary.* out for data that are not images",
        )
    entries = math.prod(model.schema.shape) if settings.norm == "2" else 1
    check_radius("adversary", settings.eps, _range(model), entries)


def attacked(batch: Batch, key: Key, settings: Adversary, split: Split, model: Model, part: Part) -> Batch:
    """The batch with the share of its images that the settings name moved up the loss of the part.

    The network is in inference mode meanwhile: no statistics move and nothing is dropped.
    """
    if not settings.eps:
        return batch
    assert isinstance(split, Rows)
    assert isinstance(model, HasOutputs)
    still = eqx.nn.inference_mode(model)
    scaling, total = split.scaling, len(batch.x)
    count = min(total, math.ceil(settings.share * total))

    def loss(raw: Array) -> Array:
        # Those that stay as they are stand beside: targets of mixed images are arrays of the whole batch.
        x = jnp.concatenate([scaling.apply(raw), batch.x[count:]])
        return total * part.loss(still, batch._replace(x=x), key)[0]

    length = ONE_STEP if settings.steps == 1 else MANY_STEPS / settings.steps
    moved = climb(
        *(loss, scaling.inverse(batch.x[:count]), settings.eps, length * settings.eps, settings.steps),
        norm=settings.norm,
        key=random.named(key, "adversary"),
        bounds=_range(model),
    )
    return batch._replace(x=jnp.concatenate([scaling.apply(moved), batch.x[count:]]))


def _range(model: HasOutputs) -> Bounds | None:
    return kinds.of(model.schema).raw_range(model.schema)


__all__ = ["attacked", "check"]
