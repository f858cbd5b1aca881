"""Settings of Gaussian processes, and what training examples say about them."""

import warnings
from collections.abc import Mapping
from typing import Annotated, Any, Literal, final

import jax.numpy as jnp
import numpy as np
from pydantic import Field

from chainrule.core.errors import ArgumentError, ChainruleWarning
from chainrule.data import targets
from chainrule.data.dataset import Data
from chainrule.data.schema import Schema
from chainrule.kernels import Constant, Kernel, host
from chainrule.kernels.data_checks import warn_of_columns
from chainrule.kernels.gaussian_processes.likelihoods import (
    ClassLikelihood,
    LogisticLikelihood,
    ProbitLikelihood,
    SoftmaxLikelihood,
)
from chainrule.kernels.gaussian_processes.stochastic import INDUCING
from chainrule.models.kernel.approximating import (
    ApproximateConfig,
    check_kernel,
    feature_count,
    kernel_of,
    needs_scale,
    period_of,
    sized,
)
from chainrule.models.kernel.composition import has_scale
from chainrule.models.kernel.settings import (
    kept,
    median_distance,
    refuse_unread,
    refuse_weights,
    rows,
)

MOST = 3000
"""Training examples that are kept unless told; where there are more, hyper-parameters are learnt from so many first."""
MOST_ITERATIVE = 10_000
"""The same of an iterative process."""
COLUMNS = 20
"""Entries of an example up to which each has a scale of its own unless told otherwise."""
SCREENED = 500
"""Training examples on which starts are compared."""


@final
class GPConfig(ApproximateConfig):
    """Settings of the Gaussian process."""

    method: Literal["auto", "exact", "iterative", "laplace", "sparse"] = Field(
        "auto",
        description="exact: values by the whole kernel matrix of the examples that are kept; iterative: the same by "
        "conjugate gradients, which never store the matrix, for tens of thousands of them; laplace: classes by the "
        "whole kernel matrix, a Gaussian at the mode of their latent functions; sparse: values or classes by inducing "
        "inputs, trained by batches of any number of examples; auto: exact for values, sparse for classes",
    )
    link: Literal["logistic", "probit"] = Field(
        "logistic",
        description="two classes: what makes a probability of a latent value; probit averages in closed form",
    )
    ard: bool | Literal["auto"] = Field(
        "auto",
        description="a scale of its own for every column, which says how much it matters; auto: up to "
        f"{COLUMNS} columns",
    )
    noise: float = Field(
        0.1,
        gt=0,
        description="variance of the noise at which learning begins, in units of the targets' variance",
    )
    learn: bool = Field(
        True, description="learn variance, scales and noise; otherwise scale and noise stay as they are given"
    )
    objective: Literal["evidence", "leave-one-out", "cross-validation"] = Field(
        "evidence",
        description="method=exact: what hyper-parameters are learnt by: the density of all targets, or that of targets "
        "predicted from the others, one by one or a tenth at a time",
    )
    restarts: int = Field(
        5,
        ge=0,
        le=1000,
        description=f"method=exact and iterative: further starts of the search, compared on {SCREENED} examples; the "
        "best goes on with all",
    )
    rank: int = Field(
        100,
        ge=0,
        le=5000,
        description="method=iterative: columns of the preconditioner; more of them: fewer steps of conjugate "
        "gradients, each of which computes the kernels of all pairs",
    )
    refinement: int = Field(
        5,
        ge=0,
        le=10_000,
        description="method=iterative: steps of Adam on the hyper-parameters by all kept examples, after they were "
        f"learnt from {MOST:,} of them",
    )
    inducing: Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"] = Field(
        "auto",
        description=f"method=sparse: inducing inputs, which begin at means of clusters; auto: {INDUCING}, or as many "
        "as there are different training examples",
    )
    natural_rate: float = Field(
        0.1,
        ge=0,
        le=1,
        description="method=sparse: rate of natural gradients of the inducing values; 0: they follow the optimiser",
    )


def kernel_from(config: GPConfig, features: int) -> Kernel:
    """The kernel that settings describe; each term of a sum times a variance of its own."""
    scale = 1.0 if config.scale == "auto" else config.scale
    own = has_scales(config, features)
    return kernel_of(config, jnp.full(features, scale) if own else scale, lambda term: Constant(1.0) * term)


def has_scales(config: GPConfig, features: int) -> bool:
    """Whether every column has a scale of its own."""
    wanted = features <= COLUMNS if config.ard == "auto" else config.ard
    return wanted and features > 1 and has_scale(config.kernel)


def suited(config: GPConfig, schema: Schema, examples: int | None) -> Mapping[str, Any]:
    """Which method it is, and whether columns have scales of their own."""
    del examples
    exact = targets.of(schema).has_values
    if config.method in ("exact", "iterative") and not exact:
        raise ArgumentError(
            f"method={config.method}: classes are learnt by method=sparse or method=laplace",
            remedy="leave method out, or use method=laplace",
        )
    if config.method == "laplace" and exact:
        raise ArgumentError(
            "method=laplace: values have a posterior that needs no approximation",
            remedy="leave method out, or use method=exact",
        )
    refuse_unread(config, "noise", exact, "classes are observed without a noise of their own")
    refuse_unread(config, "link", len(schema.classes) == 2, "it turns one latent value into two classes")
    if config.approximate != "none":
        _check_approximate(config, exact)
    if config.ard is True and not has_scale(config.kernel):
        raise ArgumentError(
            f"ard=true: kernel={config.kernel} has no scales",
            remedy="use kernel=rbf or a matern, or leave ard out",
        )
    method = config.method if config.method != "auto" else "exact" if exact else "sparse"
    _refuse_unused(config, method)
    return {"ard": has_scales(config, schema.dimensions), "method": method}


