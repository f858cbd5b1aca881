"""How many components: the number whose mixture gives validation examples the highest likelihood."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from chainrule.core import progress
from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.data.dataset import Data
from chainrule.models.latent.mixture.model import MixtureConfig, dequantised
from chainrule.probability.mixtures import fit_mixture
from chainrule.probability.mixtures.fitting import checked_rows

_NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_ROWS = 5000
"""Training examples that numbers of components are compared on."""
_PATIENCE = 3
"""Numbers in a row without a better one, after which larger ones are not tried."""


class Tried(NamedTuple):
    """What a number of components gives."""

    components: int
    train: float
    held_out: float
    """Mean log-likelihoods, nats per example."""
    bic: float


def chosen(config: MixtureConfig, data: Data) -> Mapping[str, Any]:
    """The number of components where the settings leave it to the data; more than they can have is refused."""
    rows = dequantised(data.schema, np.asarray(data.train.x))
    if config.components != "auto":
        different = len(np.unique(rows, axis=0))
        if config.components > different:
            raise ArgumentError(
                f"components={config.components}: {data.name} has {different} different training examples, so that "
                "components would be empty",
                remedy=f"use components={different} or less, or components=auto",
            )
    _say_if_flat(config, data, rows)
    if config.components != "auto":
        return {}
    best = max(tried(config, data), key=lambda one: one.held_out)
    return {"components": best.components}


def _say_if_flat(config: MixtureConfig, data: Data, rows: np.ndarray) -> None:
    """Warn where the examples do not vary in some direction, so that every covariance would be singular."""
    along = np.cov(rows.T, bias=True).reshape(rows.shape[1], rows.shape[1])
    variances = np.linalg.eigvalsh(along) if config.covariance in ("full", "tied") else np.diagonal(along)
    flat = int((variances < config.regularisation).sum())
    if not flat or (config.covariance == "spherical" and variances.mean() > config.regularisation):
        return
    warnings.warn(
        f"mixture: the covariance of {data.name} is singular or nearly so: in {flat} of {len(variances)} directions "
        f"training examples do not vary; there regularisation={config.regularisation:g} is the variance, and densities "
        "are as sharp as it makes them. Leave out columns that follow from others, or use a larger regularisation",
        ChainruleWarning,
        stacklevel=3,
    )


def tried(config: MixtureConfig, data: Data) -> list[Tried]:
    """Numbers of components with the likelihoods they give, up to where more have stopped to help."""
    rows = dequantised(data.schema, np.asarray(data.train.x))
    if len(rows) > _ROWS:
        rows = rows[np.random.default_rng(0).choice(len(rows), _ROWS, replace=False)]
    held = dequantised(data.schema, np.asarray(data.val.x)) if len(data.val) else rows
    found: list[Tried] = []
    numbers = [k for k in _NUMBERS if k == 1 or k <= len(np.unique(rows, axis=0)) // 2]
    for done, k in enumerate(numbers):
        progress.update("choosing the number of components", done, len(numbers))
        fitted = fit_mixture(
            checked_rows(rows, k),
            k,
            covariance=config.covariance,
            restarts=min(config.restarts, 3),
            regularisation=config.regularisation,
            tolerance=1e-4,
            iterations=100,
        )
        held_out = fitted.mean_log_prob(held)
        found.append(Tried(k, fitted.log_likelihood, held_out, fitted.bic))
        best = max(range(len(found)), key=lambda i: found[i].held_out)
        if len(found) - 1 - best >= _PATIENCE:
            break
    progress.update("choosing the number of components", len(numbers), len(numbers))
    return found


__all__ = ["Tried", "chosen", "tried"]
