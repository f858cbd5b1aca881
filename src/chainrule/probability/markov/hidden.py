"""Hidden Markov models: likelihood, decoding and smoothing of sequences, Baum-Welch, sampling.

The chain of states is not seen; at each time the state it is in emits an observation. Everything is exact and, for
numbers, in double precision; sequences of different lengths are rows of one array, with their lengths.

Reference: Rabiner, A tutorial on hidden Markov models and selected applications in speech recognition, Proceedings of
the IEEE 77, 1989.
"""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Integer

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.types import Array, Key
from chainrule.probability.distributions import Categorical, Distribution
from chainrule.probability.markov import finite, scans
from chainrule.probability.markov.checks import distribution, in_numbers, is_traced, transition_matrices
from chainrule.probability.markov.emissions import condensed, in_double, refit
from chainrule.probability.markov.observations import Observations, observed

R = TypeVar("R")

_TOGETHER = 2**22
"""Numbers, one for each state at each time, that are computed at once in an iteration of Baum-Welch."""


class HiddenPath(NamedTuple):
    """A draw from a hidden Markov model."""

    states: Integer[Array | np.ndarray, "*shape time"]
    y: Array | np.ndarray
    """What the states emitted, `[*shape, time, *event]`."""


@final
@dataclass(frozen=True)
class BaumWelchTrace:
    """How a fit went."""

    log_likelihoods: tuple[float, ...]
    """Of all sequences together: of the start and after every iteration."""
    converged: bool
    floored: tuple[int, ...]
    """States that would have collapsed on a few observations and were kept from it by a least variance."""


