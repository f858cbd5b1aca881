"""Estimators of one gradient side by side: what each gets wrong on average, how noisy it is, what it costs."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError
from chainrule.core.formatting import count, measured, number
from chainrule.core.types import Array, Key, Tree
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.distributions.categorical import Categorical
from chainrule.probability.variational.estimators import (
    GaussianIdentities,
    GradientEstimator,
    GumbelSoftmax,
    Pathwise,
    PathwiseAnalytic,
    ScoreFunction,
    StraightThrough,
)
from chainrule.probability.variational.problems import GuidedMean, one_hot

_ALL: tuple[GradientEstimator, ...] = (
    Pathwise(),
    PathwiseAnalytic(),
    GaussianIdentities(),
    ScoreFunction(baseline=False),
    ScoreFunction(),
    GumbelSoftmax(),
    StraightThrough(),
)
_LONGER = 20
"""How many times as many draws an unbiased estimator gets to stand in for the exact gradient."""


@final
class EstimatorRow(NamedTuple):
    """One estimator; arrays have an entry for each parameter."""

    label: str
    gradient: np.ndarray
    """Its mean."""
    bias: np.ndarray
    """The mean less the true gradient."""
    bias_error: np.ndarray
    """Standard error of the bias: below two of these there may be none."""
    variance: np.ndarray
    """Of a gradient from one draw: that of the gradients times their number of draws."""
    operations: float
    """Arithmetic operations for one gradient, as the compiler counts them."""


@final
class EstimatorComparison(NamedTuple):
    """Rows in the order in which the estimators were given."""

    rows: tuple[EstimatorRow, ...]
    exact: np.ndarray
    """The gradient that biases refer to."""
    exact_error: np.ndarray
    """Its standard error; zero where it is exact."""
    samples: int
    repeats: int

    def __str__(self) -> str:
        """A table: total bias with its error, total variance, operations."""
        width = max(len(row.label) for row in self.rows)
        head = f"{'estimator':{width}}  {'bias':>18}  {'variance':>10}  {'operations':>10}"
        lines = [
            f"{row.label:{width}}  {measured(*_length(row.bias, row.bias_error)):>18}  "
            f"{number(row.variance.sum()):>10}  {count(row.operations):>10}"
            for row in self.rows
        ]
        draws = "1 draw" if self.samples == 1 else f"{self.samples} draws"
        foot = f"{draws} for a gradient, {self.repeats:,} gradients each; variances are those of one draw"
        return "\n".join([head, *lines, foot])


def compare_estimators(
    problem: GuidedMean,
    phi: Tree,
    key: Key,
    *,
    estimators: Sequence[GradientEstimator] | None = None,
    samples: int = 2,
    repeats: int = 2000,
    exact: Any = None,
) -> EstimatorComparison:
    """Bias, variance and cost of gradient estimators at the parameters `phi`, each from `repeats` gradients.

    Without `estimators` all that suit the guide take part. Biases refer to `exact`, a gradient with the structure of
    phi; without it, to the sum over all values of a discrete guide, or to a pathwise estimate with many more draws,
    whose error is part of theirs.

    >>> from chainrule.probability import Normal
    >>> from chainrule.probability.variational import ExpectationProblem
    >>> problem = ExpectationProblem(lambda mu: Normal(mu, 1.0), lambda z: z**2)
    >>> found = compare_estimators(
    ...     problem, jnp.array(1.0), jax.random.key(0), estimators=[Pathwise()], repeats=4000, exact=jnp.array(2.0)
    ... )
    >>> found.rows[0].label, round(float(found.rows[0].variance[0]))  # 4 Var(z)
    ('pathwise', 4)
    """
    q = problem.checked_guide(phi)
    samples, repeats = (
        whole("compare_estimators", "samples", samples),
        whole("compare_estimators", "repeats", repeats, least=2),
    )
    chosen = [
        e for e in (_ALL if estimators is None else estimators) if estimators is not None or not e.obstacle(q)
    ]
    for estimator in chosen:
        whole(f"compare_estimators: {estimator.label}", "samples", samples, least=estimator.fewest)
    for_exact, for_rows = jax.random.split(key)
    true, error = _reference(problem, phi, q, for_exact, samples * repeats, exact)
    keys = jax.random.split(for_rows, repeats)
    rows = []
    for estimator in chosen:
        found, operations = _gradients(problem, phi, keys, estimator, samples)
        mean, variance = found.mean(axis=0), found.var(axis=0, ddof=1)
        rows.append(
            EstimatorRow(
                estimator.label,
                mean,
                mean - true,
                np.sqrt(variance / repeats + np.square(error)),
                variance * samples,
                operations,
            )
        )
    return EstimatorComparison(tuple(rows), true, error, samples, repeats)


def _gradients(
    problem: GuidedMean, phi: Tree, keys: Array, estimator: GradientEstimator, samples: int
) -> tuple[np.ndarray, float]:
    """A gradient for each key as a row, and the operations of one."""

    def one(phi: Tree, key: Key) -> Array:
        return ravel_pytree(estimator.value_and_gradient(problem, phi, key, samples)[1])[0]

    analysis: Any = jax.jit(one).lower(phi, keys[0]).cost_analysis()
    found = eqx.filter_jit(jax.vmap(one, (None, 0)))(phi, keys)
    return np.asarray(found, np.float64), float((analysis or {}).get("flops", math.nan))


def _reference(
    problem: GuidedMean, phi: Tree, q: Distribution, key: Key, draws: int, exact: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The true gradient and its standard error."""
    flat = np.asarray(ravel_pytree(phi)[0], np.float64)
    if exact is not None:
        given = np.asarray(ravel_pytree(jax.tree.map(jnp.asarray, exact))[0], np.float64)
        if given.shape != flat.shape:
            raise ArgumentError(
                f"compare_estimators: exact has {given.size} numbers, phi has {flat.size}",
                remedy="give the gradient in the structure of phi",
            )
        return given, np.zeros_like(flat)
    if q.atoms() is not None:
        return np.asarray(ravel_pytree(exact_gradient(problem, phi))[0], np.float64), np.zeros_like(flat)
    each = max(draws // 100, 1) * _LONGER
    found, _ = _gradients(problem, phi, jax.random.split(key, 100), PathwiseAnalytic(), each)
    return found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(len(found))


def exact_gradient(problem: GuidedMean, phi: Tree) -> Tree:
    """The gradient in phi where the guide has finitely many values: that of the sum over them."""

    @jax.jit
    def total(phi: Tree) -> Array:
        q = problem.checked_guide(phi)
        atoms = q.atoms()
        if atoms is None:
            raise ArgumentError(f"exact_gradient: {type(q).__name__} has no list of values to sum over")
        points = one_hot(q, atoms.points) if isinstance(q, Categorical) else atoms.points
        return atoms.mean(jax.vmap(lambda z: problem.term(q, z))(points))

    return jax.grad(total)(phi)


def _length(bias: np.ndarray, error: np.ndarray) -> tuple[float, float]:
    """Length of a vector, and the standard error of a vector of that size."""
    return float(np.linalg.norm(bias)), float(np.linalg.norm(error))


__all__ = ["EstimatorComparison", "EstimatorRow", "compare_estimators", "exact_gradient"]
