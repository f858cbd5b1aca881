"""Likelihoods by name, which of them suits some data, and a clear error for data that one cannot have produced."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, final

import numpy as np

from chainrule.core.checks import whole
from chainrule.core.errors import DataError, check_choice
from chainrule.probability.distributions.outputs.base import OutputDistribution
from chainrule.probability.distributions.outputs.bernoulli import BernoulliOutput, ContinuousBernoulliOutput
from chainrule.probability.distributions.outputs.gaussian import GaussianOutput
from chainrule.probability.distributions.outputs.laplace import LaplaceOutput
from chainrule.probability.distributions.outputs.levels import BetaBinomialOutput, LevelsOutput
from chainrule.probability.distributions.outputs.logistic import (
    DiscretizedLogisticOutput,
    LogisticMixtureOutput,
)
from chainrule.probability.distributions.outputs.poisson import PoissonOutput
from chainrule.probability.distributions.outputs.scales import EntryScale, FixedScale, Scale, SharedScale

LikelihoodName = Literal[
    "bernoulli",
    "continuous_bernoulli",
    "gaussian",
    "laplace",
    "discretized_logistic",
    "logistic_mixture",
    "beta_binomial",
    "categorical",
    "poisson",
]
ScaleName = Literal["fixed", "global", "entry"]


@final
class _Making(NamedTuple):
    """What a likelihood may be made of."""

    levels: int
    scale: Scale
    components: int


_SCALES: dict[str, Callable[[float], Scale]] = {
    "fixed": FixedScale,
    "global": SharedScale,
    "entry": lambda _: EntryScale(),
}
_ANYWHERE: dict[str, Callable[[_Making], OutputDistribution]] = {
    "bernoulli": lambda _: BernoulliOutput(),
    "continuous_bernoulli": lambda _: ContinuousBernoulliOutput(),
    "gaussian": lambda of: GaussianOutput(of.scale),
    "laplace": lambda of: LaplaceOutput(of.scale),
}
_OF_LEVELS: dict[str, Callable[[_Making], OutputDistribution]] = {
    "discretized_logistic": lambda of: DiscretizedLogisticOutput(of.levels, of.scale),
    "logistic_mixture": lambda of: LogisticMixtureOutput(of.components, of.levels),
    "beta_binomial": lambda of: BetaBinomialOutput(of.levels),
    "categorical": lambda of: LevelsOutput(of.levels),
    "poisson": lambda of: PoissonOutput(of.levels),
}


def likelihood(
    name: str,
    levels: int = 0,
    *,
    scale: str = "global",
    sigma: float = 1.0,
    components: int = 10,
) -> OutputDistribution:
    """The output distribution of this name, for data with so many levels (0: continuous).

    `scale` says where the scale of Gaussian, Laplace and discretised logistic comes from: it is `sigma` and stays so
    ("fixed"), begins with it and is learnt for all entries together ("global"), or the network gives one for each
    ("entry").

    >>> likelihood("gaussian", scale="entry").parameter_count
    2
    >>> likelihood("categorical")
    Traceback (most recent call last):
    chainrule.core.errors.DataError: likelihood="categorical" is for data with levels; these are continuous
           use likelihood="gaussian", or, if they are whole numbers from 0 to 10: data.levels=11
    """
    check_choice("likelihood", "name", name, [*_ANYWHERE, *_OF_LEVELS])
    check_choice("likelihood", "scale", scale, _SCALES)
    made_of = _Making(levels, _SCALES[scale](sigma), whole("likelihood", "components", components))
    if name in _ANYWHERE:
        return _ANYWHERE[name](made_of)
    if levels < 2:
        raise DataError(
            f'likelihood="{name}" is for data with levels; these are continuous',
            remedy='use likelihood="gaussian", or, if they are whole numbers from 0 to 10: data.levels=11',
        )
    return _OF_LEVELS[name](made_of)


def suited(levels: int) -> LikelihoodName:
    """The name of a likelihood that suits data with so many levels (0: continuous).

    >>> suited(2), suited(256), suited(0)
    ('bernoulli', 'discretized_logistic', 'gaussian')
    """
    if levels == 2:
        return "bernoulli"
    return "discretized_logistic" if levels else "gaussian"


def check_support(name: str, x: Any, levels: int = 0) -> None:
    """Raise unless a likelihood can have produced these values, in the units in which a model sees them.

    >>> check_support("bernoulli", np.array([0, 17, 255]))
    Traceback (most recent call last):
    chainrule.core.errors.DataError: likelihood="bernoulli" got data outside [0,1] (max 255): rescale or use \
likelihood="discretized_logistic"
    >>> check_support("laplace", np.array([-3.0, 255.0]))
    """
    support = likelihood(name, levels).support
    values = np.asarray(x)
    if not values.size:
        return
    least, most = values.min(), values.max()
    if least >= support.low and most <= support.high:
        return
    found = f"min {least:g}" if not least >= support.low else f"max {most:g}"
    counts = name in _ANYWHERE and least >= 0 and bool((values == np.rint(values)).all())
    instead = "discretized_logistic" if counts else "gaussian"
    raise DataError(
        f'likelihood="{name}" got data outside {support} ({found}): rescale or use likelihood="{instead}"'
    )


__all__ = ["LikelihoodName", "ScaleName", "check_support", "likelihood", "suited"]
