"""Kernel functions of vectors, and their algebra."""

from chainrule.kernels.functions.algebra import (
    Composed,
    Constant,
    Normalized,
    OnColumns,
    Precomputed,
    Sum,
)
from chainrule.kernels.functions.algebra import ProductKernel as Product
from chainrule.kernels.functions.dot_products import ArcCosine, Polynomial
from chainrule.kernels.functions.dot_products import LinearKernel as Linear
from chainrule.kernels.functions.processes import Brownian, Cosine, Periodic, White
from chainrule.kernels.functions.stationary import RBF, Matern, OrnsteinUhlenbeck, RationalQuadratic

__all__ = [
    "RBF",
    "ArcCosine",
    "Brownian",
    "Composed",
    "Constant",
    "Cosine",
    "Linear",
    "Matern",
    "Normalized",
    "OnColumns",
    "OrnsteinUhlenbeck",
    "Periodic",
    "Polynomial",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Sum",
    "White",
]
