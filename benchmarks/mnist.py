"""Binarised MNIST: a training step timed, a whole run trained, and the run judged by the official test images.

MNIST is looked for in the folder `mnist` of `$CHAINRULE_DATA`. Whole runs are made for a GPU.
"""

import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax

from benchmarks.harness import Case, Local, Options, Prepared, measure
from benchmarks.workloads import first_losses, steady_seconds
from chainrule.data.dataset import Data
from chainrule.models.protocol import Model
from chainrule.train import Run, fit

NEVER = 10**9
EVALUATIONS = 10
"""Looks at the validation images in a run."""


def timed(
    label: str, model: Model, data: Data, options: Options, *, steps: int = 2000, **settings: Any
) -> tuple[Case, dict[str, str]]:
    """Seconds per step of `fit`, with evaluations and checkpoints out of the way, over so many steps on a GPU."""
    still = {
        **settings,
        "epochs": None,
        "schedule": {"name": "constant"},  # a warm-up can be longer than what is timed
        "eval_every": NEVER,
        "save_every": NEVER,
    }
    steps = 60 if jax.default_backend() == "cpu" else steps
    ours = Local(
        "chainrule",
        lambda: Prepared(*first_losses(model, data, 3, **still)),
        lambda: steady_seconds(model, data, steps, **still),
    )
    return measure(label, [ours], rounds=options.rounds, tolerance=0.0, watch=options.watch)


def judged(model: Model, data: Data, judge: Callable[[Run], str], settings: Mapping[str, Any]) -> str:
    """Train to the end and say what `judge` finds, and how long training took."""
    began = time.perf_counter()
    steps = settings["epochs"] * (len(data.train) // settings["batch"])
    every = max(1, steps // EVALUATIONS)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/run"
        run = fit(model, data, run=path, log_every=every, eval_every=every, save_every=every, **settings)
        seconds = time.perf_counter() - began
        return f"{judge(run)}; {run.step:,} steps in {seconds:.0f} s"


__all__ = ["judged", "timed"]
