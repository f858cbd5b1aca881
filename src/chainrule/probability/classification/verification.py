"""Verification: whether two things are the same, told by a score and a threshold.

Genuine trials are pairs of the same identity (or whatever is to be accepted), impostors all others. A threshold accepts
what scores as high or higher: the share of accepted impostors is the false acceptance rate (FAR), that of accepted
genuine trials the true acceptance rate (TAR). Rates are exact counts; between two thresholds nothing is made up but the
equal error rate, which lies where the two step functions cross.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError


class ErrorRates(NamedTuple):
    """Acceptance rates at every threshold that changes one of them, the highest threshold first."""

    thresholds: Float[np.ndarray, " steps"]
    false_accepts: Float[np.ndarray, " steps"]
    """Share of the impostors that score as high as the threshold or higher."""
    true_accepts: Float[np.ndarray, " steps"]
    """The same share of the genuine trials."""

    def equal_error_rate(self) -> float:
        """Where as many impostors are accepted as genuine trials are refused."""
        gap = self.false_accepts - (1 - self.true_accepts)  # rises from -1 to 1
        after = int(np.searchsorted(gap, 0))
        if gap[after] == 0:
            return float(self.false_accepts[after])
        share = -gap[after - 1] / (gap[after] - gap[after - 1])
        before, here = self.false_accepts[after - 1], self.false_accepts[after]
        return float(before + share * (here - before))

    def equal_threshold(self) -> float:
        """The threshold next to the crossing at which the larger of the two errors is smallest."""
        return float(self.thresholds[np.maximum(self.false_accepts, 1 - self.true_accepts).argmin()])

    def step_at(self, false_accept: float) -> int:
        """The last step at which no larger share of the impostors is accepted."""
        if not 0 <= false_accept <= 1:
            raise ArgumentError(f"far={false_accept:g}: a share of impostors lies between 0 and 1")
        return int(np.searchsorted(self.false_accepts, false_accept, side="right")) - 1

    def true_accept_at(self, false_accept: float) -> float:
        """The largest share of genuine trials that is accepted with no larger share of the impostors: TAR at FAR."""
        return float(self.true_accepts[self.step_at(false_accept)])

    def threshold_at(self, false_accept: float) -> float:
        """The lowest threshold seen that accepts no larger share of the impostors."""
        return float(self.thresholds[self.step_at(false_accept)])


def error_rates(
    genuine: Float[np.ndarray, " genuine"], impostors: Float[np.ndarray, " impostors"]
) -> ErrorRates:
    """Both rates at every threshold; the first accepts nothing.

    >>> found = error_rates(np.array([0.9, 0.8, 0.3]), np.array([0.4, 0.2, 0.1]))
    >>> found.equal_error_rate(), found.true_accept_at(0.0), found.threshold_at(0.0)
    (0.333..., 0.666..., 0.8)
    """
    if not len(genuine) or not len(impostors):
        raise ArgumentError(
            f"error_rates: {len(genuine)} genuine trials and {len(impostors)} impostors",
            remedy="both are needed: two examples of one identity, and two identities",
        )
    both = np.concatenate([genuine, impostors]).astype(np.float64)
    if not np.isfinite(both).all():
        raise ArgumentError("error_rates: a score is not finite")
    ours = np.arange(len(both)) < len(genuine)
    order = np.argsort(-both, kind="stable")
    ranked = both[order]
    ends = np.flatnonzero(np.diff(ranked, append=-np.inf))  # equal scores are accepted together
    accepted = np.cumsum(ours[order])[ends]
    return ErrorRates(
        np.append(np.inf, ranked[ends]),
        np.append(0.0, (ends + 1 - accepted) / len(impostors)),
        np.append(0.0, accepted / len(genuine)),
    )


class Trials(NamedTuple):
    """Scores of pairs of examples."""

    genuine: Float[np.ndarray, " genuine"]
    impostors: Float[np.ndarray, " impostors"]


def cosine_trials(vectors: Float[np.ndarray, "examples features"], identities: np.ndarray) -> Trials:
    """The cosine of every pair of examples, by whether both are of one identity.

    >>> found = cosine_trials(np.eye(3)[[0, 0, 1]], np.array([4, 4, 7]))
    >>> found.genuine.tolist(), found.impostors.tolist()
    ([1.0], [0.0, 0.0])
    """
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    first, second = np.triu_indices(len(unit), 1)
    cosine = (unit @ unit.T)[first, second]
    same = identities[first] == identities[second]
    return Trials(cosine[same], cosine[~same])


__all__ = ["ErrorRates", "Trials", "cosine_trials", "error_rates"]
