"""Adversarial training: examples of a batch moved within a bound to where the present network errs most.

Goodfellow, Shlens and Szegedy, *Explaining and harnessing adversarial examples*, ICLR 2015 (arXiv:1412.6572); Madry et
al., *Towards deep learning models resistant to adversarial attacks*, ICLR 2018 (arXiv:1706.06083). A single step starts
at a random point and is a little longer than the bound, without which networks learn to be right for that step alone
(Wong, Rice and Kolter, *Fast is better than free*, ICLR 2020, arXiv:2001.03994). With `trades` the network learns
examples as they are, and that its answers within the bound stay what they are (Zhang et al., *Theoretically principled
trade-off between robustness and accuracy*, ICML 2019, arXiv:1901.08573).
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from chainrule import models
from chainrule.core import random
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Float, Key, Scalar
from chainrule.data import kinds, targets
from chainrule.data.batches import Batch
from chainrule.data.splits import Rows, Split
from chainrule.models.protocol import HasOutputs, Metrics, Model, Part
from chainrule.nn.attacks import Bounds, check_radius, climb
from chainrule.train.config import Adversary

ONE_STEP = 1.25
"""Length of a single step, in units of the bound."""
MANY_STEPS = 2.5
"""Length of all steps together, where there are several."""


class AttackedBatch(NamedTuple):
    """A batch as it is and as an attack left it; the same where there is none."""

    clean: Batch
    moved: Batch

    def loss(self, model: Any, part: Part, key: Key, settings: Adversary) -> tuple[Scalar, Metrics, Any]:
        """What is minimised: the loss of attacked examples, of both, or of clean ones and of how answers differ."""
        if self.moved is self.clean:
            return part.loss(model, self.clean, key)
        if settings.trades:
            loss, metrics, after = part.loss(model, self.clean, key)
            answers = [model.outputs(batch.x, key)[0] for batch in (self.clean, self.moved)]
            apart = divergence(*answers).mean()
            return loss + settings.trades * apart, {**metrics, "divergence": apart}, after
        loss, metrics, after = part.loss(model, self.moved, key)
        if settings.weight < 1:
            as_it_is, _, _ = part.loss(model, self.clean, key)
            loss = settings.weight * loss + (1 - settings.weight) * as_it_is
        return loss, metrics, after


def check(settings: Adversary, split: Split, model: Model) -> None:
    """Refuse what cannot be attacked, bounds beyond the range, and settings of an attack that is not made."""
    if not settings.eps:
        _check_off(settings)
        return
    if not isinstance(model, HasOutputs):
        raise CapabilityError(
            f"adversary.eps: {models.title(model)} predicts no target that an attack could make it miss",
            remedy="leave adversary.* out",
        )
    if not isinstance(split, Rows) or kinds.of(model.schema).has_tokens:
        raise ArgumentError(
            f"adversary.eps={settings.eps:g}: {kinds.of(model.schema).noun} are no numbers that could move a little",
            remedy="leave adversary.* out for such data",
        )
    if settings.trades and not targets.of(model.schema).one_class:
        raise ArgumentError(
            f"adversary.trades={settings.trades:g}: {models.title(model)} predicts no class",
            remedy="leave adversary.trades out; adversary.eps alone moves examples up any loss",
        )
    check_radius("adversary", settings.eps, raw_range(model), model.schema.shape, settings.norm)


def _check_off(settings: Adversary) -> None:
    """Refuse settings of an attack that is not made."""
    usual = Adversary()
    for name in type(settings).model_fields:
        if getattr(settings, name) != getattr(usual, name):
            raise ArgumentError(
                f"adversary.{name}={getattr(settings, name)}: nothing is attacked, for adversary.eps is 0",
                remedy="give adversary.eps, in raw units: 8 for 8/255 of 8-bit images",
            )


def attacked(
    batch: Batch, key: Key, settings: Adversary, split: Split, model: Model, part: Part
) -> AttackedBatch:
    """The batch, and with the share of its examples that the settings name moved up the loss of the part.

    The network is in inference mode meanwhile: no statistics move and nothing is dropped.
    """
    if not settings.eps:
        return AttackedBatch(batch, batch)
    assert isinstance(split, Rows)
    assert isinstance(model, HasOutputs)
    still = eqx.nn.inference_mode(model)
    scaling, total = split.scaling, len(batch.x)
    count = min(total, math.ceil(settings.share * total))
    answers = still.logits(batch.x[:count]) if settings.trades else None

    def loss(raw: Array) -> Array:
        moved = scaling.apply(raw)
        if answers is not None:
            return divergence(answers, still.logits(moved)).sum()
        # Those that stay as they are stand beside: targets of mixed images are arrays of the whole batch.
        x = jnp.concatenate([moved, batch.x[count:]])
        return total * part.loss(still, batch._replace(x=x), key)[0]

    moved = climb(
        *(loss, scaling.inverse(batch.x[:count]), settings.eps, step_length(settings), settings.steps),
        norm=settings.norm,
        key=random.named(key, "adversary"),
        bounds=raw_range(model),
    )
    x = jnp.concatenate([scaling.apply(moved), batch.x[count:]])
    return AttackedBatch(batch, batch._replace(x=x))


def step_length(settings: Adversary) -> float:
    """The length of a step of training's attack."""
    return settings.eps * (ONE_STEP if settings.steps == 1 else MANY_STEPS / settings.steps)


def divergence(
    first: Float[Array, "batch classes"], second: Float[Array, "batch classes"]
) -> Float[Array, " batch"]:
    """Kullback-Leibler divergence of the distribution that logits stand for from that of others.

    >>> round(divergence(jnp.array([[0.0, 0.0]]), jnp.array([[0.0, jnp.log(3.0)]])).item(), 4)
    0.1438
    """
    logs = [
        jax.nn.log_softmax(logits.astype(jnp.promote_types(logits.dtype, jnp.float32)))
        for logits in (first, second)
    ]
    return (jnp.exp(logs[0]) * (logs[0] - logs[1])).sum(axis=-1)


def raw_range(model: HasOutputs) -> Bounds | None:
    """The range of raw values, where there is one."""
    return kinds.of(model.schema).raw_range(model.schema)


__all__ = ["AttackedBatch", "attacked", "check", "divergence", "raw_range", "step_length"]
