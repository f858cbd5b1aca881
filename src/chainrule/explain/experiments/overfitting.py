"""Over-fitting, and two things against it: dropout and early stopping."""

from typing import Any, final

import equinox as eqx
import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule import models
from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.explain.methods.training import Trained, stop_step, train
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.models.protocol import Model
from chainrule.train.evaluation import mean_loss


@final
class OverfittingSettings(Settings):
    """A network with far more weights than examples."""

    data: str = Field("moons", description="data with classes")
    examples: int = Field(
        120, ge=10, description="size of the data before they are split (data drawn from a distribution)"
    )
    noise: float = Field(0.35, ge=0, description="noise of the data (data drawn from a distribution)")
    width: int = Field(256, ge=1, description="units of each hidden layer")
    dropout: float = Field(0.5, gt=0, lt=1, description="share dropped in the second run")
    steps: int = Field(1500, ge=10, description="steps of each run")
    every: int = Field(25, ge=1, description="steps between two evaluations on the validation split")
    patience: int = Field(5, ge=1, description="evaluations without improvement before early stopping")
    lr: float = Field(3e-3, gt=0, description="learning rate of Adam")
    seed: int = Field(0, ge=0, description="data, weights and batches")


def run(settings: OverfittingSettings, listener: Listener) -> Outcome:
    """Train with and without dropout and see where early stopping would have ended."""
    drawn = settings.data in ("moons", "rings", "xor")
    drawing: dict[str, Any] = {"n": settings.examples, "noise": settings.noise} if drawn else {}
    data = sources.load(settings.data, split=(0.4, 0.3, 0.3), seed=settings.seed, **drawing)
    series: dict[str, tuple[np.ndarray, ...]] = {}
    rows: list[list[Any]] = []
    numbers: dict[str, dict[str, float]] = {}
    for name, share in (("no dropout", 0.0), (f"dropout {settings.dropout:g}", settings.dropout)):
        one, seen = _once(settings, data, share)
        losses = one.val["loss"]
        series[f"{name}, validation"] = (one.steps, losses)
        series[f"{name}, training"] = (one.steps, seen)
        stop, best = stop_step(one.steps, losses, settings.patience)
        lowest = float(losses[one.steps == best][0])
        rows.append([name, float(seen[-1]), float(losses[-1]), float(losses[-1] - seen[-1]), lowest, best])
        columns = ("train", "val", "gap", "best_val", "best_step")
        numbers[name] = {**dict(zip(columns, rows[-1][1:], strict=True)), "stop_step": stop}
        listener(f"{name}: training loss {seen[-1]:.4g}, validation loss {losses[-1]:.4g}")
    plain, dropped = rows
    stop, best = int(numbers["no dropout"]["stop_step"]), plain[5]
    picture = Lines(
        "overfitting-loss",
        f"{len(data.train)} examples, {settings.width} units a layer",
        "step",
        "loss, nats",
        series,
        log_y=True,
        marks=((best, f"best without dropout, step {best}"), (stop, f"stopped at {stop}")),
        caption="Training loss is measured without dropout, on the whole training split.",
    )
    heads = ["run", "training loss", "validation loss", "gap", "best validation loss", "at step"]
    return Outcome(
        [
            f"Without dropout the training loss ends at {plain[1]:.3g} and the validation loss at {plain[2]:.3g}: "
            f"an over-fitting gap of {plain[3]:.3g}.",
            f"With dropout {settings.dropout:g} the gap is {dropped[3]:.3g}.",
            f"Early stopping with patience {settings.patience} ends at step {stop} and goes back to step {best}, "
            f"where the validation loss was {plain[4]:.3g}.",
        ],
        [picture],
        Table("overfitting-table", "In the end, and at the best step", heads, rows),
        numbers,
    )


def _once(settings: OverfittingSettings, data: sources.Data, share: float) -> tuple[Trained, np.ndarray]:
    """One run, and its loss on the whole training split at every look."""
    seen: list[float] = []

    def look(step: int, model: Model) -> None:
        del step
        still = eqx.nn.inference_mode(model)
        seen.append(mean_loss(still, data.train, random.key(settings.seed, "look"))[0]["loss"])

    found = train(
        models.build("mlp", data, seed=settings.seed, width=settings.width, dropout=share),
        data,
        steps=settings.steps,
        every=min(settings.every, settings.steps),
        watch=look,
        seed=settings.seed,
        batch=min(32, len(data.train)),
        optimizer={"name": "adam", "lr": settings.lr},
        schedule={"name": "constant"},
    )
    return found, np.array(seen)


experiment = Experiment(
    "Over-fitting: the gap between training and validation loss, with and without dropout and early stopping.",
    OverfittingSettings,
    run,
    toy={"steps": 40, "every": 10, "width": 16, "examples": 60},
    reference="Srivastava et al., Dropout, JMLR 15, 2014; Prechelt, Early stopping, but when?, 1998",
)

__all__ = ["OverfittingSettings", "experiment", "run"]
