"""The Bayes classifier of classes whose distributions are known, and its error: no classifier has a smaller one.

Given x, class k has probability `P(k | x) = w_k p_k(x) / Σ_j w_j p_j(x)`; who names the likeliest is wrong with
probability `E[1 - max_k P(k | x)]`. Between two points at which the likeliest class changes this is a matter of
distribution functions, so that classes of numbers need no more than those points.

Reference: Devroye, Györfi and Lugosi, A Probabilistic Theory of Pattern Recognition, chapter 2, 1996.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Float, Int

from chainrule.core.checks import whole
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.types import Array, Key
from chainrule.probability.distributions.base import Distribution, HasIntervals
from chainrule.probability.distributions.mixture import Mixture
from chainrule.probability.distributions.multivariate_normal import MultivariateNormal
from chainrule.probability.divergences.points import NODES, WEIGHTS, cells
from chainrule.probability.expectation import Expectation
from chainrule.probability.kullback_leibler.estimate import mean_and_error

_SIDE = 1500
"""Points along each axis of the grid for vectors of two entries."""
_REACH = 9.0
"""Standard deviations to which that grid goes."""
_HALVINGS = 60


class Labelled(NamedTuple):
    """Draws and the classes they are from."""

    x: Array
    y: Int[Array, " draws"]


@final
class BayesClassifier(eqx.Module):
    """Classes with known probabilities and known distributions.

    >>> from chainrule.probability import Normal
    >>> two = bayes_classifier([0.5, 0.5], Normal([-1.0, 1.0], 1.0))
    >>> two.posterior(0.5).round(4).tolist()
    [0.2689..., 0.7310...]
    >>> round(float(two.error().value), 6), two.error().method
    (0.158655, 'exact')
    """

    mixture: Mixture

    @property
    def prior(self) -> Float[Array, " classes"]:
        """The probability of each class."""
        return self.mixture.weights

    def posterior(self, x: Any) -> Float[Array, "... classes"]:
        """The probability of each class given `x`."""
        return self.mixture.responsibilities(x)

    def classify(self, x: Any) -> Int[Array, "..."]:
        """The likeliest class given `x`: the answer with the smallest error."""
        return self.mixture.joint_log_prob(x).argmax(axis=-1)

    def log_prob(self, x: Any) -> Float[Array, "..."]:
        """Log-density of `x` whatever its class."""
        return self.mixture.log_prob(x)

    def sample(self, key: Key, n: int) -> Labelled:
        """Draws with their classes."""
        choose, within = jax.random.split(key)
        y = self.mixture.choice.sample(choose, n)
        return Labelled(self.mixture.components.draw_components(within, y), y)

    def error(self, *, key: Key | None = None, samples: int = 100_000) -> Expectation:
        """The Bayes error, in double precision.

        Exact where there are finitely many points, for two normal distributions of one covariance, and for numbers
        whose distribution functions are known; by quadrature for other densities of numbers and for vectors of two
        entries; else the mean over draws with its standard error, for which a `key` is needed.
        """
        with jax.enable_x64(True):
            mixture = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float64)), self.mixture)
            mixture = eqx.tree_at(lambda m: m.choice, mixture, self._choice())
            for rule in (_enumerated, _two_normals, _numbers, _plane):
                found = rule(mixture)
                if found is not None:
                    return found
            if key is None:
                raise ArgumentError(
                    f"BayesClassifier.error: for {type(mixture.components).__name__} with events of shape "
                    f"{mixture.event_shape} the mean is taken over draws, which need a key",
                    remedy="give key=jax.random.key(0)",
                )
            x = mixture.sample(key, whole("BayesClassifier.error", "samples", samples, least=2))
            value, error = mean_and_error(1 - mixture.responsibilities(x).max(axis=-1))
            return Expectation(value, error, "monte-carlo")

    def _choice(self) -> Any:
        """The prior in double precision: what single precision has rounded sums to one again."""
        weights = np.asarray(self.prior, np.float64)
        return type(self.mixture.choice)(weights / weights.sum())


def bayes_classifier(
    prior: Any, components: Distribution | Sequence[Distribution], *, normalize: bool = False
) -> BayesClassifier:
    """The classifier that names the likeliest class, for classes with these probabilities and distributions.

    `components` are one distribution with an entry for each class along its only batch axis, or a sequence of them.

    >>> from chainrule.probability import Categorical
    >>> coins = bayes_classifier([0.5, 0.5], Categorical([[0.9, 0.1], [0.5, 0.5]]))
    >>> round(float(coins.error().value), 6), coins.error().method
    (0.3, 'enumeration')
    """
    mixture = Mixture(prior, components, normalize=normalize)
    if mixture.batch_shape:
        raise ArgumentError(
            f"bayes_classifier: components of batch shape {mixture.components.batch_shape}: one axis is that of the "
            "classes, there is no room for more",
            remedy="map it over the other axes with jax.vmap, or give one problem at a time",
        )
    return BayesClassifier(mixture)


def _enumerated(mixture: Mixture) -> Expectation | None:
    atoms = mixture.atoms()
    if atoms is None:
        return None
    value = atoms.mean(1 - mixture.responsibilities(atoms.points).max(axis=-1))
    return Expectation(value, jnp.zeros_like(value), "enumeration")


def _two_normals(mixture: Mixture) -> Expectation | None:
    """The logarithm of the ratio of two such densities is normal itself."""
    normal = mixture.components
    if (
        not isinstance(normal, MultivariateNormal)
        or len(mixture.weights) != 2
        or normal.structure.is_singular
    ):
        return None
    covariances = np.asarray(normal.covariance)
    if not np.array_equal(covariances[0], covariances[1]):
        return None
    apart = np.asarray(normal.mean[1] - normal.mean[0])
    distance = np.sqrt(apart @ np.linalg.solve(covariances[0], apart))
    weights = np.asarray(mixture.weights)
    if distance == 0 or not weights.all():
        return _exact(float(weights.min()))
    lead = np.log(weights[0] / weights[1])
    wrong = [scipy.special.ndtr(-distance / 2 - sign * lead / distance) for sign in (1, -1)]
    return _exact(float(weights @ wrong))


def _exact(value: float) -> Expectation:
    return Expectation(jnp.asarray(value), jnp.zeros(()), "exact")


def _numbers(mixture: Mixture) -> Expectation | None:
    """Between the points at which the likeliest class changes, by distribution functions or by quadrature."""
    if mixture.event_shape:
        return None
    try:
        edges = np.asarray(cells(mixture.components))
    except (ArgumentError, CapabilityError):  # no moments, or no formula for them; draws do without
        return None
    joint = eqx.filter_jit(lambda x: mixture.joint_log_prob(x))

    def likeliest(x: np.ndarray) -> np.ndarray:
        return np.asarray(joint(x)).argmax(axis=-1)

    edges = np.unique(edges[np.isfinite(edges)])
    inner = np.unique(np.concatenate([edges, _changes(likeliest, _nodes(edges)[0].ravel())]))
    components = mixture.components
    if isinstance(components, HasIntervals):
        low, high = np.append(-np.inf, inner), np.append(inner, np.inf)
        middle = np.concatenate([[inner[0] - 1], (inner[1:] + inner[:-1]) / 2, [inner[-1] + 1]])
        wide = components.batched((len(low), len(mixture.weights)))
        ends = [np.broadcast_to(end[:, None], wide.batch_shape) for end in (low, high)]
        masses = np.exp(np.asarray(wide.log_interval(*map(jnp.asarray, ends)))) * np.asarray(mixture.weights)
        right = np.take_along_axis(masses, likeliest(middle)[:, None], axis=1).sum()
        return _exact(float(masses.sum() - right))
    nodes, weights = _nodes(inner)
    density = np.exp(np.asarray(joint(nodes.ravel())))
    value = float(weights.ravel() @ (density.sum(axis=-1) - density.max(axis=-1)))
    return Expectation(jnp.asarray(value), jnp.zeros(()), "quadrature")


def _nodes(edges: Float[np.ndarray, " edges"]) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre rules between neighbouring edges."""
    half = np.diff(edges)[:, None] / 2
    return (edges[1:] + edges[:-1])[:, None] / 2 + half * NODES, half * WEIGHTS


