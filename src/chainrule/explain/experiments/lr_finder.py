"""The learning-rate finder on a model and data of choice."""

from typing import Any, final

from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core.quoting import shell_word
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.train import find_lr
from chainrule.train.finder import greedy_lr


@final
class FinderSettings(Settings):
    """The ramp."""

    model: str = Field("mlp", description="name of a model")
    data: str = Field("digits", description="name or path of data")
    optimizer: str = Field("adamw", description="method whose rate is sought")
    low: float = Field(1e-7, gt=0, description="first learning rate")
    high: float = Field(10.0, gt=0, description="last learning rate")
    steps: int = Field(100, ge=10, description="mini-batches")
    batch: int = Field(64, ge=1, description="examples per step")
    seed: int = Field(0, ge=0, description="initial weights and batches")


def run(settings: FinderSettings, listener: Listener) -> Outcome:
    """Raise the rate from batch to batch and watch the loss."""
    del listener
    data = sources.load(settings.data)
    model = models.build(settings.model, data, seed=settings.seed)
    ramp: dict[str, Any] = {
        "low": settings.low,
        "high": settings.high,
        "steps": settings.steps,
        "seed": settings.seed,
        "batch": min(settings.batch, len(data.train)),
        "optimizer": {"name": settings.optimizer},
    }
    found, greedy = find_lr(model, data, **ramp), greedy_lr(model, data, **ramp)
    return Outcome(
        [
            f"The loss falls fastest at a learning rate of {found.steepest:.2g}; a tenth of the rate of its minimum "
            f"is {found.safe:.2g}.",
            f"The first step that makes its own batch worse comes after a rate of {greedy:.2g}.",
            f"Train with it: chainrule train {settings.model} {shell_word(f'data={settings.data}')} "
            f"optimizer.lr={found.steepest:.1g}",
        ],
        [found.picture()],
        None,
        {
            "steepest": found.steepest,
            "safe": found.safe,
            "greedy": greedy,
            "rates": found.rates.tolist(),
            "losses": found.losses.tolist(),
        },
    )


experiment = Experiment(
    "Learning-rate finder: loss while the rate rises from batch to batch, and two suggestions.",
    FinderSettings,
    run,
    toy={"data": "moons", "steps": 20, "batch": 16},
    reference="Smith, Cyclical learning rates for training neural networks, 2017, arXiv:1506.01186",
)

__all__ = ["FinderSettings", "experiment", "run"]
