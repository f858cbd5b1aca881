"""How many factors: the number whose closed form gives validation examples the highest likelihood."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from chainrule.core.errors import ArgumentError
from chainrule.data.dataset import Data
from chainrule.models.latent.ppca.model import PPCAConfig
from chainrule.networks import units
from chainrule.probability.linear import PrincipalComponents, principal_components


def chosen(config: PPCAConfig, data: Data) -> Mapping[str, Any]:
    """The number of factors where the settings leave it to the data; a number that the data cannot have is refused."""
    x = np.asarray(data.train.x, np.float64).reshape(len(data.train), -1)
    most = min(x.shape[1] - 1, len(x) - 1)
    if most < 1:
        raise ArgumentError(
            f"{data.name}: {len(x)} examples of {x.shape[1]} entries have no factors under noise",
            remedy="use data with at least two entries and two examples",
        )
    if config.latent != "auto":
        if config.latent > most:
            raise ArgumentError(
                f"latent={config.latent}: {len(x)} examples of {x.shape[1]} entries have at most {most} factors "
                "under noise",
                remedy=f"use latent={most} or less, or latent=auto",
            )
        _check_noise(config.latent, principal_components(x), units.dequantization_variance(data.schema))
        return {}
    held = data.val if len(data.val) else data.train
    judged = np.asarray(held.x, np.float64).reshape(len(held), -1)
    values = validation_likelihoods(x, judged, units.dequantization_variance(data.schema))
    if not np.isfinite(values).any():
        raise ArgumentError(
            f"{data.name}: all training examples lie on a line, which leaves no noise and no density",
            remedy="leave out columns that follow from others: chainrule train pca has no need of noise",
        )
    return {"latent": int(np.argmax(values)) + 1}


def _check_noise(latent: int, found: PrincipalComponents, added: float) -> None:
    left = found.total - float(found.variances[:latent].sum())
    if added == 0 and not left > 1e-12 * found.total:
        raise ArgumentError(
            f"latent={latent}: training examples vary along {found.rank} directions, so that no noise is left and "
            "there is no density",
            remedy=f"use latent={max(found.rank - 1, 1)} or less, latent=auto, or leave out columns that follow from "
            "others",
        )


def validation_likelihoods(
    x: Float[np.ndarray, "rows features"], held: Float[np.ndarray, "other features"], added: float = 0.0
) -> Float[np.ndarray, " most"]:
    """Mean log-density of held-out rows for every number of factors from one; -inf where no noise is left.

    One decomposition serves all: along an axis a model has its own variance if it keeps it and the noise if not.
    """
    found = principal_components(x)
    features, rank = x.shape[1], len(found.variances)
    most = min(features - 1, len(x) - 1)
    variances = np.zeros(features)
    variances[:rank] = found.variances
    variances += added
    along = np.square(found.transform(held)).mean(axis=0)
    total = np.square(held - found.mean[None]).sum(axis=1).mean() + features * added
    kept = np.zeros(features)
    kept[:rank] = along
    kept[:rank] += added
    values = np.full(most, -np.inf)
    for k in range(1, most + 1):
        noise = variances[k:].mean()
        if noise > 1e-12 * variances.sum():
            square = (kept[:k] / variances[:k]).sum() + (total - kept[:k].sum()) / noise
            log_det = np.log(variances[:k]).sum() + (features - k) * np.log(noise)
            values[k - 1] = -0.5 * (features * np.log(2 * np.pi) + log_det + square)
    return values


__all__ = ["chosen", "validation_likelihoods"]
