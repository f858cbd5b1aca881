"""The bound of a diffusion model, term by term: what the prior, every noise level and the reconstruction cost.

The numbers are those of `chainrule score`, from the same examples and the same noise, taken apart.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, final

import equinox as eqx
import numpy as np
from pydantic import Field

from chainrule.core import random
from chainrule.core.pictures import Lines, Table
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.data.splits import Subset
from chainrule.explain.protocol import Outcome, Probe, Settings
from chainrule.models.protocol import HasBoundByLevel, Model
from chainrule.train import Run
from chainrule.train.evaluation import over
from chainrule.train.scores import ESTIMATED


@final
class BoundTermsSettings(Settings):
    """The examples."""

    split: Literal["test", "val", "train"] = Field("test", description="which examples")
    n: int = Field(ESTIMATED, ge=2, description="examples at most; more have smaller errors")


class _Term(NamedTuple):
    """A term of the bound: its mean over examples, and the standard error of that."""

    name: str
    value: float
    error: float


def examine(run: Run, data: Data, settings: BoundTermsSettings) -> Outcome:
    """Every term of the bound of held-out examples."""
    model = eqx.nn.inference_mode(run.model)
    assert isinstance(model, HasBoundByLevel)
    whole = data.examples(settings.split)
    part = Subset.drawn(whole, settings.n) if settings.n < len(whole) else whole
    key = random.key(run.settings.seed, "score")
    found, levels = over(
        "bound", lambda model, batch, key: model.bound_by_level(batch, key), model, part, key
    )
    scale, unit = (data.schema.dimensions * math.log(2), "bits/dim") if data.schema.levels else (1.0, "nats")
    costs = {name: np.asarray(values, np.float64) for name, values in found.parts.items()}
    costs["reconstruction"] = data.nats(found.elbo) - sum(costs.values())
    lams = np.asarray(levels.lam, np.float64).mean(axis=0)
    terms = [
        *(_term(name, costs[name] / scale) for name in costs if name != "diffusion"),
        *(
            _term(f"lam {lam:.2f}", values / scale)
            for lam, values in zip(lams, np.asarray(levels.nats, np.float64).T, strict=True)
        ),
    ]
    total = _term("bound", data.nats(found.elbo) / scale)
    return _outcome(terms, total, lams, unit, len(part), settings.split)


def _term(name: str, values: np.ndarray) -> _Term:
    return _Term(name, float(values.mean()), float(values.std() / math.sqrt(len(values))))


def _outcome(
    terms: Sequence[_Term], total: _Term, lams: np.ndarray, unit: str, count: int, split: str
) -> Outcome:
    ends, levels = terms[: -len(lams)], terms[-len(lams) :]
    worst = max(levels, key=lambda term: term.value)
    said = ", ".join(f"{term.name} {term.value:.3f}" for term in ends)
    values, errors = (np.array([getattr(term, of) for term in levels]) for of in ("value", "error"))
    return Outcome(
        [
            f"The bound of {count:,} {split} examples is {total.value:.3f} ± {total.error:.2g} {unit}: {said}, and "
            f"{values.sum():.3f} for removing noise.",
            f"The dearest of {len(levels)} noise levels is that around {worst.name}: {worst.value:.3f} ± "
            f"{worst.error:.2g}. lam is the log signal-to-noise ratio: at 0 there is as much noise as signal, above it "
            "less.",
        ],
        [
            Lines(
                "bound-terms",
                "What each noise level adds to the bound",
                "log signal-to-noise ratio (lam)",
                unit,
                {"": (lams[::-1], values[::-1], (values - errors)[::-1], (values + errors)[::-1])},
                caption=f"Clean levels on the right. The shade is one standard error over {count:,} examples.",
            )
        ],
        Table(
            "bound-terms",
            "Terms of the bound",
            ["term", unit, "± standard error"],
            [[*t] for t in (*terms, total)],
        ),
        {
            "unit": unit,
            "bound": total.value,
            "bound_error": total.error,
            "terms": {term.name: term.value for term in terms},
            "errors": {term.name: term.error for term in terms},
        },
    )


def _applies(model: Model, schema: Schema) -> bool:
    del schema
    return isinstance(model, HasBoundByLevel)


probe = Probe(
    "The bound of a diffusion model, term by term and noise level by noise level.",
    "a diffusion model",
    _applies,
    examine,
    BoundTermsSettings,
    toy={"n": 4},
)

__all__ = ["BoundTermsSettings", "examine", "probe"]
