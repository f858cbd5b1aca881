"""Rank calibration of conditional draws: whether held-out examples look like draws made for their conditions.

Of a model of parameters given simulated data this is simulation-based calibration: held-out pairs are draws from prior
and simulator, and the ranks of the parameters among posterior draws are uniform where the posterior is right.
"""

from typing import Any, final

import equinox as eqx
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.errors import CapabilityError
from chainrule.core.pictures import Lines, Table
from chainrule.data import kinds, targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.explain.protocol import Count, Outcome, Probe, Settings
from chainrule.models.protocol import CanSample, Model
from chainrule.probability.samples import RankCalibration, rank_calibration
from chainrule.train import Run

_FEWEST = 10
_AT_ONCE = 10_000
"""Draws of one call of the model, about."""
_SHOWN = 6
"""Entries in one picture at most."""


@final
class RanksSettings(Settings):
    """How many ranks, among how many draws."""

    n: Count = Field(500, description="held-out examples whose rank is found")
    draws: Count = Field(99, description="draws for the condition of each")
    bins: int = Field(20, ge=2, le=1000, description="bins of the histogram; fewer where examples are few")
    seed: int = Field(0, ge=0, description="of the draws")


def examine(run: Run, data: Data, settings: RanksSettings) -> Outcome:
    """Draw for the condition of each held-out example, and find its rank among the draws, entry by entry."""
    model: Any = eqx.nn.inference_mode(run.model)
    part, said = data.held_out()
    n = min(settings.n, len(part))
    if n < _FEWEST:
        raise CapabilityError(f"ranks of {n} held-out examples say nothing: it takes {_FEWEST} or more")
    batch = part.batch(np.unique(np.linspace(0, len(part) - 1, n).astype(int)))
    true = np.asarray(batch.x, np.float64).reshape(n, -1)
    found = rank_calibration(true, _drawn(model, np.asarray(batch.y), settings), settings.bins)
    names = [*data.schema.columns] or [f"entry {i + 1}" for i in range(true.shape[1])]
    concerns = found.concerns()
    worst = int(np.argmin(found.p_values))
    verdict = (
        "The draws are calibrated as far as these examples can tell"
        if found.is_uniform()
        else "The draws are not calibrated"
    )
    wrong = [f"Draws of {name} are {one}." for name, one in zip(names, concerns, strict=True) if one]
    return Outcome(
        [
            f"{verdict}: counts of ranks as uneven as those of {names[worst]} have probability "
            f"{found.p_values[worst]:.2g} under right draws.",
            *wrong,
            *said,
        ],
        [_histogram(found, names)],
        _table(found, names, concerns),
        {
            "uniform": found.is_uniform(),
            "p_value": dict(zip(names, found.p_values.tolist(), strict=True)),
            "mean_rank": dict(zip(names, found.shares.mean(axis=0).tolist(), strict=True)),
            "concerns": {name: one for name, one in zip(names, concerns, strict=True) if one},
        },
    )


def _drawn(model: Any, conditions: np.ndarray, settings: RanksSettings) -> np.ndarray:
    """Draws for each condition, a few conditions at once; calls are equally large, so that one program serves all."""
    few = max(1, min(_AT_ONCE // settings.draws, len(conditions)))
    filled = np.concatenate([conditions, np.repeat(conditions[-1:], -len(conditions) % few, axis=0)])
    key = random.key(settings.seed, "ranks")
    found = []
    for first in range(0, len(filled), few):
        asked = np.repeat(filled[first : first + few], settings.draws, axis=0)
        drawn = np.asarray(model.sample(random.at(key, first), len(asked), condition=asked), np.float64)
        found.append(drawn.reshape(few, settings.draws, -1))
    return np.concatenate(found)[: len(conditions)]


def _histogram(found: RankCalibration, names: list[str]) -> Lines:
    bins = len(found.expected)
    x = np.repeat(np.linspace(0, 1, bins + 1), 2)[1:-1]
    order = np.argsort(found.p_values, kind="stable")[:_SHOWN]
    some = f" Of {len(names)} entries, the {_SHOWN} most uneven ones." if len(names) > _SHOWN else ""
    flat = [np.repeat(one, 2) for one in (found.expected, found.low, found.high)]
    return Lines(
        "ranks",
        "Where held-out values stand among draws for their conditions",
        "rank, as a share of the draws",
        "examples",
        {"right draws": (x, *flat), **{names[i]: (x, np.repeat(found.counts[i], 2)) for i in sorted(order)}},
        caption=f"{len(found.ranks):,} held-out examples, {found.draws} draws for each. Right draws make every rank "
        "equally likely; the band holds 99 % of counts. Both ends too often: draws are too close together. The middle "
        "too often: too far apart. More at the left: too high. Draws that ignore their conditions "
        "pass, too; `nll_given_condition` among the scores "
        f"tells them apart.{some}",
    )


def _table(found: RankCalibration, names: list[str], concerns: Any) -> Table:
    outside = ((found.counts < found.low) | (found.counts > found.high)).sum(axis=1)
    middle = found.shares.mean(axis=0)
    rows = [
        [name, float(middle[i]), int(outside[i]), float(found.p_values[i]), concerns[i] or "nothing shows"]
        for i, name in enumerate(names)
    ]
    return Table(
        "rank-table",
        "Ranks by entry",
        ["entry", "mean rank", f"bins of {len(found.expected)} outside the band", "p-value", "draws are"],
        rows,
        caption="The mean rank of right draws is 0.5. The p-value is that of a chi-square test of equal counts.",
    )


def _applies(model: Model, schema: Schema) -> bool:
    rows = kinds.of(schema).has_rows and targets.of(schema).given and not targets.of(schema).has_tokens
    return isinstance(model, CanSample) and model.conditional and rows


probe = Probe(
    "Rank calibration: whether held-out rows look like draws made for their conditions.",
    "a model that draws rows of a table or points for a condition",
    _applies,
    examine,
    RanksSettings,
    toy={"n": 20, "draws": 9, "bins": 4},
)

__all__ = ["RanksSettings", "examine", "probe"]
