"""Information of stationary Markov chains: how much a state tells of the next, and what is new in it and still of use.

With H the entropy of a state, everything about the present splits in three: the *information rate* rho = I(present;
past), the *predictive information rate* b = I(present; future given past), and the *erasure entropy* r = H(present
given past and future), which no other moment knows: H = rho + b + r. The entropy rate is b + r.

Noise has neither rho nor b, clockwork has all rho and no b; b is largest in between, where each step is news that
matters.

References: Verdú and Weissman, The information lost in erasures, IEEE Transactions on Information Theory, 2008;
Abdallah and Plumbley, Information dynamics: patterns of expectation and surprise in the perception of music, 2009.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.information.entropies import total
from chainrule.information.samples import symbol_numbers
from chainrule.information.units import scale, takes_base
from chainrule.probability.markov import FittedChain, NotUniqueError, fit, stationary, transition_matrix


@final
@dataclass(frozen=True, eq=False)
class ChainInformation:
    """What a stationary chain's present shares with its past and its future."""

    transition: np.ndarray
    stationary: np.ndarray
    unit: str
    entropy: float
    """H of one state: information_rate + predictive_information_rate + erasure_entropy."""
    entropy_rate: float
    """H(present given past), what each step adds."""
    information_rate: float
    """I(present; past)."""
    predictive_information_rate: float
    """I(present; future given past)."""
    erasure_entropy: float
    """H(present given past and future)."""

    def __str__(self) -> str:
        return (
            f"H {self.entropy:.6f} = information rate {self.information_rate:.6f} + predictive information rate "
            f"{self.predictive_information_rate:.6f} + erasure entropy {self.erasure_entropy:.6f} {self.unit}"
        )


@takes_base
def chain_information(transition: Any, unit: str = "bits") -> ChainInformation:
    """All rates of a stationary chain; `transition[i, j]` is the probability of going from i to j.

    A chain with several closed classes has no single stationary distribution, and raises.

    >>> print(chain_information([[0.9, 0.1], [0.5, 0.5]]))
    H 0.650022 = information rate 0.092526 + predictive information rate 0.076251 + erasure entropy 0.481245 bits
    """
    factor = scale(unit, "chain_information")
    matrix = transition_matrix("chain_information", transition)
    pi = _only_stationary("chain_information", matrix)
    entropy, one, two = total(pi), _rate(pi, matrix), _rate(pi, matrix @ matrix)
    # H(X_t, X_t+1 given X_t-1) is 2 h; taking away H(X_t+1 given X_t-1) leaves what both neighbours do not tell of X_t.
    parts = (entropy, one, entropy - one, two - one, 2 * one - two)
    clean = [max(part, 0.0) * factor for part in parts]
    return ChainInformation(matrix, pi, unit, *clean)


@takes_base
def entropy_rate(transition: Any, unit: str = "bits") -> float:
    """The entropy that each step of a stationary chain adds, -sum_i pi_i sum_j a_ij log a_ij.

    >>> round(entropy_rate([[0.9, 0.1], [0.5, 0.5]]), 6)
    0.557496
    """
    return chain_information(transition, unit).entropy_rate


@takes_base
def information_rate(transition: Any, unit: str = "bits") -> float:
    """What a state of a stationary chain tells of the next, H(pi) less the entropy rate.

    >>> round(information_rate([[0.9, 0.1], [0.5, 0.5]]), 6)
    0.092526
    """
    return chain_information(transition, unit).information_rate


@takes_base
def predictive_information_rate(transition: Any, unit: str = "bits") -> float:
    """What a state tells of the next one beyond what the state before it told: the entropy rate of A² less that of A.

    >>> round(predictive_information_rate([[0.9, 0.1], [0.5, 0.5]]), 6)
    0.076251
    """
    return chain_information(transition, unit).predictive_information_rate


@takes_base
def erasure_entropy(transition: Any, unit: str = "bits") -> float:
    """What is left to know of a state when all others, before and after it, are known.

    >>> round(erasure_entropy([[0.9, 0.1], [0.5, 0.5]]), 6)
    0.481245
    """
    return chain_information(transition, unit).erasure_entropy


