"""What an estimator of gradients is: a number from draws whose gradient in phi is an estimate too."""

import abc

import equinox as eqx
import jax

from chainrule.core.checks import whole
from chainrule.core.errors import CapabilityError
from chainrule.core.types import Key, Scalar, Tree
from chainrule.probability.distributions.base import Distribution
from chainrule.probability.variational.problems import GuidedMean


class GradientEstimator(eqx.Module):
    """A way of estimating a mean under a guide together with its gradient in the guide's parameters."""

    @property
    @abc.abstractmethod
    def label(self) -> str:
        """What it is called in tables and pictures."""

    @property
    @abc.abstractmethod
    def is_biased(self) -> bool:
        """Whether its gradients are off on average, not only noisy."""

    @abc.abstractmethod
    def obstacle(self, q: Distribution) -> str:
        """Why it cannot be used with such a guide; empty if it can."""

    @property
    def fewest(self) -> int:
        """Default: one draw is enough."""
        return 1

    @abc.abstractmethod
    def surrogate(self, problem: GuidedMean, phi: Tree, key: Key, samples: int) -> Scalar:
        """The estimate from so many draws, built so that its gradient in phi is that of the estimator."""

    def value(self, problem: GuidedMean, phi: Tree, key: Key, samples: int = 1) -> Scalar:
        """The estimate alone."""
        self._check(problem, phi, samples)
        return self.surrogate(problem, phi, key, samples)

    def value_and_gradient(
        self, problem: GuidedMean, phi: Tree, key: Key, samples: int = 1
    ) -> tuple[Scalar, Tree]:
        """The estimate, and that of its gradient in phi."""
        self._check(problem, phi, samples)
        return jax.value_and_grad(lambda phi: self.surrogate(problem, phi, key, samples))(phi)

    def _check(self, problem: GuidedMean, phi: Tree, samples: int) -> None:
        whole(self.label, "samples", samples, least=self.fewest)
        if obstacle := self.obstacle(problem.checked_guide(phi)):
            raise CapabilityError(f"{self.label}: {obstacle}")


__all__ = ["GradientEstimator"]