def _changes(likeliest: Callable[[np.ndarray], np.ndarray], x: Float[np.ndarray, " points"]) -> np.ndarray:
    """Where, between neighbouring points, the likeliest class becomes another one; by bisection."""
    classes = likeliest(x)
    at = np.flatnonzero(np.diff(classes))
    low, high, before = x[at], x[at + 1], classes[at]
    for _ in range(_HALVINGS if len(at) else 0):
        middle = (low + high) / 2
        same = likeliest(middle) == before
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return high


def _plane(mixture: Mixture) -> Expectation | None:
    """Normal vectors of two entries: the sum over a fine grid, which converges fast for smooth densities."""
    normal = mixture.components
    if (
        not isinstance(normal, MultivariateNormal)
        or mixture.event_shape != (2,)
        or normal.structure.is_singular
    ):
        return None
    mean, deviation = np.asarray(normal.mean), np.sqrt(np.asarray(normal.variance))
    low, high = (mean - _REACH * deviation).min(axis=0), (mean + _REACH * deviation).max(axis=0)
    axes = [np.linspace(low[i], high[i], _SIDE) for i in range(2)]

    @eqx.filter_jit
    def rows(first: Array, second: Array) -> Array:
        return jax.lax.map(
            lambda one: _missed(mixture, jnp.stack([jnp.full_like(second, one), second], axis=-1)), first
        )

    total = np.asarray(rows(*map(jnp.asarray, axes)), np.float64).sum()
    value = jnp.asarray(total * np.prod((high - low) / (_SIDE - 1)))
    return Expectation(value, jnp.zeros_like(value), "quadrature")


def _missed(mixture: Mixture, x: Array) -> Array:
    """The density of all classes but the likeliest, summed over points."""
    density = jnp.exp(mixture.joint_log_prob(x))
    return (density.sum(axis=-1) - density.max(axis=-1)).sum()


__all__ = ["BayesClassifier", "Labelled", "bayes_classifier"]
