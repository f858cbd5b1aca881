"""Real examples, their judge and their features."""

import numpy as np
import pytest

from chainrule import data
from chainrule.data.splits import Subset
from chainrule.train.generation.classes import numbers_of_classes
from chainrule.train.generation.features import DataThemselves, RandomConvolutions
from chainrule.train.generation.real_examples import RealExamples, real_examples

DRAW = np.random.default_rng(0)


@pytest.fixture(scope="module")
def digits() -> RealExamples:
    return real_examples(data.load("digits"))


def test_classes_of_samples_come_by_their_frequency_and_held_out_ones_are_known_to_be_stratified() -> None:
    noise = np.random.default_rng(0)
    labels = np.repeat([0, 1], [160, 40])
    known = real_examples(data.from_arrays(noise.normal(size=(200, 3)), labels))
    drawn = known.drawn_classes(2000, 0)
    assert drawn is not None
    assert drawn.mean() == pytest.approx(0.2, abs=0.03)
    np.testing.assert_array_equal(known._strata(), known.held_out_y)


def test_what_stands_for_a_perfect_sampler_has_classes_by_chance(digits: RealExamples) -> None:
    assert digits.held_out_y is not None
    assert digits.more_y is not None
    pool = np.concatenate([digits.held_out, digits.more])
    labels = dict(zip(map(bytes, pool), np.concatenate([digits.held_out_y, digits.more_y]), strict=True))
    found = digits.independent(180, 0)
    assert len(np.unique(found, axis=0)) == 180
    counts = np.bincount([labels[bytes(row)] for row in found], minlength=10)
    drawn = digits.drawn_classes(180, 0)
    assert drawn is not None
    np.testing.assert_array_equal(counts, np.bincount(drawn, minlength=10))
    # Even shares of classes would make real examples look nearer than any sampler can be.
    by_chance = np.mean([digits.frechet_distance(digits.independent(180, seed)) for seed in range(5)])
    assert by_chance > 1.3 * digits.frechet_distance(digits.held_out)


def test_of_training_examples_every_second_one_stands_for_held_out_ones() -> None:
    points = data.load("moons", n=100)
    for part in (points.train, Subset.drawn(points.train, 10)):
        known = real_examples(points, part)
        assert (len(known.train), len(known.held_out)) == (40, 40)
        assert np.linalg.norm(known.train[:, None] - known.held_out[None], axis=-1).min() > 0
        assert known.said


def test_the_judge_of_digits_is_right_about_those_it_never_saw_and_has_features_of_one_size(
    digits: RealExamples,
) -> None:
    known = digits
    assert known.held_out_y is not None
    assert known.judge.accuracy(known.held_out, known.held_out_y) > 0.96
    np.testing.assert_allclose(known.judge.probabilities(known.held_out).sum(axis=1), 1, rtol=1e-5)
    features = known.features(known.train)
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(features.std(axis=0), 1, atol=1e-3)
    # Digits without some of the classes are another distribution; so are digits with a little noise.
    noisy = np.clip(known.held_out + 0.3 * DRAW.normal(size=known.held_out.shape), 0, 1)
    usual = abs(known.kernel_distance(known.held_out).value)
    assert known.kernel_distance(known.held_out[known.held_out_y < 5]).value > 3 * usual
    assert known.kernel_distance(noisy).value > 3 * usual


def test_the_same_examples_make_the_same_features_and_others_do_not(digits: RealExamples) -> None:
    again = real_examples(data.load("digits"))
    assert again.features.hash == digits.features.hash
    assert again.judge is digits.judge  # trained once
    other = real_examples(data.load("digits", seed=1))
    assert DataThemselves(other.train).hash != DataThemselves(digits.train).hash


def test_random_convolutions_tell_images_apart_and_are_always_the_same(digits: RealExamples) -> None:
    shape = digits.schema.shape
    one, other = (RandomConvolutions(digits.train, shape) for _ in range(2))
    assert one.hash == other.hash
    np.testing.assert_array_equal(one(digits.held_out), other(digits.held_out))
    seen = one(digits.train)
    assert seen.shape == (len(digits.train), one.size)
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-9)
    spread = np.round(seen.std(axis=0), 6)
    assert spread.max() == 1.0
    assert (spread == 1.0).mean() > 0.8  # a channel that is hardly ever lit says little
    blurred = one(digits.held_out * 0.5)
    assert np.abs(blurred.mean(axis=0)).mean() > 3 * np.abs(one(digits.held_out).mean(axis=0)).mean()


def test_a_channel_that_training_images_hardly_excite_does_not_outweigh_all_others() -> None:
    """Smooth images leave some random channels dark, but for a trace in a few of them."""
    rows, columns = np.mgrid[:12, :12]
    slopes = DRAW.uniform(0.5, 1.5, (200, 2, 1, 1))
    images = (slopes[:, 0] * rows + slopes[:, 1] * columns)[..., None] / 40
    known = RandomConvolutions(images[:100].reshape(100, -1), (12, 12, 1))
    seen = known(DRAW.random((50, 144)))
    assert np.abs(known(images[100:].reshape(100, -1))).max() < 6
    assert np.median(np.abs(seen).max(axis=0)) * 1000 > np.abs(seen).max()


def test_images_without_classes_are_compared_by_random_convolutions_and_vectors_as_they_are() -> None:
    images = data.from_arrays(DRAW.random((60, 8, 8)))
    assert isinstance(real_examples(images).features, RandomConvolutions)
    points = real_examples(data.load("moons", n=100))
    assert isinstance(points.features, DataThemselves)
    np.testing.assert_array_equal(points.features(points.train), points.train)


def test_a_class_that_is_drawn_badly_shows_among_the_numbers_of_its_class(digits: RealExamples) -> None:
    assert digits.more_y is not None
    samples, asked = digits.more.copy(), digits.more_y
    threes = asked == 3
    samples[threes] = samples[threes][:1]  # one and the same over and over
    samples[asked == 5] = digits.more[asked == 7][: (asked == 5).sum()]
    ours, real = numbers_of_classes(digits, samples, asked)
    assert np.asarray(real.accuracy).min() > 0.8
    assert ours.accuracy[5] == 0
    assert ours.precision[5] < 0.3
    others = [c for c in range(10) if c not in (3, 5)]
    shares = np.asarray(ours.coverage) / np.asarray(real.coverage)
    assert shares[3] < 0.4 < shares[others].min()


def test_classes_with_too_few_examples_have_no_coverage(digits: RealExamples) -> None:
    ours, _ = numbers_of_classes(digits, digits.held_out[:1], np.array([4]))
    assert np.isnan(ours.coverage).all()
    assert np.isnan(ours.accuracy).sum() == 9
