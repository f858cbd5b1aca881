"""Layers in the information plane: binned layers are exact, noise is a bound, phases are measured."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.pattern_networks import layers, patterns, start
from chainrule.explain.methods.plane_paths import path_of
from chainrule.information.plane import binned, layer_information, phases, quantized

BINS, ENDS = 30, (-1.0, 1.0)


@pytest.fixture(scope="module")
def hidden() -> list[np.ndarray]:
    """All patterns through a network with random weights."""
    weights = jax.tree.map(lambda leaf: 2 * leaf, start((10, 7, 5, 4, 3), jax.random.key(0)))
    return [np.asarray(h) for h in layers(weights, jnp.asarray(patterns().x, jnp.float32), "tanh")]


def entropy(rows: np.ndarray) -> float:
    p = np.unique(rows, axis=0, return_counts=True)[1] / len(rows)
    return float(-(p * np.log2(p)).sum())


def test_what_bins_of_a_layer_know_about_a_discrete_input_is_their_entropy(hidden) -> None:
    for h in hidden:
        about_input, about_target = layer_information(h, patterns().p, bins=BINS, limits=ENDS)
        assert about_input == pytest.approx(entropy(binned(h, BINS, ENDS)), abs=1e-12)
        assert about_input <= 12 + 1e-9
        assert 0 <= about_target <= patterns().information + 1e-9


def test_the_data_processing_inequality_holds_where_layers_are_computed_from_binned_ones() -> None:
    rng = np.random.default_rng(0)
    h, about = patterns().x, []
    for width in (10, 7, 5, 4, 3):
        h = quantized(np.tanh(h @ rng.normal(size=(h.shape[1], width))), BINS, ENDS)
        about.append(layer_information(h, patterns().p, bins=BINS, limits=ENDS))
    for part in np.array(about).T:
        assert (np.diff(part) <= 1e-12).all()


def test_the_input_itself_knows_all_there_is() -> None:
    known = patterns()
    about_input, about_target = layer_information(known.x, known.p, bins=2)
    assert about_input == pytest.approx(12)
    assert about_target == pytest.approx(known.information)
    assert layer_information(known.x, known.p, bins=2, unit="nats").about_input == pytest.approx(
        12 * np.log(2)
    )


def test_noise_leaves_less_the_more_there_is(hidden) -> None:
    some = np.arange(0, 4096, 16)
    found = [
        layer_information(hidden[0][some], patterns().p[some], "noise", noise=noise)
        for noise in (1e-3, 0.1, 0.5, 10.0)
    ]
    inputs, target = np.array(found).T
    assert inputs[0] == pytest.approx(8)
    assert (np.diff(inputs) < 0).all()
    assert inputs[-1] < 0.1
    assert (target >= 0).all()
    assert target[0] <= 1


def test_classes_and_their_probabilities_are_the_same_target() -> None:
    h = np.random.default_rng(0).normal(size=(40, 2))
    y = np.arange(40) % 3
    for estimator in ("binning", "noise"):
        one = layer_information(h, y, estimator, bins=3)
        two = layer_information(h, np.eye(3)[y], estimator, bins=3)
        assert one == pytest.approx(two)


def test_phases_are_the_signed_changes_before_and_after_the_plateau() -> None:
    assert phases([1.0, 5.0, 5.0, 6.0], [0.0, 0.5, 1.0, 1.0]).compression == pytest.approx(1.0)
    assert phases([4.0, 4.0], [0.3, 0.3]) == (0, 0.0, 0.0)
    with pytest.raises(ArgumentError, match="same number"):
        phases([1.0], [])


def test_bins_of_a_path_span_what_a_layer_reaches_in_all_of_training() -> None:
    small = np.linspace(0, 1, 64)[:, None]
    moments = {0: {"h": small}, 10: {"h": 100 * small}}
    path = path_of(moments, np.arange(64) % 2, bins=10)
    assert path.about_input[0, 0] == 0  # all in one bin of a hundred
    assert path.about_input[1, 0] > 3
    assert path.phases()["h"].fitting >= 0


def test_a_layer_that_reads_more_than_one_before_is_named() -> None:
    h = np.random.default_rng(0).normal(size=(64, 1))
    path = path_of({0: {"narrow": 0 * h, "wide": h}}, np.arange(64) % 2, bins=10)
    assert path.rises() == ["wide"]


def test_input_that_makes_no_sense_is_refused() -> None:
    h, y = np.zeros((4, 2)), np.zeros(4, int)
    for wrong, why in (
        (lambda: layer_information(h, y[:3]), "4 rows of h and 3 targets"),
        (lambda: layer_information(h, 0), "4 rows of h and 1 targets"),
        (lambda: layer_information(h, np.full((4, 3), 0.3)), "row 0 sums to 0.9, which is 0.1 below 1"),
        (lambda: layer_information(h[:0], y[:0]), "a row for each input is needed"),
        (lambda: layer_information(h + np.nan, y), "not finite"),
        (lambda: layer_information(h, y, "knn"), "estimator must be"),
        (lambda: layer_information(h, y, "noise", noise=-1.0), "noise must be positive"),
        (lambda: layer_information([[1, 2], [3]], [0, 1]), "one row as long as the other"),
        (lambda: binned(h, 1), "bins"),
        (lambda: binned(h, 3, (1.0, 0.0)), "limits"),
    ):
        with pytest.raises(ArgumentError, match=why):
            wrong()


def test_the_rule_of_the_patterns_has_the_information_asked_for() -> None:
    known = patterns()
    assert known.information == pytest.approx(0.99, abs=1e-6)
    assert known.p[:, 1].mean() == pytest.approx(0.5, abs=0.02)
    np.testing.assert_allclose(known.p.sum(axis=1), 1.0)
