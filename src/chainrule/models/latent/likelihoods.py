"""The distribution of an entry given its code, as the settings ask for it or as suits the data."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from chainrule.core.errors import CapabilityError
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.models.latent.settings import LatentConfig
from chainrule.probability.distributions.outputs import (
    OutputDistribution,
    check_support,
    likelihood,
    suited,
)

_AT_ONCE = 4096
"""Examples looked at together."""


def name_of(config: LatentConfig, schema: Schema) -> str:
    """The name of the likelihood: the one of the settings, or one that suits the data."""
    return suited(schema.levels) if config.likelihood == "auto" else config.likelihood


def output_of(config: LatentConfig, schema: Schema) -> OutputDistribution:
    """The distribution of an entry; one that gives no likelihood of such data is refused."""
    scale = config.scale
    if scale == "auto":
        scale = "entry" if schema.levels else "global"
    name = name_of(config, schema)
    output = likelihood(name, schema.levels, scale=scale, sigma=config.sigma, components=config.components)
    if not output.is_likelihood_of(schema.levels):
        what = f"data with {schema.levels} levels" if schema.levels else "continuous data"
        raise CapabilityError(
            f'likelihood="{name}" is no likelihood of {what}: their cross-entropy is no code length',
            remedy="use data.binarize=dynamic (or threshold) for zeros and ones, or "
            f'likelihood="{suited(schema.levels)}"',
        )
    return output


def checked(config: LatentConfig, data: Data) -> Mapping[str, Any]:
    """No settings; training examples outside of what the likelihood can produce are refused."""
    for first in range(0, len(data.train), _AT_ONCE):
        some = data.train.batch(np.arange(first, min(first + _AT_ONCE, len(data.train)))).x
        check_support(name_of(config, data.schema), some, data.schema.levels)
    return {}


__all__ = ["checked", "name_of", "output_of"]
