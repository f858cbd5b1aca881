"""The plain mean over draws, which has a value and no gradient."""

from typing import Any, final

import jax

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Key, Scalar, Tree
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.variational.estimators.base import GradientEstimator
from chainrule.probability.variational.problems import GuidedMean, draws


@final
class PlainMonteCarlo(GradientEstimator):
    """The mean over draws that are taken as they are. Its gradient in phi is refused.

    Draws depend on phi, and here they are numbers by the time they are averaged: a derivative would see how the terms
    change and not how the draws do, and be wrong without a sign of it.
    """

    @property
    def label(self) -> str:
        """What it is called in tables and pictures."""
        return "plain Monte Carlo"

    @property
    def is_biased(self) -> bool:
        """Its values are right on average; gradients there are none."""
        return False

    def obstacle(self, q: Distribution) -> str:
        """None: every guide can be drawn from."""
        del q
        return ""

    def surrogate(self, problem: GuidedMean, phi: Tree, key: Key, samples: int) -> Scalar:
        """The mean."""
        q = problem.checked_guide(jax.tree.map(_without_gradient, phi))
        return jax.vmap(lambda z: problem.term(q, z))(draws(q, key, samples)).mean()


@jax.custom_jvp
def _without_gradient(parameter: Any) -> Any:
    return parameter


@_without_gradient.defjvp
def _refuse(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    del primals, tangents
    raise CapabilityError(
        "plain Monte Carlo has no gradient in phi: its draws are fixed numbers, so that a derivative would miss how "
        "they move with phi",
        remedy="use Pathwise() where z is continuous, ScoreFunction() for any z, or GumbelSoftmax() for classes",
    )


__all__ = ["PlainMonteCarlo"]
