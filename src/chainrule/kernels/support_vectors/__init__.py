"""Support vector machines: classes, values, and one class alone, by one dual solver."""

from chainrule.kernels.support_vectors.classification import FittedClassifier, SupportVectorClassifier
from chainrule.kernels.support_vectors.one_class import FittedOneClass, OneClassSupportVectors
from chainrule.kernels.support_vectors.optimum import DualOptimum
from chainrule.kernels.support_vectors.regression import FittedRegressor, SupportVectorRegressor

__all__ = [
    "DualOptimum",
    "FittedClassifier",
    "FittedOneClass",
    "FittedRegressor",
    "OneClassSupportVectors",
    "SupportVectorClassifier",
    "SupportVectorRegressor",
]
