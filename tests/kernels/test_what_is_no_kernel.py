"""Machines are given a kernel or say that they were not: names, functions, classes and kernels of sequences."""

from collections.abc import Callable, Iterator
from typing import Any

import jaxtyping
import numpy as np
import pytest

from chainrule import kernels as K
from chainrule.core.errors import ArgumentError

X = np.random.default_rng(0).normal(size=(8, 2))
Y = np.arange(8) % 2
MACHINES: dict[str, Callable[[Any], object]] = {
    "KernelRidge": K.KernelRidge,
    "KernelPCA": K.KernelPCA,
    "kernel_k_means": lambda kernel: K.kernel_k_means(X, 2, kernel),
    "spectral_clustering": lambda kernel: K.spectral_clustering(X, 2, kernel),
    "MeanEmbedding": lambda kernel: K.MeanEmbedding(kernel, X),
    "squared_mmd": lambda kernel: K.squared_mmd(X, X, kernel),
    "KernelFunction": lambda kernel: K.KernelFunction(kernel, X, Y),
    "interpolate": lambda kernel: K.interpolate(kernel, X, Y),
    "landmarks": lambda kernel: K.Nystrom(kernel, X, count=2),
    "fit": lambda kernel: K.SupportVectorClassifier(kernel).fit(X, Y),
    "GaussianProcess": K.GaussianProcess,
    "SparseGaussianProcess": K.SparseGaussianProcess,
    "IterativeGaussianProcess": K.IterativeGaussianProcess,
    "WeightSpaceGaussianProcess": K.WeightSpaceGaussianProcess,
    "LaplaceClassifier": lambda kernel: K.LaplaceClassifier(kernel).fit(X, Y),
    "VariationalClassifier": lambda kernel: K.VariationalClassifier(kernel).fit(X, Y),
    "DirichletClassifier": K.DirichletClassifier,
}


@pytest.fixture(autouse=True)
def _as_users_meet_it() -> Iterator[None]:
    """Annotations are enforced in the tests alone, and would speak first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_no_kernel_is_refused_by_every_machine(name: str) -> None:
    for given, said in (
        ("rbf", "not a str\n.*RBF"),
        (lambda a, b: a @ b, "not a function\n.*RBF"),
        (K.RBF, r"not the class RBF\n.*RBF\(\)"),
    ):
        with pytest.raises(ArgumentError, match=rf"{name}\(kernel\): a Kernel is needed, {said}"):
            MACHINES[name](given)


def test_the_remedy_for_a_kernel_of_sequences_works() -> None:
    spectrum = K.sequences.Spectrum(2)
    with pytest.raises(ArgumentError, match=r"compares sequences\n.*kernel.precomputed\(sequences\)"):
        K.KernelRidge(spectrum)  # type: ignore[arg-type]
    found = K.KernelRidge(spectrum.precomputed(["GATTACA", "TACATTAC"]), ridge=1.0).fit([0, 1], [1.0, 2.0])
    assert found.predict([0, 1]).shape == (2,)


def test_features_written_out_are_those_of_polynomials() -> None:
    with pytest.raises(ArgumentError, match="of a Polynomial, not of a RBF"):
        K.explicit_features(K.RBF(), X)  # type: ignore[arg-type]
