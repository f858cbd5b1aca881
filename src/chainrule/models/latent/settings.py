"""Settings that latent-variable models of all kinds share: likelihood, bodies, posterior."""

import abc
from typing import Literal

from pydantic import Field

from chainrule.core.settings import Config
from chainrule.probability.distributions.outputs import LikelihoodName


class EntryConfig(Config, abc.ABC):
    """The distribution of an entry of an example given its code."""

    likelihood: Literal["auto", LikelihoodName] = Field(
        "auto",
        description="distribution of an entry given the code; auto: bernoulli for zeros and ones, "
        "discretized_logistic for other levels, gaussian for numbers",
    )
    scale: Literal["auto", "fixed", "global", "entry"] = Field(
        "auto",
        description="gaussian, laplace, discretized_logistic: spread of an entry: sigma, one that is learned, or one "
        "that the decoder gives for each; auto: entry for levels, else global",
    )
    sigma: float = Field(1.0, ge=1e-3, description="scale=fixed: the spread; scale=global: where it begins")
    components: int = Field(10, ge=1, le=100, description="logistic_mixture: logistics for each entry")


class BodyConfig(Config, abc.ABC):
    """The networks between examples and codes."""

    body: Literal["mlp", "conv", "grid"] = Field(
        "mlp",
        description="encoder and decoder: dense layers; residual convolutions for images; grid: convolutions alone, "
        "whose code is a map, its entries spread over the cells of the coarsest resolution",
    )
    width: int = Field(256, ge=1, description="mlp: units of each hidden layer")
    depth: int = Field(
        1,
        ge=0,
        le=20,
        description="mlp: hidden layers; 0: linear, with a posterior whose spread is the same for all examples",
    )
    channels: tuple[int, ...] = Field(
        (32, 64, 128), min_length=1, max_length=8, description="conv: channels at each resolution"
    )
    activation: Literal["relu", "tanh", "silu", "gelu", "softplus"] = Field(
        "relu", description="mlp: what follows each hidden layer"
    )
    coarse: int = Field(
        1,
        ge=1,
        le=16,
        description="images: the encoder sees means over squares of so many pixels a side; 2 leaves the detail to the "
        "decoder",
    )


class LatentConfig(EntryConfig, BodyConfig, abc.ABC):
    """A code that is one vector, and the family of the codes given an example."""

    latent: int = Field(16, ge=1, description="entries of a code")
    posterior: Literal["diagonal", "full", "flow", "hyperspherical"] = Field(
        "diagonal",
        description="codes given an example: a Gaussian with independent entries or with any covariance, one that "
        "coupling layers bend, or directions (von Mises-Fisher) under a prior of all directions alike",
    )


__all__ = ["BodyConfig", "EntryConfig", "LatentConfig"]
