"""Information of Gaussian ensembles against integrals, and through the training of wide networks."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from chainrule.core.errors import ArgumentError
from chainrule.kernels.ensembles import ensemble_information, ensemble_kl
from chainrule.kernels.infinite import Dense
from chainrule.kernels.infinite.training import TrainedPrediction, gradient_descent

NOISE = np.random.default_rng(0)
MEAN = np.array([0.0, 0.7, 2.5])
FACTOR = NOISE.normal(size=(3, 3)) / 2
COVARIANCE = FACTOR @ FACTOR.T + 0.3 * np.eye(3)
START = TrainedPrediction(np.zeros(3), np.eye(3))


def information(means: np.ndarray, deviations: np.ndarray) -> float:
    """I(X; Z) of X spread evenly and Z Gaussian given it, by quadrature."""

    def density_of_information(z: float) -> float:
        parts = stats.norm.pdf(z, means, deviations)
        whole = parts.mean()
        return float(sum(p * math.log(p / whole) for p in parts if p > 0) / len(means))

    return integrate.quad(density_of_information, means.min() - 12, means.max() + 12, limit=400)[0]


def test_the_information_of_outputs_about_inputs_lies_between_the_bounds() -> None:
    found = ensemble_information(TrainedPrediction(MEAN, COVARIANCE), START)
    exact = information(MEAN, np.sqrt(np.diagonal(COVARIANCE)))
    assert found.lower < exact < found.upper < math.log(3)
    far = ensemble_information(TrainedPrediction(100 * MEAN, COVARIANCE), START)
    np.testing.assert_allclose([far.lower, far.upper], math.log(3), rtol=1e-9)
    same = ensemble_information(START, START)
    np.testing.assert_allclose([same.lower, same.upper, same.data_bound], 0, atol=1e-12)


def test_entropies_and_divergences_are_those_of_gaussians() -> None:
    found = ensemble_information(TrainedPrediction(MEAN, COVARIANCE), START)
    variance = np.diagonal(COVARIANCE)
    assert found.entropy == pytest.approx(stats.multivariate_normal(MEAN, COVARIANCE).entropy())
    assert found.conditional_entropy == pytest.approx(np.mean(0.5 * np.log(2 * np.pi * np.e * variance)))
    assert found.data_bound == pytest.approx(np.mean(0.5 * (variance + MEAN**2 - 1 - np.log(variance))))
    together = 0.5 * (np.trace(COVARIANCE) + MEAN @ MEAN - 3 - np.linalg.slogdet(COVARIANCE)[1])
    assert ensemble_kl(TrainedPrediction(MEAN, COVARIANCE), START) == pytest.approx(together)


def test_outputs_are_independent_and_add_up() -> None:
    one = ensemble_information(TrainedPrediction(MEAN, COVARIANCE), START)
    two = ensemble_information(
        TrainedPrediction(np.stack([MEAN, MEAN], axis=1), COVARIANCE),
        TrainedPrediction(np.zeros((3, 2)), np.eye(3)),
    )
    assert two.entropy == pytest.approx(2 * one.entropy)
    assert two.data_bound == pytest.approx(2 * one.data_bound)


def test_training_makes_outputs_more_certain_and_their_inputs_easier_to_tell() -> None:
    network = Dense(1, "relu", bias_std=0.5)
    x = NOISE.normal(size=(6, 2))
    y = np.sign(x[:, 0])
    new = NOISE.normal(size=(5, 2))
    times = np.array([0.0, 0.3, 3.0, 30.0])
    through = gradient_descent(network.ntk, network.nngp, x, y, times)(new)
    start = gradient_descent(network.ntk, network.nngp, x, y, 0.0)(new)
    found = ensemble_information(through, start)
    assert found.entropy.shape == (4,)
    assert (np.diff(found.entropy) < 0).all()
    assert (np.diff(found.data_bound) > 0).all()
    assert found.data_bound[0] == pytest.approx(0, abs=1e-9)
    assert (found.lower <= found.upper).all()
    assert found.lower[-1] > found.upper[0]
    moved = ensemble_kl(TrainedPrediction(through.mean[2], through.covariance[2]), start)
    assert moved > ensemble_kl(TrainedPrediction(through.mean[1], through.covariance[1]), start) > 0


def test_ensembles_that_are_certain_need_noise_and_get_along_with_it() -> None:
    certain = TrainedPrediction(MEAN, np.zeros((3, 3)))
    with pytest.raises(ArgumentError, match=r"(?s)variance of an output is 0.*noise=1e-3"):
        ensemble_information(certain, START)
    assert np.isfinite(ensemble_information(certain, START, noise=1e-3).entropy)
    with pytest.raises(ArgumentError, match=r"noise=-1"):
        ensemble_information(certain, START, noise=-1)
    with pytest.raises(ArgumentError, match=r"(?s)means of shape \(2, 1\).*predict the same points"):
        ensemble_information(TrainedPrediction(MEAN, COVARIANCE), TrainedPrediction(np.zeros(2), np.eye(2)))
