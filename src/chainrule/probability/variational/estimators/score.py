"""The score-function estimator: draws are weighted by how much likelier phi makes them (Williams, 1992)."""

from typing import final

import equinox as eqx
import jax

from chainrule.core.types import Key, Scalar, Tree
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.variational.estimators.base import GradientEstimator
from chainrule.probability.variational.problems import GuidedMean, draws, log_prob


@final
class ScoreFunction(GradientEstimator):
    """`mean (f(z) - b) grad log q(z)`: for any guide and any f, differentiable or not.

    The baseline b of a draw is the mean of f over the other draws, which does not depend on it and so leaves no bias;
    it takes the level of f out of the noise.
    """

    baseline: bool = eqx.field(static=True, default=True)

    @property
    def label(self) -> str:
        """What it is called in tables and pictures."""
        return "score function, baseline" if self.baseline else "score function"

    @property
    def is_biased(self) -> bool:
        """No."""
        return False

    @property
    def fewest(self) -> int:
        """Two with a baseline, which comes from the other draws."""
        return 2 if self.baseline else 1

    def obstacle(self, q: Distribution) -> str:
        """None: it needs no more than log q."""
        del q
        return ""

    def surrogate(self, problem: GuidedMean, phi: Tree, key: Key, samples: int) -> Scalar:
        """The mean of f, with a sum of log-densities that is zero and has the gradient."""
        q = problem.checked_guide(phi)
        still = jax.lax.stop_gradient(q)
        z = jax.lax.stop_gradient(draws(q, key, samples))
        values = jax.vmap(lambda z: problem.term(still, z))(z)
        # Of the terms only the numbers count: the gradient of -log q in them has the mean zero.
        weights = jax.lax.stop_gradient(values)
        if self.baseline:
            weights = (weights - weights.mean()) * samples / (samples - 1)
        densities = jax.vmap(lambda z: log_prob(q, z))(z)
        return values.mean() + (weights * (densities - jax.lax.stop_gradient(densities))).mean()


__all__ = ["ScoreFunction"]
