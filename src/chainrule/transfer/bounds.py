"""What can be promised on a target from errors on the source: the bound of domain adaptation, term by term.

For every hypothesis h of a class H, the error on the target is at most

    source error  +  ½ d_HΔH(P, Q)  +  λ,      λ = the least e_s(h') + e_t(h') of any h' in H.

d_HΔH is twice the largest difference of the probabilities of an event {h' ≠ h''}; d_H, twice that of an event
{h' = 1}, is often smaller, and with it the bound is *false*. Both are `tv2`, twice the total variation, restricted to
events. On finitely many points every term is exact. Elsewhere a classifier of domains estimates d_H, a pair of
hypotheses that is trained to disagree on one domain only estimates d_HΔH from below, and λ needs labels of the target:
without them nothing is guaranteed, and nothing here says so.

Reference: Ben-David, Blitzer, Crammer, Kulesza, Pereira and Vaughan, A theory of learning from different domains, 2010.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Waterfall

Chances = Float[np.ndarray, " points"]
Classifiers = Bool[np.ndarray, "classifiers points"]


class ClassDivergence(NamedTuple):
    """A distance of two distributions as far as a class of hypotheses sees it, twice a difference of probabilities."""

    value: float
    witness: tuple[int, ...]
    """The numbers of the hypothesis, or of the two, whose event differs most."""


@final
@dataclass(frozen=True)
class AdaptationBound:
    """The terms of the bound on a target error; those that are not known are `None`."""

    source_error: float
    divergence: float
    """d_HΔH, whose half enters the bound."""
    joint_error: float | None = None
    """λ, the least sum of both errors of one hypothesis; it needs labels of the target."""
    sampling: float = 0.0
    """How far the source error may lie above the measured one."""
    target_error: float | None = None
    """The measured error on the target, to compare with."""
    exact: bool = False
    """Whether all terms are those of the distributions, not of samples."""

    def __post_init__(self) -> None:
        for name in ("source_error", "divergence", "joint_error", "sampling", "target_error"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ArgumentError(f"AdaptationBound({name}={value}): a term is a number of at least 0")

    @property
    def value(self) -> float:
        """The sum of the terms; without λ it bounds nothing."""
        return self.source_error + self.sampling + self.divergence / 2 + (self.joint_error or 0.0)

    @property
    def holds(self) -> bool | None:
        """Whether the target error is as the bound says, up to rounding; nothing where a term is not known."""
        if self.joint_error is None or self.target_error is None:
            return None
        return self.target_error <= self.value + 1e-9

    def lines(self) -> list[str]:
        """Every term with how it is known, for a report."""
        how = "exact" if self.exact else "estimate"
        found = [
            f"source error {self.source_error:.4f} ({how})",
            f"half of d_HΔH {self.divergence / 2:.4f} ({'exact' if self.exact else 'estimate from below'})",
        ]
        if self.sampling:
            found.append(f"sampling of the source error {self.sampling:.4f}")
        if self.joint_error is None:
            found.append("joint error: not known, it needs labels of the target; so nothing is promised")
        else:
            found.append(f"joint error {self.joint_error:.4f} ({how})")
            word = "bound on" if self.exact else "estimate of the bound on"
            vacuous = ", which says nothing" if self.value >= 1 else ""
            found.append(f"{word} the target error {self.value:.4f}{vacuous}")
        if self.target_error is not None:
            found.append(f"measured target error {self.target_error:.4f}")
        return found

    def picture(self, name: str = "adaptation-bound") -> Waterfall:
        """The terms as steps that lead up to the bound."""
        named = [("source error", self.source_error), ("½ d_HΔH", self.divergence / 2)]
        if self.sampling:
            named.insert(1, ("sampling", self.sampling))
        if self.joint_error is not None:
            named.append(("joint error λ", self.joint_error))
        end = "bound" if self.joint_error is not None else "known terms"
        measured = (
            "" if self.target_error is None else f"The measured target error is {self.target_error:.3f}. "
        )
        lacking = "" if self.joint_error is not None else "λ is not known, so that the sum bounds nothing. "
        return Waterfall(
            name,
            "What bounds the error on the target",
            "error",
            0.0,
            [term for term, _ in named],
            np.array([value for _, value in named]),
            ("nothing", end),
            caption=measured + lacking + ("Terms are exact." if self.exact else "Terms are estimates."),
        )


def h_divergence(p: Any, q: Any, hypotheses: Any) -> ClassDivergence:
    """`2 max_h |P(h = 1) - Q(h = 1)|` of distributions over finitely many points; hypotheses are rows of 0 and 1.

    >>> h_divergence([0.5, 0.5], [1.0, 0.0], [[1, 0]]).value
    1.0
    """
    first, second, table = _finite("h_divergence", p, q, hypotheses)
    apart = np.abs(table @ (first - second))
    return ClassDivergence(2 * float(apart.max()), (int(apart.argmax()),))


def symmetric_difference_divergence(p: Any, q: Any, hypotheses: Any) -> ClassDivergence:
    """`2 max |P(h ≠ h') - Q(h ≠ h')|` over pairs of hypotheses: the divergence that the bound is true with.

    >>> symmetric_difference_divergence([0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0], [[1, 1, 0, 0], [0, 1, 1, 0]]).value
    2.0
    """
    first, second, table = _finite("symmetric_difference_divergence", p, q, hypotheses)
    change = first - second
    single, both = table @ change, (table * change) @ table.T.astype(float)
    apart = np.abs(single[:, None] + single[None, :] - 2 * both)
    best = np.unravel_index(int(apart.argmax()), apart.shape)
    return ClassDivergence(2 * float(apart.max()), (int(best[0]), int(best[1])))


def finite_bound(
    p: Any, q: Any, hypotheses: Any, chosen: int, truth: Any, target_truth: Any = None
) -> AdaptationBound:
    """The bound for hypothesis number `chosen` on finitely many points, every term exact.

    `truth` is the labelling of the source and, unless it has its own, of the target.

    >>> bound = finite_bound([0, 0.5, 0, 0.5], [0.5, 0, 0.5, 0], [[1, 1, 0, 0], [0, 1, 1, 0]], 1, [1, 1, 0, 0])
    >>> bound.source_error, bound.divergence, bound.joint_error, bound.target_error, bound.holds
    (0.0, 2.0, 0.0, 1.0, True)
    """
    first, second, table = _finite("finite_bound", p, q, hypotheses)
    if not 0 <= chosen < len(table):
        raise ArgumentError(f"finite_bound(chosen={chosen}): hypotheses are numbered 0 to {len(table) - 1}")
    labels = _labels(truth, len(first))
    other = labels if target_truth is None else _labels(target_truth, len(first))
    errors_s, errors_t = (table != labels) @ first, (table != other) @ second
    return AdaptationBound(
        float(errors_s[chosen]),
        symmetric_difference_divergence(p, q, hypotheses).value,
        float((errors_s + errors_t).min()),
        target_error=float(errors_t[chosen]),
        exact=True,
    )


def sampling_slack(examples: int, confidence: float = 0.95) -> float:
    """How far an error may lie above the one measured on so many examples, with this confidence (Hoeffding).

    >>> round(sampling_slack(1000), 4)
    0.0387
    """
    if examples < 1 or not 0 < confidence < 1:
        raise ArgumentError(
            f"sampling_slack(examples={examples}, confidence={confidence}): an example or more, and a share"
        )
    return math.sqrt(math.log(1 / (1 - confidence)) / (2 * examples))


def _finite(where: str, p: Any, q: Any, hypotheses: Any) -> tuple[Chances, Chances, Classifiers]:
    first, second = (np.asarray(one, np.float64) for one in (p, q))
    for name, one in (("p", first), ("q", second)):
        if one.ndim != 1 or (one < 0).any() or abs(one.sum() - 1) > 1e-9:
            raise ArgumentError(f"{where}({name}): probabilities of points, none negative, that add up to 1")
    table = np.asarray(hypotheses)
    if table.ndim != 2 or not len(table) or table.shape[1] != len(first) or len(first) != len(second):
        raise ArgumentError(
            f"{where}: hypotheses of shape {table.shape} for {len(first)} and {len(second)} points",
            remedy="give a row of 0 and 1 for each, with an entry for each point",
        )
    if not np.isin(table, (0, 1)).all():
        raise ArgumentError(f"{where}(hypotheses): entries are 0 or 1")
    return first, second, table.astype(bool)


def _labels(values: Any, points: int) -> Bool[np.ndarray, " points"]:
    labels = np.asarray(values)
    if labels.shape != (points,) or not np.isin(labels, (0, 1)).all():
        raise ArgumentError(f"finite_bound(truth): 0 or 1 for each of {points} points")
    return labels.astype(bool)


__all__ = [
    "AdaptationBound",
    "ClassDivergence",
    "finite_bound",
    "h_divergence",
    "sampling_slack",
    "symmetric_difference_divergence",
]
