"""Kernels: similarity instead of features, and the machines that need nothing else.

Kernel functions and what every machine needs of them are loaded with the package, machines when they are first used.
"""

from typing import Any

from chainrule.core.lazy import LazyNames
from chainrule.kernels.approximation import feature_map
from chainrule.kernels.checking import Check, check
from chainrule.kernels.functions import (
    RBF,
    ArcCosine,
    Brownian,
    Composed,
    Constant,
    Cosine,
    Linear,
    Matern,
    Normalized,
    OnColumns,
    OrnsteinUhlenbeck,
    Periodic,
    Polynomial,
    Precomputed,
    Product,
    RationalQuadratic,
    Sum,
    White,
)
from chainrule.kernels.kernel import Kernel
from chainrule.kernels.linear_models import logistic, ridge
from chainrule.kernels.nystrom import Nystrom, landmarks
from chainrule.kernels.positive import Factored, PSDSolution, factored, nearest_psd, psd_solve
from chainrule.kernels.random_features import GramError, PositiveFeatures, RandomFourierFeatures, gram_error
from chainrule.kernels.smoothing import (
    exponential,
    fit_bandwidth,
    gaussian,
    laplace,
    leave_one_out,
    smooth,
    smoothing_weights,
)
from chainrule.probability.distances import squared_distances

_LAZY = LazyNames(
    __name__,
    {
        "inner_products": ("InnerProduct", "check_axioms"),
        "function_spaces": ("L2",),
        "finite_sets": ("FiniteKernel", "cooccurrences", "positive_mutual_information"),
        "trick": (
            "centre",
            "combined",
            "distances_to_means",
            "feature_distances",
            "feature_variance",
            "nearest_mean",
            "nearest_neighbours",
            "normalise",
            "squared_distance",
        ),
        "reconstruction": ("embed", "procrustes", "reconstruct"),
        "pivoting": ("pivoted_cholesky",),
        "rkhs": ("KernelFunction", "interpolate"),
        "polynomial_features": ("explicit_features", "polynomial_feature_count"),
        "features": ("KernelFeatures",),
        "regression": ("KernelRidge",),
        "principal_components": ("KernelPCA",),
        "density": ("KernelDensity",),
        "clustering": ("kernel_k_means", "spectral_clustering"),
        "mean_embedding": ("MeanEmbedding", "median_kernel", "mmd", "multi_scale", "squared_mmd", "witness"),
        "alignment": ("coral_alignment", "mmd_alignment"),
        "independence": ("hsic",),
        "hypothesis_tests": ("independence_test", "two_sample_test"),
        "support_vectors": ("OneClassSupportVectors", "SupportVectorClassifier", "SupportVectorRegressor"),
        "gaussian_processes": (
            "GaussianProcess",
            "SurrogateSearch",
            "brownian_motion",
            "confidence_bound",
            "draw_paths",
            "expected_improvement",
            "ornstein_uhlenbeck",
            "probability_of_improvement",
            "sample_hyperparameters",
            "smooth_functions",
        ),
        "gaussian_processes.classification": ("LaplaceClassifier", "VariationalClassifier"),
        "gaussian_processes.classification_dirichlet": ("DirichletClassifier",),
        "gaussian_processes.sparse": ("SparseGaussianProcess",),
        "gaussian_processes.stochastic": ("StochasticGaussianProcess",),
        "gaussian_processes.stochastic_fitting": ("fit_stochastic",),
        "gaussian_processes.iterative": ("IterativeGaussianProcess",),
        "gaussian_processes.weight_space": ("WeightSpaceGaussianProcess",),
        "gaussian_processes.state_space": ("StateSpaceGaussianProcess",),
        "gaussian_processes.likelihoods": (
            "GaussianLikelihood",
            "LogisticLikelihood",
            "PoissonLikelihood",
            "ProbitLikelihood",
            "SoftmaxLikelihood",
            "StudentTLikelihood",
        ),
        "empirical": (
            "empirical_ntk",
            "layer_shares",
            "linearize",
            "ntk_by_layer",
            "ntk_plan",
            "ntk_product",
        ),
        "widths": ("width_study",),
        "ensembles": ("ensemble_information", "ensemble_kl"),
    },
    ("gaussian_processes", "infinite", "sequences", "support_vectors"),
)

__all__ = [
    "RBF",
    "ArcCosine",
    "Brownian",
    "Check",
    "Composed",
    "Constant",
    "Cosine",
    "Factored",
    "GramError",
    "Kernel",
    "Linear",
    "Matern",
    "Normalized",
    "Nystrom",
    "OnColumns",
    "OrnsteinUhlenbeck",
    "Periodic",
    "Polynomial",
    "PositiveFeatures",
    "Precomputed",
    "Product",
    "RandomFourierFeatures",
    "RationalQuadratic",
    "PSDSolution",
    "Sum",
    "White",
    "check",
    "exponential",
    "factored",
    "feature_map",
    "fit_bandwidth",
    "gaussian",
    "gram_error",
    "landmarks",
    "laplace",
    "leave_one_out",
    "logistic",
    "nearest_psd",
    "psd_solve",
    "ridge",
    "smooth",
    "smoothing_weights",
    "squared_distances",
    *_LAZY.names,
]


def __getattr__(name: str) -> Any:
    return _LAZY.load(name)


def __dir__() -> list[str]:
    return __all__