def likelihood_of(config: GPConfig, schema: Schema) -> ClassLikelihood:
    """What is seen of the latent functions of classes: one behind a link for two classes, else one each."""
    if len(schema.classes) > 2:
        return SoftmaxLikelihood(len(schema.classes))
    return ProbitLikelihood() if config.link == "probit" else LogisticLikelihood()


def kept_by_laplace(latents: int) -> int:
    """Training examples that are kept unless told otherwise: fewer for more latent functions, in equal time."""
    return round(MOST / np.cbrt(latents))


def learnt_by_laplace(latents: int) -> int:
    """Training examples that the kernel is learnt from, likewise."""
    return round(SCREENED / np.cbrt(latents))


_OF_METHODS = {
    "objective": ("exact",),
    "restarts": ("exact", "iterative"),
    "points": ("exact", "iterative", "laplace"),
    "rank": ("iterative",),
    "refinement": ("iterative",),
    "inducing": ("sparse",),
    "natural_rate": ("sparse",),
}
"""The methods that a setting is for, where it is not for all."""


def _refuse_unused(config: GPConfig, method: str) -> None:
    """Refuse settings other than the usual ones that the method would leave unread."""
    for name, methods in _OF_METHODS.items():
        given = getattr(config, name)
        if method not in methods and given != GPConfig.model_fields[name].default:
            suited = " or ".join(f"method={one}" for one in methods)
            raise ArgumentError(
                f"{name}={given} method={method}: this setting is for {suited}",
                remedy=f"leave {name} out, or use {suited}",
            )


def _check_approximate(config: GPConfig, values: bool) -> None:
    """Refuse features in place of the kernel where the method has none."""
    if not values:
        raise ArgumentError(
            f"approximate={config.approximate}: classes are learnt by inducing inputs, which take the kernel itself",
            remedy="leave approximate out; svm and kernel-ridge learn classes by features",
        )
    if config.method in ("iterative", "sparse"):
        raise ArgumentError(
            f"approximate={config.approximate} method={config.method}: this method takes the kernel itself",
            remedy="leave one of the two out",
        )


def measured(config: GPConfig, data: Data) -> Mapping[str, Any]:
    """The scale at which learning begins and the number of kept examples; warns of columns that teach badly."""
    refuse_weights("gp", data)
    check_kernel(config)
    for name in ("objective", "restarts"):
        refuse_unread(config, name, config.learn, "with learn=false nothing is searched for")
    own = has_scales(config, data.schema.dimensions)
    warn_of_columns("gp", rows(data.train.x), scales=2 if own else 1, columns=data.schema.columns)
    if config.approximate != "none":
        found: dict[str, Any] = {**sized(config, data, MOST)}
    else:
        feature_count(config, data)
        found = _inducing(config, data) if config.method == "sparse" else _points(config, data)
    found.update(period_of(config, data))
    if needs_scale(config):
        found["scale"] = float(f"{median_distance(data):.6g}")
    return found


def _inducing(config: GPConfig, data: Data) -> dict[str, Any]:
    """No more inducing inputs than there are different examples."""
    if config.inducing != "auto":
        return {}
    few = len(np.unique(rows(data.train.x)[: 4 * INDUCING], axis=0))
    if few <= INDUCING:
        few = len(np.unique(rows(data.train.x), axis=0))
    return {"inducing": min(INDUCING, few)}


def _points(config: GPConfig, data: Data) -> dict[str, Any]:
    iterative = config.method == "iterative"
    most = MOST_ITERATIVE if iterative else MOST
    if config.method == "laplace":
        most = kept_by_laplace(likelihood_of(config, data.schema).latents)
    count = kept(config.points, data, most)
    if count > host.MOST and not iterative:
        other = "" if config.method == "laplace" else "method=iterative, which stores no matrix of them, or "
        raise ArgumentError(
            f"points={count}: a Gaussian process by its whole matrix keeps {host.MOST:,} examples at most",
            remedy=f"use {other}method=sparse, or fewer points",
        )
    if count < len(data.train) and config.points == "auto":
        power = "second" if iterative else "third"
        warnings.warn(
            f"gp: {count:,} of {len(data.train):,} training examples are kept, drawn at random; points=N keeps more, "
            f"in time that grows with the {power} power of N",
            ChainruleWarning,
            stacklevel=3,
        )
    return {"points": count}


__all__ = [
    "MOST",
    "SCREENED",
    "GPConfig",
    "has_scales",
    "kernel_from",
    "learnt_by_laplace",
    "likelihood_of",
    "measured",
    "suited",
]
