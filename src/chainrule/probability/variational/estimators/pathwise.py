"""Pathwise gradients: z as a differentiable function of phi and of noise that does not depend on it."""

from typing import final

import jax

from chainrule.core.types import Key, Scalar, Tree
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.variational.estimators.base import GradientEstimator
from chainrule.probability.variational.problems import GuidedMean, draws


def _obstacle(q: Distribution) -> str:
    if not q.support.is_discrete:
        return ""
    return f"{type(q).__name__} draws whole numbers, which do not move with phi: use ScoreFunction()"


@final
class Pathwise(GradientEstimator):
    """The mean of all terms over reparametrised draws, log q among them (Kingma and Welling, 2014)."""

    @property
    def label(self) -> str:
        """What it is called in tables and pictures."""
        return "pathwise"

    @property
    def is_biased(self) -> bool:
        """No."""
        return False

    def obstacle(self, q: Distribution) -> str:
        """Discrete draws do not move with the parameters."""
        return _obstacle(q)

    def surrogate(self, problem: GuidedMean, phi: Tree, key: Key, samples: int) -> Scalar:
        """The mean over draws through which the gradient passes."""
        q = problem.checked_guide(phi)
        return jax.vmap(lambda z: problem.term(q, z))(draws(q, key, samples)).mean()


@final
class PathwiseAnalytic(GradientEstimator):
    """The same with divergence or entropy in closed form: what needs no draws adds no noise."""

    @property
    def label(self) -> str:
        """What it is called in tables and pictures."""
        return "pathwise, analytic KL"

    @property
    def is_biased(self) -> bool:
        """No."""
        return False

    def obstacle(self, q: Distribution) -> str:
        """Discrete draws do not move with the parameters."""
        return _obstacle(q)

    def surrogate(self, problem: GuidedMean, phi: Tree, key: Key, samples: int) -> Scalar:
        """The mean over draws through which the gradient passes, and the closed part."""
        q = problem.checked_guide(phi)
        averaged, closed = problem.split(q)
        return jax.vmap(averaged)(draws(q, key, samples)).mean() + closed


__all__ = ["Pathwise", "PathwiseAnalytic"]
