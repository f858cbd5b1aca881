"""The Gaussian process that a random network of infinite width is: Bayesian inference with a network.

Its kernel is the covariance of outputs over random weights. The posterior mean predicts.
"""

from typing import ClassVar, final

from chainrule.models.kernel.wide import WideConfig


@final
class NNGPConfig(WideConfig):
    """Settings of the Gaussian process of infinite networks."""

    tangent: ClassVar[bool] = False


__all__ = ["NNGPConfig"]
