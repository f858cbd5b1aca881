"""Guidance by the gradient of a classifier (Dhariwal and Nichol, 2021)."""

import warnings
from typing import Any

import jax.numpy as jnp

from chainrule.core.errors import CapabilityError
from chainrule.core.types import Array
from chainrule.data.schema import Schema
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.denoisers.guided import ClassifierGuided, Unconditional
from chainrule.models.diffusion.noisy_classifier.model import NoisyClassifier
from chainrule.models.diffusion.process import Level
from chainrule.models.protocol import CanPredict
from chainrule.networks import units


def by_classifier(denoiser: Denoiser, classifier: Any, weight: float, schema: Schema) -> Denoiser:
    """The denoiser led towards a class by a classifier: `w=1` is Bayes' rule, 0 no guidance.

    A classifier that never saw noise judges the estimate of the clean data (Bansal et al., 2023), with a warning: that
    estimate is no example of its class while there is much noise.
    """
    alone = Unconditional(denoiser)
    if isinstance(classifier, NoisyClassifier):
        return ClassifierGuided(alone, classifier.log_prob, weight)
    if not isinstance(classifier, CanPredict):
        raise CapabilityError(
            f"{type(classifier).__name__} predicts no classes",
            remedy="train one: chainrule train noisy-classifier, on the same data",
        )
    warnings.warn(
        f"{type(classifier).__name__} never saw noisy data: it judges estimates of clean data; "
        "chainrule train noisy-classifier makes one that did",
        stacklevel=3,
    )

    def log_prob(x: Array, level: Level, condition: Any) -> Array:
        found = classifier.predict(units.to_model(schema, alone.value("x0", x, level)))
        logs = jnp.log(jnp.maximum(found, jnp.finfo(found.dtype).tiny))
        return jnp.take_along_axis(logs, jnp.broadcast_to(condition, (len(x),))[:, None], axis=1)[:, 0]

    return ClassifierGuided(alone, log_prob, weight)


__all__ = ["by_classifier"]
