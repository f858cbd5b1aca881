"""Fair division of an estate that is less than what is claimed: garments, banks, and the game behind both.

*Run to the bank*: claimants arrive in random order, and each takes what is left up to the claim. The mean is the
Shapley value of `v(S) = min(estate, sum of the claims in S)`. Two claimants of a garment do the same by *concede and
split*: each concedes what it does not claim, the rest is halved.

References: O'Neill, A problem of rights arbitration from the Talmud, 1982; Aumann and Maschler, 1985.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.shapley.exact import exact_values
from chainrule.explain.methods.shapley.games import CoalitionGame, Masks


def bank_game(estate: float, claims: Sequence[float], names: Sequence[str] | None = None) -> CoalitionGame:
    """What each coalition can take if it arrives first: its claims, or all there is.

    >>> bank_game(100, [60, 70]).table()
    array([  0.,  60.,  70., 100.])
    """
    wanted = np.asarray(claims, np.float64)
    if wanted.ndim != 1 or not wanted.size or not np.isfinite(wanted).all() or (wanted < 0).any():
        raise ArgumentError(
            f"bank_game(claims={claims}): claims are numbers of at least 0", remedy="give one each"
        )
    if not 0 <= estate < np.inf:
        raise ArgumentError(
            f"bank_game(estate={estate}): an estate is at least 0", remedy="give what is there"
        )

    def v(masks: Masks) -> np.ndarray:
        return np.asarray(np.minimum(estate, masks @ wanted))

    return CoalitionGame(v, len(wanted) if names is None else list(names))


def run_to_the_bank(estate: float, claims: Sequence[float]) -> Float[np.ndarray, " players"]:
    """What each claimant takes on average over all orders of arrival.

    >>> run_to_the_bank(200, [100, 200, 300]).round(2).tolist()
    [33.33, 83.33, 83.33]
    """
    return exact_values(bank_game(estate, claims)).values


def concede_and_split(estate: float, claims: Sequence[float]) -> Float[np.ndarray, " players"]:
    """Two claimants: each concedes what it does not claim, the rest is halved.

    >>> concede_and_split(1, [1, 0.5]).tolist()
    [0.75, 0.25]
    """
    if len(claims) != 2:
        raise ArgumentError(
            f"concede_and_split: there are {len(claims)} claims, the rule is for two",
            remedy="use run_to_the_bank",
        )
    one, two = (min(claim, estate) for claim in claims)
    conceded = np.array([estate - two, estate - one])
    left = max(estate - conceded.sum(), 0.0)
    return np.asarray(np.minimum(conceded + left / 2, [one, two]), np.float64)


__all__ = ["bank_game", "concede_and_split", "run_to_the_bank"]
