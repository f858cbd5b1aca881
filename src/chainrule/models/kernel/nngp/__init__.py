"""The Gaussian process that a random network of infinite width is: Bayesian inference with a network."""

from chainrule.models.kernel.nngp.settings import NNGPConfig
from chainrule.models.kernel.wide import measured
from chainrule.models.kernel.wide_targets import build
from chainrule.models.protocol import Entry

entry = Entry(
    name="nngp",
    summary="Gaussian process of an infinitely wide network: Bayesian inference with it, without training one.",
    config=NNGPConfig,
    build=build,
    kinds=("image", "points", "table"),
    targets=("class", "value"),
    data="digits",
    measured=measured,
    toy={"depth": 2, "points": 200},
    toy_data="moons",
    citation="Lee et al., Deep neural networks as Gaussian processes, ICLR 2018",
    training={"steps": 1},
)

__all__ = ["NNGPConfig", "entry"]
