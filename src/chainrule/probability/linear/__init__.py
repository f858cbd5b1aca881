"""Linear models of vectors: principal components, and factors under noise (probabilistic PCA, factor analysis).

Linear auto-encoders find the first by gradients; their closed forms are here too.
"""

from chainrule.probability.linear.autoencoders import (
    best_code,
    linear_denoiser,
    projection_error,
    projector,
    reconstruction_error,
)
from chainrule.probability.linear.factors import (
    FactorModel,
    Factors,
    expectation_maximization,
    fit_factors,
    ppca,
)
from chainrule.probability.linear.principal_components import (
    PrincipalComponents,
    principal_angles,
    principal_components,
)

__all__ = [
    "FactorModel",
    "Factors",
    "PrincipalComponents",
    "best_code",
    "expectation_maximization",
    "fit_factors",
    "linear_denoiser",
    "ppca",
    "principal_angles",
    "principal_components",
    "projection_error",
    "projector",
    "reconstruction_error",
]
