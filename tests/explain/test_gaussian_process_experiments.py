"""Experiments on Gaussian processes: Brownian motion against theory, bands and evidence of a process."""

import jax
import numpy as np
import pytest

from chainrule.explain import experiments
from chainrule.kernels import RBF, Constant
from chainrule.kernels.gaussian_processes import GaussianProcess


def test_brownian_motion_has_the_eigenvalues_and_the_variance_of_theory() -> None:
    found = experiments.run("brownian", paths=2000, steps=20, eigenvalues=3)
    np.testing.assert_allclose(found.numbers["eigenvalues"], [0.405285, 0.045032, 0.016211], rtol=1e-4)
    assert found.numbers["variance_at_1"] == pytest.approx(1, abs=0.1)
    assert found.numbers["share_outside"] == pytest.approx(0.0455, abs=0.02)
    assert abs(found.numbers["correlation_of_steps"]) < 0.03
    assert [one.name for one in found.pictures] == [
        "brownian-paths",
        "brownian-variance",
        "brownian-spectrum",
        "brownian-eigenfunctions",
    ]
    shown = found.pictures[-1]
    times = shown.series["number 1"][0]  # type: ignore[union-attr]
    for j in range(3):
        theory = np.sqrt(2) * np.sin((j + 0.5) * np.pi * times)
        np.testing.assert_allclose(shown.series[f"number {j + 1}"][1], theory, atol=2e-3)  # type: ignore[union-attr]


def test_the_surface_holds_the_evidence_of_the_process() -> None:
    found = experiments.run(
        "gaussian-process", points=8, grid=20, paths=3, surface=11, kernel="matern52", scale=0.7
    )
    *_, bands, surface, functions = found.pictures
    waves = np.stack([one[1] for one in functions.series.values()])  # type: ignore[union-attr]
    np.testing.assert_allclose(waves @ waves.T / 20, np.eye(4), atol=1e-9)
    field = surface.field  # type: ignore[union-attr]
    assert field[5, 5] == pytest.approx(found.numbers["log_evidence"], rel=1e-5)
    assert found.numbers["best_log_evidence"] == pytest.approx(field.max())
    _, mean, low, high = bands.series["observation"]  # type: ignore[union-attr]
    _, _, inner, _ = bands.series["function"]  # type: ignore[union-attr]
    assert (low < inner).all()
    np.testing.assert_allclose(mean, (low + high) / 2, atol=1e-9)


def test_learnt_settings_explain_the_data_better_than_given_ones() -> None:
    asked = {"points": 8, "grid": 20, "paths": 2, "surface": 5, "scale": 0.3, "noise": 0.3}
    given, learnt = (experiments.run("gaussian-process", learn=learn, **asked) for learn in (False, True))
    assert learnt.numbers["log_evidence"] > given.numbers["log_evidence"]


def test_bands_of_a_process_with_the_kernel_of_the_data_hold_what_they_say() -> None:
    x, grid = np.linspace(-3, 3, 12), np.linspace(-3, 3, 30)
    process = GaussianProcess(Constant(1.0) * RBF(0.8), 0.1)
    functions = process.sample(jax.random.key(0), np.concatenate([x, grid]), 300)
    noise = np.sqrt(0.1) * np.random.default_rng(0).normal(size=(300, 12))
    mean, variance = process.fit(x, (functions[:, :12] + noise).T).predict(grid, "latent")
    inside = np.abs(functions[:, 12:].T - mean) <= 1.645 * np.sqrt(variance)
    assert inside.mean() == pytest.approx(0.9, abs=0.02)
