"""Experiments about attention find what theory says."""

import pytest

from chainrule.explain import experiments


def test_operations_grow_quadratically_with_the_softmax_and_linearly_with_features() -> None:
    numbers = experiments.run(
        "attention-cost", size=64, softmax=[512, 1024], linear=[512, 1024], draws=16, repeats=1
    ).numbers
    assert numbers["softmax"]["slope_flops"] == pytest.approx(2, abs=0.01)
    assert numbers["linear"]["slope_flops"] == pytest.approx(1, abs=0.01)
    assert numbers["random features"]["slope_flops"] == pytest.approx(1, abs=0.01)


def test_inner_products_of_positions_depend_on_the_distance_alone() -> None:
    numbers = experiments.run("positions", width=8, length=20).numbers
    assert numbers["squared_length"] == pytest.approx(4)
    assert numbers["by_distance"][2] == pytest.approx(2.563718, abs=1e-5)
    assert numbers["spread"] < 1e-5


def test_random_features_err_less_with_more_draws_and_least_in_pairs_at_right_angles() -> None:
    numbers = experiments.run("random-features", size=8, points=8, draws=[8, 128], repeats=10).numbers
    assert numbers["plain"]["slope"] == pytest.approx(-0.5, abs=0.15)
    assert (
        numbers["plain"]["error"][0]
        > numbers["hyperbolic"]["error"][0]
        > numbers["hyperbolic, orthogonal"]["error"][0]
    )


def test_attention_with_the_best_width_comes_close_to_the_noise() -> None:
    numbers = experiments.run("kernel-attention").numbers
    assert numbers["error"] < 0.09  # the noise has 0.04
    assert numbers["difference"] < 1e-6
    assert min(numbers["errors"]) >= numbers["error"] - 1e-6