def noisy_cycle(states: int, noise: float) -> np.ndarray:
    """A chain that goes round with probability 1 - noise and anywhere with probability noise.

    0 is clockwork, 1 is noise, and the predictive information rate peaks between.

    >>> round(predictive_information_rate(noisy_cycle(8, 0.5)), 6)
    0.553772
    """
    states = whole("noisy_cycle", "states", states)
    if not 0 <= noise <= 1:
        raise ArgumentError(f"noisy_cycle(noise={noise}): is a probability, between 0 and 1")
    return (1 - noise) * np.roll(np.eye(states), 1, axis=1) + noise / states


@final
@dataclass(frozen=True, eq=False)
class InformationProfile:
    """What each moment of a path brought, by a chain; each array has one entry for every state of the path."""

    unit: str
    surprisal: np.ndarray
    """-log p(state given the one before); of the first state, -log pi."""
    information: np.ndarray
    """How much the state before told of this one, log p(state given it) / pi(state); its mean tends to the rate."""
    predictive: np.ndarray
    """How much this state changed what is expected next: KL(a[state], A²[state before])."""


@takes_base
def information_profile(transition: Any, path: Any, unit: str = "bits") -> InformationProfile:
    """Surprisal and information along a path of states.

    >>> information_profile(noisy_cycle(4, 0.0), [0, 1, 2]).surprisal.round(6).tolist()
    [2.0, 0.0, 0.0]
    """
    factor = scale(unit, "information_profile")
    matrix = transition_matrix("information_profile", transition)
    states = np.asarray(path)
    if states.ndim != 1 or not states.size or not np.issubdtype(states.dtype, np.integer):
        raise ArgumentError(f"information_profile(path): needs numbers of states, not shape {states.shape}")
    if states.min() < 0 or states.max() >= len(matrix):
        raise ArgumentError(f"information_profile(path): the {len(matrix)} states are numbered from 0")
    pi = _only_stationary("information_profile", matrix)
    with np.errstate(divide="ignore"):
        log_pi = np.log(pi)
        steps = np.log(matrix[states[:-1], states[1:]])
        changed = _divergences(matrix, matrix @ matrix)
    surprisal = np.concatenate([-log_pi[states[:1]], 0.0 - steps])
    information = np.concatenate([[0.0], steps - log_pi[states[1:]]])
    predictive = np.concatenate(
        [_divergences(matrix, pi[None])[states[:1], 0], changed[states[1:], states[:-1]]]
    )
    return InformationProfile(unit, surprisal * factor, information * factor, predictive * factor)


def chain_of(sequence: Any, pseudo_count: float = 0.0) -> tuple[FittedChain, list[Any]]:
    """The chain that suits a sequence of symbols of any kind best, and what its states are called.

    A state that was only met as the last one has no move to count; `pseudo_count` is added to every move.

    >>> chain, symbols = chain_of("abracadabra")
    >>> symbols, chain.transition[0].tolist()
    (['a', 'b', 'c', 'd', 'r'], [0.0, 0.5, 0.25, 0.25, 0.0])
    """
    numbers, symbols = symbol_numbers("chain_of", sequence)
    return fit(numbers, len(symbols), pseudo_count), symbols


def _only_stationary(where: str, matrix: np.ndarray) -> np.ndarray:
    """The stationary distribution, where there is one alone."""
    try:
        return np.asarray(stationary(matrix))
    except NotUniqueError as error:
        states = [list(one.states) for one in error.classes]
        raise ArgumentError(
            f"{where}(transition): {len(states)} closed classes, and rates depend on which of them a chain is in",
            remedy=f"give the matrix of one of them: transition[np.ix_({states[0]}, {states[0]})]",
        ) from None


def _rate(pi: np.ndarray, matrix: np.ndarray) -> float:
    return float(sum(weight * total(row) for weight, row in zip(pi, matrix, strict=True)))


def _divergences(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """KL of every row of p from every row of q, in nats."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = p[:, None] * (np.log(p)[:, None] - np.log(q)[None])
    return np.maximum(np.where(p[:, None] > 0, terms, 0.0).sum(axis=2), 0.0)


__all__ = [
    "ChainInformation",
    "InformationProfile",
    "chain_information",
    "chain_of",
    "entropy_rate",
    "erasure_entropy",
    "information_profile",
    "information_rate",
    "noisy_cycle",
    "predictive_information_rate",
]
