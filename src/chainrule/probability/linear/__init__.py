"""Linear models of vectors: principal components, and factors under noise (probabilistic PCA, factor analysis)."""

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
    "expectation_maximization",
    "fit_factors",
    "ppca",
    "principal_angles",
    "principal_components",
]
