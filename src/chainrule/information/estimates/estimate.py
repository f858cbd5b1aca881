"""Mutual information of two variables from pairs of their values: one call for every method, and all side by side."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, check_choice, suggest
from chainrule.core.pictures import Table
from chainrule.information.estimates.binning import binning
from chainrule.information.estimates.neighbours import ksg
from chainrule.information.estimates.pairwise import noise_added
from chainrule.information.estimates.result import MutualInformationEstimate, in_unit
from chainrule.information.estimates.samples import NotSuited, pair
from chainrule.information.estimates.variational import label_bound, variational
from chainrule.information.units import scale, takes_base

ESTIMATORS: dict[str, Callable[..., MutualInformationEstimate]] = {
    "binning": binning,
    "ksg": ksg,
    "noise": noise_added,
    **{name: functools.partial(variational, bound=name) for name in ("infonce", "mine", "nwj", "smile")},
    "label": label_bound,
}
"""By name; each takes the name of the caller, both variables, random numbers, and options of its own."""
_STREAM = 1
"""Tells the random numbers of estimators from those that a seed gives to everybody."""


@takes_base
def mutual_information_estimate(
    x: Any,
    y: Any,
    method: str = "ksg",
    *,
    unit: str = "bits",
    discrete: str = "auto",
    seed: int = 0,
    **options: Any,
) -> MutualInformationEstimate:
    """Mutual information of two variables from pairs of values, along the first axis of `x` and `y`.

    Whole numbers and words are labels (`discrete` says otherwise: "none", "x", "y" or "both"). Methods and options:

    - "ksg" (`k=3`): nearest neighbours, of numbers or of numbers and labels;
    - "binning" (`bins=30`, `edges="width"` or "quantile", `correct=True`, `shuffles=40`): a table of counts;
    - "noise" (`noise=0.1`): what y with noise says about the label x, or about which pair it is of;
    - "infonce", "mine", "nwj", "smile" (`critic="separable"`, "joint" or a function, `batch=128`, `steps=2000`, ...):
      bounds by a critic that is fitted on one half of the pairs and scored on the other;
    - "label": H(y) minus the cross-entropy with which a network predicts the labels y.

    >>> draws = np.random.default_rng(0).normal(size=(2, 2000))
    >>> found = mutual_information_estimate(draws[0], 0.9 * draws[0] + 0.436 * draws[1], unit="nats")
    >>> abs(found.value - 0.83) < 0.1, found.unit, found.meaning
    (True, 'nats', 'estimate')
    """
    where = "mutual_information_estimate"
    scale(unit, where)
    check_choice(where, "method", method, tuple(ESTIMATORS))
    whole(where, "seed", seed, least=0)
    estimator = ESTIMATORS[method]
    _known(where, method, estimator, options)
    first, second = pair(where, x, y, discrete)
    # A stream of its own: pairs that were drawn with the same seed must not meet the very numbers that made them.
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    found = estimator(where, first, second, rng, **options)
    return in_unit(found, unit, where)


def _known(where: str, method: str, estimator: Callable[..., Any], options: Mapping[str, Any]) -> None:
    known = [
        name
        for name, one in inspect.signature(estimator).parameters.items()
        if one.kind is one.KEYWORD_ONLY and name != "bound"
    ]
    for name in options:
        if name not in known:
            raise ArgumentError(
                f'{where}(method="{method}") has no option {name!r}{suggest(name, known)}',
                remedy=f"its options are {', '.join(known)}",
            )


@final
@dataclass(frozen=True)
class MutualInformationPanel:
    """What several methods say about the same pairs."""

    estimates: tuple[MutualInformationEstimate, ...]
    left_out: Mapping[str, str]
    """Methods that do not apply to these variables, with the reason."""
    unit: str
    truth: float | None = None
    """The mutual information in that unit, where it is known."""

    @property
    def disagreement(self) -> float:
        """How far the lowest value is below the highest one."""
        values = [one.value for one in self.estimates]
        return max(values) - min(values)

    def table(self) -> Table:
        """A row for each method."""
        known = self.truth is not None
        rows: list[list[str | float | int]] = [
            [
                one.method,
                one.meaning,
                *(float(f"{value:.4g}") for value in (one.value, *one.interval)),
                *([float(f"{one.value - (self.truth or 0.0):.3g}")] if known else []),
                one.count,
                one.caveat,
            ]
            for one in self.estimates
        ]
        heads = ["method", "is", self.unit, "from", "to", *(["off by"] if known else []), "pairs", "caveat"]
        said = "" if self.truth is None else f"The true value is {self.truth:.4g} {self.unit}. "
        missing = "; ".join(f"{name}: {reason}" for name, reason in self.left_out.items())
        return Table(
            "mutual-information-table",
            "Mutual information by every method",
            heads,
            rows,
            caption=said
            + f"The values are {self.disagreement:.3g} {self.unit} apart."
            + (f" Left out: {missing}." if missing else ""),
        )

    def __str__(self) -> str:
        return "\n".join(map(str, self.estimates))


@takes_base
def mutual_information_panel(
    x: Any,
    y: Any,
    methods: Sequence[str] | None = None,
    *,
    unit: str = "bits",
    discrete: str = "auto",
    seed: int = 0,
    truth: float | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> MutualInformationPanel:
    """What all methods, or those that are named, say about the same pairs; `options` are those of each by its name.

    >>> draws = np.random.default_rng(0).normal(size=(2, 200))
    >>> panel = mutual_information_panel(draws[0], draws[0] + draws[1], ["ksg", "binning", "label"], truth=0.5)
    >>> [one.method for one in panel.estimates], list(panel.left_out)
    (['ksg', 'binning'], ['label'])
    """
    where = "mutual_information_panel"
    chosen = tuple(ESTIMATORS) if methods is None else tuple(methods)
    if not chosen:
        raise ArgumentError(f"{where}(methods=[]): name at least one of {', '.join(ESTIMATORS)}")
    for name in (*chosen, *(options or {})):
        check_choice(where, "methods", name, tuple(ESTIMATORS))
    pair(where, x, y, discrete)
    found, missing = [], {}
    for name in chosen:
        mine = (options or {}).get(name, {})
        try:
            found.append(
                mutual_information_estimate(x, y, name, unit=unit, discrete=discrete, seed=seed, **mine)
            )
        except NotSuited as error:
            missing[name] = error.message.split("): ")[-1]
    if not found:
        raise ArgumentError(f"{where}: none of {', '.join(chosen)} applies to these variables")
    return MutualInformationPanel(tuple(found), missing, unit, truth)


__all__ = ["ESTIMATORS", "MutualInformationPanel", "mutual_information_estimate", "mutual_information_panel"]
