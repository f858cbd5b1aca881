"""Experiments of auto-encoders: their numbers are those of closed forms."""

import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain import experiments
from chainrule.explain.experiments.auto_encoders import circle_noise


def test_a_linear_one_trained_by_gradients_reaches_pca() -> None:
    numbers = experiments.run("linear-autoencoder").numbers
    assert numbers["discarded"] == pytest.approx(1.85)
    assert abs(numbers["relative_excess"]) < 1e-4
    assert numbers["projector_distance"] < 1e-3
    assert max(numbers["angles"]) < 0.1
    assert numbers["loss_at_zero"] == pytest.approx(7.85)
    # All but the best of the 15 pairs of axes are saddles.
    assert (numbers["critical_points"], numbers["saddles"]) == (15, 14)
    assert numbers["column_cosine"] < 0.99


def test_stacked_linear_layers_gain_nothing() -> None:
    deep = experiments.run(
        "linear-autoencoder", layers=2, variances=(2.0, 1.0, 0.5), latent=1, steps=1500
    ).numbers
    assert deep["loss"] == pytest.approx(1.5, rel=1e-4)
    with pytest.raises(ArgumentError, match="latent=3: with 3 variances"):
        experiments.run("linear-autoencoder", variances=(2.0, 1.0, 0.5), latent=3)


def test_of_three_structures_the_one_with_noisy_data_learns_the_score() -> None:
    outcome = experiments.run("auto-encoders", steps=600, width=64, depth=1)
    plain, denoiser = outcome.numbers["D(E(x))"], outcome.numbers["D(E(x + noise))"]
    assert plain["bound"] is None
    assert plain["error"] < 1e-3  # it copies
    assert plain["denoising_error"] == pytest.approx(outcome.numbers["do_nothing"], rel=0.1)
    assert outcome.numbers["exact"] < denoiser["denoising_error"] < 0.85 * plain["denoising_error"]
    assert denoiser["cosine"] > 0.85 > plain["cosine"]
    with pytest.raises(ArgumentError, match="no points in the plane"):
        experiments.run("auto-encoders", data="digits")


@pytest.mark.parametrize("dimensions", [2, 50])
def test_noise_around_a_circle_points_off_it_in_all_directions_but_one(dimensions: int) -> None:
    found = circle_noise(dimensions, 0)
    assert found["off_share"] == pytest.approx(1 - 1 / dimensions, abs=0.01 if dimensions == 50 else 0.03)
    assert found["off_left"] < 0.02  # the best denoiser takes it away,
    assert found["along_left"] == pytest.approx(1, abs=0.1)  # and cannot tell the rest
