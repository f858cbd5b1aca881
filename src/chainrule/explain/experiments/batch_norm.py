"""Batch normalisation taken apart: statistics of the batch in training, running averages in evaluation."""

from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.pictures import Lines, Table
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.nn import BatchNorm


@final
class BatchNormSettings(Settings):
    """The batches."""

    batch: int = Field(16, ge=2, description="examples in each; of one value there is no variance")
    steps: int = Field(60, ge=1, le=10_000, description="batches in training")
    mean: float = Field(3.0, description="of the feature that is normalised")
    scale: float = Field(2.0, gt=0, description="standard deviation of the feature")
    new_weight: float = Field(0.1, gt=0, le=1, description="of each batch in the running averages")
    eps: float = Field(1e-5, gt=0, description="added to the variance, under the root")
    unbiased: bool = Field(False, description="store the unbiased variance, as PyTorch does")
    seed: int = Field(0, ge=0, description="draws the batches")


def run(settings: BatchNormSettings, listener: Listener) -> Outcome:
    """Move a layer on with batch after batch, and look at what it would do in evaluation."""
    del listener
    random = np.random.default_rng(settings.seed)
    batches = settings.mean + settings.scale * random.normal(size=(settings.steps, settings.batch, 1))
    layer = BatchNorm(1, new_weight=settings.new_weight, eps=settings.eps, unbiased=settings.unbiased)
    advance = eqx.filter_jit(lambda layer, x: layer.advance(x))
    means, variances, outputs = [], [], None
    for x in batches.astype(np.float32):
        outputs, layer = advance(layer, jnp.asarray(x))
        means.append(float(layer.mean[0]))
        variances.append(float(layer.var[0]))
    last = batches[-1]
    by_hand = (last - last.mean()) / np.sqrt(last.var() + settings.eps)
    evaluated = np.asarray(eqx.filter_jit(layer)(jnp.asarray(last, jnp.float32)))
    apart = float(np.abs(np.asarray(outputs) - by_hand).max())
    between = float(np.abs(np.asarray(outputs) - evaluated).max())
    unbiased = last.var() * settings.batch / (settings.batch - 1)
    return Outcome(
        [
            f"In training the last batch gets mean {float(np.mean(np.asarray(outputs))):.1e} and variance "
            f"{float(np.var(np.asarray(outputs))):.6f}; by (x - mean) / sqrt(var + eps) with the biased variance it is "
            f"the same up to {apart:.1e}.",
            f"After {settings.steps} batches the running mean is {means[-1]:.4g} (true {settings.mean:g}), the "
            f"running variance {variances[-1]:.4g} (true {settings.scale**2:g}).",
            f"In evaluation the same batch is up to {between:.3g} away from what training made of it.",
            f"PyTorch stores the unbiased variance, {unbiased:.4g} for the last batch instead of {last.var():.4g}; "
            f"its momentum is the weight of the new value ({settings.new_weight:g}), in other libraries that of the "
            f"old ({1 - settings.new_weight:g}).",
        ],
        _pictures(settings, batches[:, :, 0], means, variances),
        Table(
            "batch-norm-table",
            "The last batch",
            ["input", "in training", "in evaluation"],
            [
                [float(a), float(b), float(c)]
                for a, b, c in zip(last[:8, 0], np.asarray(outputs)[:8, 0], evaluated[:8, 0], strict=True)
            ],
        ),
        {
            **{"running_mean": means[-1], "running_variance": variances[-1], "deviation": apart},
            **{"train_against_evaluation": between, "unbiased": float(unbiased), "biased": float(last.var())},
        },
    )


def _pictures(
    settings: BatchNormSettings, each: np.ndarray, means: list[float], variances: list[float]
) -> list[Lines]:
    steps = np.arange(1, settings.steps + 1, dtype=float)
    return [
        Lines(
            "batch-norm-mean",
            "Means: of each batch and running",
            "batch",
            "mean",
            {"batch": (steps, each.mean(axis=1)), "running": (steps, np.array(means))},
            caption=f"The running mean starts at 0 and comes within a tenth after "
            f"{int(np.ceil(np.log(0.1) / np.log1p(-min(settings.new_weight, 0.999999))))} batches.",
        ),
        Lines(
            "batch-norm-variance",
            "Variances: of each batch and running",
            "batch",
            "variance",
            {"batch": (steps, each.var(axis=1)), "running": (steps, np.array(variances))},
        ),
    ]


experiment = Experiment(
    "Batch normalisation taken apart: the statistics of a batch in training, running averages in evaluation.",
    BatchNormSettings,
    run,
    toy={"steps": 5},
    reference="Ioffe and Szegedy, Batch normalization, 2015, arXiv:1502.03167",
)

__all__ = ["BatchNormSettings", "experiment", "run"]
