"""How far apart two data sets of your own are: a lower bound of an f-divergence, beside that of two halves of one."""

from typing import Any, final

import numpy as np
from pydantic import Field

from chainrule import data as sources
from chainrule.core import random
from chainrule.core.errors import DataError
from chainrule.data import kinds
from chainrule.data.dataset import Data
from chainrule.explain.methods.divergence_bounds import beside_floor
from chainrule.explain.protocol import Experiment, Listener, Outcome, Settings
from chainrule.probability.divergences.named import SHORT_NAMES


@final
class DivergenceBoundSettings(Settings):
    """The two data sets and the critic."""

    data: str = Field("moons", description="name or path of the first data")
    against: str = Field("pinwheel", description="name or path of the second data")
    load: dict[str, Any] = Field(default_factory=dict, description="options of both, e.g. load.n=2000")
    divergence: str = Field(
        "2-jsd",
        description=f"{', '.join(SHORT_NAMES)}, or a convex formula of the ratio u = p/q such as (u-1)^2/(u+1)",
    )
    n: int = Field(20_000, ge=40, le=1_000_000, description="points of each, at most")
    steps: int = Field(1500, ge=1, le=1_000_000, description="of training, at most")
    width: int = Field(64, ge=1, le=4096, description="hidden units of the critic, two layers of them")
    seed: int = Field(0, ge=0, description="which points, and weights")


def run(settings: DivergenceBoundSettings, listener: Listener) -> Outcome:
    """Load both, fit critics, and report the bound beside its floor."""
    loaded = [sources.load(name, **settings.load) for name in (settings.data, settings.against)]
    for one in loaded:
        listener(f"{one.name}: {one.describe()}")
    x, y = (_rows(one, settings) for one in loaded)
    half = len(x) // 2
    found = beside_floor(
        *(x[:half], y[:half], x[half:]),
        names=(f"examples of {loaded[0].name}", f"examples of {loaded[1].name}"),
        of_floor=f"two halves of {loaded[0].name}",
        divergence=settings.divergence,
        key=random.key(settings.seed, "divergence-bound"),
        steps=settings.steps,
        width=settings.width,
    )
    targets = any(one.train.y is not None for one in loaded)
    said = (
        ["Only inputs are compared; targets are left out (load.target=none makes columns of them)."]
        if targets
        else []
    )
    return Outcome([*found.findings, *said], [found.picture(x, y)], found.table(), found.numbers)


def _rows(one: Data, settings: DivergenceBoundSettings) -> np.ndarray:
    """Some examples of all splits in the original units, in random order."""
    if not kinds.of(one.schema).comparable:
        raise DataError(
            f"{one.name}: a critic compares examples of numbers, not tokens",
            remedy="give a table, points or images",
        )
    raw = [one.scaling.inverse(np.asarray(split.x)) for split in (one.train, one.val, one.test) if len(split)]
    rows = np.concatenate(raw).reshape(sum(map(len, raw)), -1)
    chosen = np.random.default_rng(settings.seed).permutation(len(rows))[: settings.n]
    return rows[chosen]


experiment = Experiment(
    "A lower bound of an f-divergence between two data sets of yours, beside that of two halves of one.",
    DivergenceBoundSettings,
    run,
    toy={"load": {"n": 100}, "steps": 20, "width": 4},
    reference="Nguyen, Wainwright and Jordan, Estimating divergence functionals and the likelihood ratio by convex "
    "risk minimization, IEEE Transactions on Information Theory, 2010",
)

__all__ = ["DivergenceBoundSettings", "experiment", "run"]
