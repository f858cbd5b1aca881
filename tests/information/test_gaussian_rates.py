"""Rates of Gaussian processes: closed forms, three ways to give one process, and bad ones."""

import numpy as np
import pytest

from chainrule import information as I
from chainrule.core.errors import ArgumentError


def test_the_first_order_process_has_its_closed_forms() -> None:
    found = I.gaussian_rates([0.8])
    assert found.information_rate == pytest.approx(0.736966, abs=1e-6)
    assert found.predictive_information_rate == pytest.approx(0.356848, abs=1e-6)
    assert found.variance == pytest.approx(1 / (1 - 0.64))
    assert I.gaussian_rates([0.8], noise=9.0).information_rate == pytest.approx(found.information_rate)
    assert I.gaussian_rates([]).information_rate == 0


def test_coefficients_autocovariances_and_spectra_of_one_process_agree() -> None:
    weights = np.array([0.5, -0.4, 0.2])
    first = I.gaussian_rates(weights)
    frequencies = 2 * np.pi * np.arange(4096) / 4096
    response = 1 - (weights * np.exp(-1j * np.outer(frequencies, [1, 2, 3]))).sum(axis=1)
    spectrum = 1 / np.abs(response) ** 2
    second = I.gaussian_rates(spectrum=spectrum)
    third = I.gaussian_rates(autocovariance=np.fft.ifft(spectrum).real[:8])
    for other in (second, third):
        assert other.information_rate == pytest.approx(first.information_rate, abs=1e-9)
        assert other.predictive_information_rate == pytest.approx(first.predictive_information_rate, abs=1e-9)
    assert first.predictive_information_rate == pytest.approx(0.5 * np.log2(1 + weights @ weights))
    np.testing.assert_allclose(third.coefficients[:3], weights, atol=1e-9)


def test_rates_are_those_of_long_windows_of_normal_variables() -> None:
    phi, half = 0.8, 12
    apart = np.abs(np.arange(2 * half + 1)[:, None] - np.arange(2 * half + 1)[None])
    covariance = phi**apart / (1 - phi**2)
    past, future = tuple(range(half)), tuple(range(half + 1, 2 * half + 1))
    found = I.gaussian_rates([phi])
    assert I.gaussian_mutual_information(covariance, half, past) == pytest.approx(found.information_rate)
    assert I.gaussian_mutual_information(covariance, half, future, given=past) == pytest.approx(
        found.predictive_information_rate
    )


def test_a_path_gives_the_rates_of_its_process() -> None:
    noise = np.random.default_rng(0).normal(size=50_000)
    path = np.zeros(len(noise))
    for t in range(1, len(noise)):
        path[t] = 0.8 * path[t - 1] + noise[t]
    found = I.gaussian_rates(autocovariance=I.autocovariances(path, 2))
    assert found.information_rate == pytest.approx(0.736966, abs=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: I.gaussian_rates([1.0]), "not stationary"),
        (lambda: I.gaussian_rates(), "give one of"),
        (lambda: I.gaussian_rates([0.5], spectrum=[1.0]), "give one of"),
        (lambda: I.gaussian_rates(autocovariance=[1.0, 1.0]), "is\\s+certain"),
        (lambda: I.gaussian_rates(autocovariance=[0.0]), "variance at lag 0"),
        (lambda: I.gaussian_rates(spectrum=[1.0, 0.0]), "gap in its spectrum"),
        (lambda: I.gaussian_rates([0.5], noise=0.0), "a variance is positive"),
        (lambda: I.gaussian_rates(spectrum=[1 + 1j, 2]), "needs a list of real numbers"),
        (lambda: I.autocovariances([1.0, 2.0], 2), "fewer lags"),
    ],
)
def test_processes_that_are_none_are_refused(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
