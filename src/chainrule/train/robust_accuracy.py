"""How robust a network is while it learns from attacked examples, and whether it has learned one attack only.

A network that is trained on single steps may suddenly learn to be right after that step and nowhere else: accuracy
under the step rises while that under many steps falls to nothing (catastrophic over-fitting; Wong, Rice and Kolter,
2020, arXiv:2001.03994). Both are measured on the same few validation examples at every evaluation; a run in which it
happens is stopped, since what follows only looks better.
"""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from chainrule.core import random
from chainrule.core.compiling import compiled
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.splits import Rows
from chainrule.models.protocol import HasOutputs, Model
from chainrule.nn.attacks import MEASURES, climb
from chainrule.train.adversary import MANY_STEPS, raw_range, step_length
from chainrule.train.config import Adversary, TrainConfig

STEPS = 10
"""Steps of the attack that judges."""
EXAMPLES = 256
"""Validation examples that are attacked, at most."""
ROBUST, SINGLE = "robust_accuracy", "single_step_accuracy"
_FALLEN = 0.5
"""Share of the best robust accuracy below which it has collapsed."""


def names(config: TrainConfig, model: Model, data: Data) -> tuple[str, ...]:
    """The numbers that an evaluation adds: none without attacks, or where answers are not right or wrong."""
    judged = (
        isinstance(model, HasOutputs) and targets.of(data.schema).one_class and isinstance(data.val, Rows)
    )
    if not config.adversary.eps or not judged or not len(data.val):
        return ()
    return (ROBUST, SINGLE) if config.adversary.steps == 1 else (ROBUST,)


def measured(config: TrainConfig, model: Model, data: Data) -> dict[str, float]:
    """Accuracy of validation examples under many steps, and under the single step of training where that is one."""
    wanted = names(config, model, data)
    if not wanted:
        return {}
    assert isinstance(model, HasOutputs)
    assert isinstance(data.val, Rows)
    still = eqx.nn.inference_mode(model)
    batch = data.val.batch(np.arange(min(len(data.val), EXAMPLES)))
    raw = jnp.asarray(data.val.scaling.inverse(np.asarray(batch.x, np.float32)))
    factor, shift = (jnp.asarray(v, raw.dtype) for v in (data.val.scaling.factor, data.val.scaling.shift))
    settings, key = config.adversary, random.key(config.seed, "robust accuracy")
    lengths = {ROBUST: (MANY_STEPS * settings.eps / STEPS, STEPS), SINGLE: (step_length(settings), 1)}
    return {
        name: float(
            _accuracy(still, raw, jnp.asarray(batch.y), (shift, factor), settings, lengths[name], key)
        )
        for name in wanted
    }


@compiled
def _accuracy(
    model: HasOutputs,
    raw: Array,
    y: Array,
    scaling: tuple[Array, Array],
    settings: Adversary,
    attack: tuple[float, int],
    key: Key,
) -> Scalar:
    size, steps = attack
    shift, factor = (v.reshape((1,) * (raw.ndim - v.ndim) + v.shape) for v in scaling)

    def logits(raw: Array) -> Array:
        return model.logits((raw - shift) * factor)

    moved = climb(
        lambda raw: MEASURES["cross-entropy"](logits(raw), y),
        *(raw, settings.eps, size, steps),
        norm=settings.norm,
        key=key,
        bounds=raw_range(model),
    )
    right = (logits(raw).argmax(axis=-1) == y) & (logits(moved).argmax(axis=-1) == y)
    return right.astype(jnp.float32).mean()


def collapse(settings: Adversary, history: Mapping[str, np.ndarray]) -> str:
    """Why a run has to stop: it has learned the single step of its attack and nothing else; empty where it has not.

    A history is that of `Run.metrics`.
    """
    if settings.steps > 1 or not settings.eps or not {ROBUST, SINGLE} <= set(history):
        return ""
    seen = (history["split"] == "val") & np.isfinite(history[ROBUST])
    step, robust, single = (history[name][seen] for name in ("step", ROBUST, SINGLE))
    if len(step) < 2:
        return ""
    best = int(robust.argmax())
    if robust[-1] >= _FALLEN * robust[best] or single[-1] <= single[best]:
        return ""
    return (
        f"catastrophic over-fitting: from step {int(step[best])} to {int(step[-1])} accuracy under {STEPS} steps fell "
        f"from {robust[best]:.1%} to {robust[-1]:.1%} while that under the single step of training rose from "
        f"{single[best]:.1%} to {single[-1]:.1%}; train with adversary.steps=2 or more, a smaller adversary.eps or a "
        "smaller optimizer.lr"
    )


__all__ = ["ROBUST", "SINGLE", "collapse", "measured", "names"]