@final
class HiddenMarkov(eqx.Module):
    """A chain of hidden states, each of which emits observations.

    `emission` is a matrix (states, symbols) of probabilities, or a distribution for each state side by side:
    `Normal(means, scales)`, `MultivariateNormal(means, covariances)`, or any other with the batch shape (states,).

    >>> model = HiddenMarkov([0.6, 0.4], [[0.7, 0.3], [0.4, 0.6]], [[0.1, 0.4, 0.5], [0.6, 0.3, 0.1]])
    >>> round(float(model.log_prob([0, 1, 2])), 4), model.viterbi([0, 1, 2]).tolist()
    (-3.3929, [1, 0, 0])
    """

    start: Float[Array | np.ndarray, " states"]
    transition: Float[Array | np.ndarray, "states states"]
    _emission: Distribution
    trace: BaumWelchTrace | None = eqx.field(static=True)
    """Of the fit that it comes from."""

    def __init__(
        self, start: Any, transition: Any, emission: Any, trace: BaumWelchTrace | None = None
    ) -> None:
        self.transition = transition_matrices("HiddenMarkov", transition)
        if self.transition.ndim != 2:
            raise ArgumentError(
                f"HiddenMarkov(transition): needs one matrix, not shape {self.transition.shape}"
            )
        self.start = distribution("HiddenMarkov", "start", start, self.states)
        self._emission = _emission(emission, self.states)
        self.trace = trace

    @property
    def states(self) -> int:
        """How many there are."""
        return len(self.transition)

    @property
    def emission(self) -> Distribution:
        """What each state emits, in the precision that JAX works with at present; computations here use double."""
        found: Distribution = jax.tree.map(
            lambda array: array if is_traced(array) else jnp.asarray(np.asarray(array)), self._emission
        )
        return found

    def log_prob(self, y: Any, lengths: Any = None) -> Float[Array | np.ndarray, "*batch"]:
        """The log-probability (or log-density) of a sequence, or of each of several."""
        seen = observed("log_prob", self._emission, y, lengths)
        return seen.unbatched(self._run(scans.log_probability, seen))

    def log_prob_per_step(self, y: Any, lengths: Any = None, *, base: float = math.e) -> float:
        """The log-likelihood of all sequences over the number of observations: in nats, or bits with `base=2`.

        >>> fair = HiddenMarkov([1.0], [[1.0]], [[0.5, 0.5]])
        >>> fair.log_prob_per_step([0, 1, 1, 0], base=2)
        -1.0
        """
        if base not in (math.e, 2):
            raise ArgumentError(f"log_prob_per_step(base={base}): use math.e for nats or 2 for bits")
        seen = observed("log_prob_per_step", self._emission, y, lengths)
        return float(np.sum(self._run(scans.log_probability, seen))) / seen.count / math.log(base)

    def posterior(self, y: Any, lengths: Any = None) -> Float[Array | np.ndarray, "*batch time states"]:
        """The probability of each state at each time given the whole sequence (forward-backward).

        After the end of a sequence it is zero.
        """
        seen = observed("posterior", self._emission, y, lengths)
        return seen.unbatched(_possible("posterior", self._run(scans.smoothed, seen)).states)

    def filter(self, y: Any, lengths: Any = None) -> Float[Array | np.ndarray, "*batch time states"]:
        """The probability of each state at each time given the observations up to it."""
        seen = observed("filter", self._emission, y, lengths)
        return seen.unbatched(_possible("filter", self._run(scans.filtered, seen)).states)

    def viterbi(self, y: Any, lengths: Any = None) -> Integer[Array | np.ndarray, "*batch time"]:
        """The most likely path of states given the sequence; after its end the last state stays."""
        seen = observed("viterbi", self._emission, y, lengths)
        return seen.unbatched(_possible("viterbi", self._run(scans.decoded, seen)).states)

    def predict(
        self, y: Any, steps: int, lengths: Any = None
    ) -> Float[Array | np.ndarray, "*batch steps states"]:
        """The probability of each state at each of the next `steps` times, given the sequence."""
        seen = observed("predict", self._emission, y, lengths)
        now = _possible("predict", self._run(scans.filtered, seen)).states[:, -1]
        ahead = []
        for _ in range(whole("predict", "steps", steps)):
            now = now @ self.transition
            ahead.append(now)
        xp = jnp if is_traced(now) else np
        return seen.unbatched(xp.stack(ahead, axis=1))

    def sample(self, key: Key, steps: int, shape: tuple[int, ...] = ()) -> HiddenPath:
        """Paths of `steps` states and what they emit."""
        count = whole("sample", "steps", steps) - 1
        traced = is_traced(self, key)
        with contextlib.nullcontext() if traced else in_numbers():
            first, second = jax.random.split(key)
            states = finite.sample(first, self.start, self.transition, count, shape)
            emission = self.emission if traced else self._emission
            found = HiddenPath(states, emission.draw_components(second, states))
            return found if traced else jax.tree.map(np.asarray, found)

    def fit(
        self,
        y: Any,
        lengths: Any = None,
        *,
        steps: int = 200,
        tolerance: float = 1e-6,
        pseudo_count: float = 0.0,
    ) -> "HiddenMarkov":
        """Baum-Welch from here: parameters under which the sequences are more likely, with the `trace` of the fit.

        It ends when an iteration gains less than `tolerance` nats an observation, or after `steps` of them. What is
        impossible stays so, unless `pseudo_count` is added to the expected number of every start, move and symbol.

        >>> start = HiddenMarkov([0.5, 0.5], [[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.2, 0.8]])
        >>> fitted = start.fit([0] * 20 + [1] * 20, pseudo_count=0.1)
        >>> fitted.trace.converged, fitted.viterbi([0, 0, 1, 1]).tolist()
        (True, [0, 0, 1, 1])
        """
        for name, value in (("tolerance", tolerance), ("pseudo_count", pseudo_count)):
            if not 0 <= value < math.inf:
                raise ArgumentError(f"fit({name}={value}): must be a number of at least 0")
        if is_traced(self, y, lengths):
            raise ArgumentError("fit(y): needs numbers, not values inside a compiled function")
        seen = observed("fit", self._emission, y, lengths)
        model, history, floored = self, [], np.zeros(self.states, bool)
        for _ in range(whole("fit", "steps", steps)):
            moved, log_likelihood, floored = model.improved(seen, pseudo_count)
            history.append(log_likelihood)
            if len(history) > 1 and history[-1] - history[-2] < tolerance * seen.count:
                break
            model = moved
        else:
            history.append(float(np.sum(model._run(scans.log_probability, seen))))
        converged = len(history) > 1 and history[-1] - history[-2] < tolerance * seen.count
        trace = BaumWelchTrace(tuple(history), converged, tuple(int(s) for s in np.flatnonzero(floored)))
        return HiddenMarkov(model.start, model.transition, model._emission, trace)

    def improved(self, seen: Observations, pseudo_count: float = 0.0) -> "Improvement":
        """One iteration of Baum-Welch, over as many sequences at a time as fit into little memory."""
        begun, moves = np.full(self.states, pseudo_count), np.full((self.states, self.states), pseudo_count)
        log_likelihood, observations, weights = 0.0, [], []
        first = 0
        for part in seen.parts(_TOGETHER // (seen.y.shape[1] * self.states)):
            found = _possible("fit", self._run(scans.smoothed, part), first)
            within = np.arange(part.y.shape[1]) < part.lengths[:, None]
            few = condensed(self._emission, part.y[within], found.states[within])
            begun, moves = begun + found.states[:, 0].sum(axis=0), moves + found.moves
            log_likelihood += float(found.log_prob[part.lengths > 0].sum())
            observations.append(few[0])
            weights.append(few[1])
            first += len(part.y)
        left = moves.sum(axis=1, keepdims=True)
        # A state that is never left, or never visited, keeps its row: nothing was learned of it.
        transition = np.where(left > 0, moves / np.where(left > 0, left, 1.0), self.transition)
        with in_numbers():
            emission, floored = refit(
                self._emission, np.concatenate(observations), np.concatenate(weights), pseudo_count
            )
        model = HiddenMarkov(begun / begun.sum(), transition, emission)
        return Improvement(model, log_likelihood, floored)

    def _run(self, algorithm: Callable[..., R], seen: Observations) -> R:
        """An algorithm on the log-likelihoods of the observations: in double precision unless it is being traced."""
        traced = is_traced(self, seen.y, seen.lengths)
        # Without zeros among the transitions scaled products are exact; while tracing nobody knows whether there are.
        positive = not traced and bool((np.asarray(self.transition) > scans.POSITIVE).all())
        rule = scans.ALL_POSSIBLE if positive else scans.ANY
        with contextlib.nullcontext() if traced else in_numbers():
            emission = self.emission if traced else self._emission
            likelihood = _log_likelihood(emission, jnp.asarray(seen.y))
            start, transition = (jnp.asarray(one, likelihood.dtype) for one in (self.start, self.transition))
            found = algorithm(rule, start, transition, likelihood, jnp.asarray(seen.lengths))
            return found if traced else jax.tree.map(np.asarray, found)


class Improvement(NamedTuple):
    """One iteration of Baum-Welch."""

    model: HiddenMarkov
    """After it."""
    log_likelihood: float
    """Before it."""
    floored: np.ndarray
    """Which states were kept from collapsing."""


@jax.jit
def _log_likelihood(emission: Distribution, y: Array) -> Float[Array, "batch time states"]:
    return emission.log_prob(y[:, :, None])


def _emission(given: Any, states: int) -> Distribution:
    if not isinstance(given, Distribution):
        if np.ndim(given) != 2:
            raise ArgumentError(
                f"HiddenMarkov(emission): shape {np.shape(given)} is no matrix of probabilities",
                remedy="give probabilities (states, symbols), or a distribution such as Normal(means, scales)",
            )
        if is_traced(given):
            given = Categorical(given)
        else:
            with in_numbers():
                given = Categorical(np.asarray(given, np.float64))
    if given.batch_shape != (states,):
        raise ArgumentError(
            f"HiddenMarkov(emission): {type(given).__name__} of batch shape {given.batch_shape} for {states} states",
            remedy=f"give a distribution for each: parameters whose leading shape is ({states},)",
        )
    return given if is_traced(given) else in_double(given)


def _possible(where: str, found: Any, first: int = 0) -> Any:
    """Results for sequences that can happen, of which `first` is the first; nothing is conditioned on what cannot."""
    if not is_traced(found) and not np.isfinite(found.log_prob).all():
        row = first + int(np.flatnonzero(~np.isfinite(found.log_prob))[0])
        raise ArgumentError(
            f"{where}(y): the model gives sequence {row} the probability 0, so nothing can be said of its states",
            remedy="compare it with the zeros of start, transition and emission; fit with pseudo_count=0.001 has none",
        )
    return found


__all__ = ["BaumWelchTrace", "HiddenMarkov", "HiddenPath", "Improvement"]
