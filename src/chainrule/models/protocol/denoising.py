"""Denoising: noisy examples, estimates of the clean ones, and the ways between noise and data.

Noise levels are named by lam, the logarithm of the signal-to-noise ratio. Networks may see examples in another range
than the rest of the project: what is said to be in network units comes back by `to_model_units`.
"""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from chainrule.core.types import Array, Float, Key
from chainrule.models.protocol.likelihood import HasBound
from chainrule.models.protocol.sampling import CanSample, HasSampleControls


class Trajectory(NamedTuple):
    """Samples at every step from noise to data, in network units."""

    noisy: Float[Array, "moments n ..."]
    """From the first noise to the samples: one moment more than there are steps."""
    estimates: Float[Array, "steps n ..."]
    """What the clean examples are taken for at each step."""
    lams: np.ndarray
    """The noise level of each step."""


class HasDenoiser(CanSample):
    """Turns noise into examples step by step, by an estimate of the clean example at every noise level."""

    @property
    @abc.abstractmethod
    def classes(self) -> int:
        """How many classes it can be conditioned on; 0 without conditions, or with others."""

    @abc.abstractmethod
    def conditions(self, condition: Any, n: int) -> Array:
        """The conditions of `n` examples as arrays: one class, caption, vector or picture for all, or one for each."""

    @abc.abstractmethod
    def to_network_units(self, x: Array) -> Array:
        """Examples as the network sees them."""

    @abc.abstractmethod
    def to_model_units(self, x: Array) -> Array:
        """The inverse of `to_network_units`."""

    @abc.abstractmethod
    def noised(
        self, x: Float[Array, "batch ..."], noise: Float[Array, "batch ..."], lam: Any
    ) -> Float[Array, "batch ..."]:
        """Examples in network units with this much of some standard normal noise."""

    @abc.abstractmethod
    def denoised(
        self, noisy: Float[Array, "batch ..."], lam: Any, condition: Any = None
    ) -> Float[Array, "batch ..."]:
        """The estimate of the clean examples, their mean given the noisy ones; all in network units."""

    @abc.abstractmethod
    def posterior_covariance(
        self, noisy: Float[Array, "batch ..."], lam: Any, condition: Any = None
    ) -> Float[Array, "batch features features"]:
        """The covariance of the clean examples given the noisy ones, from the derivative of the estimate."""

    @abc.abstractmethod
    def trajectory(
        self, key: Key, n: int, *, condition: Any = None, steps: int = 50, guidance: float | None = None
    ) -> Trajectory:
        """`n` samples with every step kept, of one condition or, with classes and none named, of each class in turn."""


class HasSamplers(HasDenoiser):
    """Has several samplers, which can start from the same noise."""

    @abc.abstractmethod
    def samplers(self) -> Mapping[str, bool]:
        """Their names, and whether each is deterministic: all those follow one flow."""

    @abc.abstractmethod
    def walk(
        self, noise: Float[Array, "n ..."], sampler: str, evaluations: int, key: Key, condition: Any = None
    ) -> Float[Array, "n ..."]:
        """The samples, in model units, that a sampler makes of standard normal noise with so many evaluations."""


class CanInvert(HasDenoiser):
    """Maps examples to the noise they come from, by a deterministic sampler, and back."""

    @abc.abstractmethod
    def invert(self, x: Float[Array, "n ..."], steps: int, condition: Any = None) -> Float[Array, "n ..."]:
        """The standard normal noise behind examples in network units."""

    @abc.abstractmethod
    def regenerate(
        self, noise: Float[Array, "n ..."], steps: int, condition: Any = None
    ) -> Float[Array, "n ..."]:
        """The examples behind noise, in network units."""


class FlowLikelihood(NamedTuple):
    """Log-density of each example by the probability flow, in model units and nats, and what it rests on."""

    log_prob: Float[Array, " batch"]
    stderr: Float[Array, " batch"]
    """Standard error over the random directions of the divergence; zero where that is exact."""
    round_trip: Float[Array, " batch"]
    """Distance between the example and its noise brought back."""
    prior_mismatch: Float[Array, " batch"]
    """Divergence of the noisiest level from the distribution that samplers start from, in nats."""
    evaluations: int


class HasFlowLikelihood(HasDenoiser, HasBound):
    """Has a probability flow, whose likelihood can be held against the variational bound."""

    @abc.abstractmethod
    def flow_likelihood(
        self, x: Float[Array, "batch ..."], key: Key, *, probes: int = 0, tolerance: float = 1e-4
    ) -> FlowLikelihood:
        """The flow solved from the examples up to the noise and back; `probes` random directions, 0: as suits."""


class HasTokenAttention(HasDenoiser):
    """Attends to the tokens of its conditions while it denoises."""

    @abc.abstractmethod
    def token_attention(
        self, noisy: Float[Array, "batch ..."], lam: Any, condition: Array
    ) -> Sequence[Float[Array, "batch rows columns heads tokens"]]:
        """How much every position takes from every token, for each layer that attends; empty where none does.

        The first token stands for the condition as a whole.
        """


class HasViews(HasDenoiser):
    """Draws images that are of one class as they stand and of another in another view."""

    @abc.abstractmethod
    def in_view(self, x: Float[Array, "batch ..."], view: str) -> Float[Array, "batch ..."]:
        """Images in model units as they are seen in a view, such as "rotate(180)"."""


class HasControl(HasSampleControls):
    """Draws examples that follow what is extracted from pictures, more or less strongly."""

    @property
    @abc.abstractmethod
    def extracted(self) -> str:
        """What is extracted: "edges"."""

    @abc.abstractmethod
    def extract(self, x: Float[Array, "batch ..."]) -> Float[Array, "batch ..."]:
        """What samples are to follow of some pictures in [0, 1]."""

    @abc.abstractmethod
    def followed(
        self, key: Key, control: Float[Array, "batch ..."], y: Any, strength: float | Array
    ) -> Float[Array, "batch ..."]:
        """One sample for each control, in model units; strength 0 leaves the control out."""

    @abc.abstractmethod
    def agreement(
        self, x: Float[Array, "batch ..."], control: Float[Array, "batch ..."]
    ) -> Float[Array, " batch"]:
        """How well examples follow their controls: the correlation of what is extracted with the control."""


__all__ = [
    "CanInvert",
    "FlowLikelihood",
    "HasControl",
    "HasDenoiser",
    "HasFlowLikelihood",
    "HasSamplers",
    "HasTokenAttention",
    "HasViews",
    "Trajectory",
]
