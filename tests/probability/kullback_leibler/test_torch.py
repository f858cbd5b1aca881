"""Closed forms of the Kullback-Leibler divergence against PyTorch, where it is installed."""

from collections.abc import Iterator

import jax
import numpy as np
import pytest

from chainrule.probability import (
    Beta,
    Binomial,
    Dirichlet,
    Exponential,
    Gamma,
    Laplace,
    Normal,
    Poisson,
    Uniform,
    kl,
)

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


A, B = np.array([0.4, 1.0, 7.5]), np.array([2.0, 0.7, 30.0])


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (Normal, torch.distributions.Normal),
        (Laplace, torch.distributions.Laplace),
        (Gamma, torch.distributions.Gamma),
        (Beta, torch.distributions.Beta),
        (lambda a, b: Exponential(a * b), lambda a, b: torch.distributions.Exponential(a * b)),
        (lambda a, b: Poisson(a * b), lambda a, b: torch.distributions.Poisson(a * b)),
        (
            lambda a, b: Dirichlet(np.stack([a, b, a])),
            lambda a, b: torch.distributions.Dirichlet(torch.stack([a, b, a])),
        ),
        (lambda a, b: Uniform(-b, a), lambda a, b: torch.distributions.Uniform(-b, a)),
        (lambda a, b: Binomial(5, a / (a + b)), lambda a, b: torch.distributions.Binomial(5, a / (a + b))),
    ],
    ids=["normal", "laplace", "gamma", "beta", "exponential", "poisson", "dirichlet", "uniform", "binomial"],
)
def test_closed_forms_agree_with_torch(mine, theirs) -> None:
    found = kl(mine(A, B), mine(B, A + 0.5))
    first, second = ([torch.tensor(one) for one in pair] for pair in ((A, B), (B, A + 0.5)))
    wanted = torch.distributions.kl_divergence(theirs(*first), theirs(*second)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
