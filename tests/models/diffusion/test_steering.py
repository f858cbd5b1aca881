"""Steering against distributions that are known: inpainting and anagrams of Gaussians, views, guidance, variations."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Schema
from chainrule.data.example_files import arrays_of
from chainrule.models.diffusion import samplers, schedules
from chainrule.models.diffusion.denoisers.guided import guided
from chainrule.models.diffusion.denoisers.mixture import MixtureDenoiser
from chainrule.models.diffusion.diffusion import Diffusion
from chainrule.models.diffusion.process import Level
from chainrule.models.diffusion.steering import inpainting, views
from chainrule.models.diffusion.steering.anagrams import Anagram
from chainrule.models.diffusion.steering.variations import similarity

KEY = jax.random.key(0)
PAIR = MixtureDenoiser([1.0], [[0.0, 0.0]], [[[1.0, 0.8], [0.8, 1.0]]])
"""Two numbers with correlation 0.8; if the first is 1.5, the second has mean 1.2 and standard deviation 0.6."""
SQUARE = (4, 4, 1)


def known(value: float) -> inpainting.Known:
    return inpainting.Known(jnp.array([value, 0.0]), jnp.array([1.0, 0.0]))


def drawn(denoiser: Any, sampler: Any, steps: int, count: int = 4000) -> np.ndarray:
    levels = schedules.grid(schedules.schedule("logsnr-linear"), steps)
    start = jax.random.normal(KEY, (count, 2))
    return np.asarray(samplers.walk(denoiser, start, levels, sampler, KEY).samples)


def test_the_posterior_method_finds_the_conditional_distribution_of_a_gaussian() -> None:
    informed = inpainting.PosteriorDenoiser(PAIR, [[1.0, 0.0]], [1.5])
    out = drawn(informed, samplers.Ancestral(), 500)
    assert out[:, 0].mean() == pytest.approx(1.5, abs=0.01)
    assert out[:, 1].mean() == pytest.approx(1.2, abs=0.03)
    assert out[:, 1].std() == pytest.approx(0.6, abs=0.03)


def _restoring() -> Diffusion:
    """A model of images of independent pixels, normal around grey, that knows them exactly."""
    model = models.build("diffusion", Schema("image", SQUARE), width=4, depth=1)
    return eqx.tree_at(lambda m: m.denoiser, model, MixtureDenoiser([1.0], np.zeros((1, 16)), [0.04]))


def test_samples_agree_with_a_smaller_or_blurred_image_and_are_free_beyond_that(tmp_path: Path) -> None:
    model, options = _restoring(), {"steps": 30, "clip": "none", "observed_noise": 1e-3}
    small = np.array([[0.4, 0.6], [0.55, 0.5]])
    drawn = np.asarray(model.sample(KEY, 200, upscale=small, **options))
    means = drawn.reshape(-1, 16) @ inpainting.downsampling(SQUARE, 2).T
    np.testing.assert_allclose(means, np.broadcast_to(small.ravel(), means.shape), atol=0.01)
    free = (
        drawn - np.repeat(np.repeat(drawn.reshape(-1, 2, 2, 2, 2).mean(axis=(2, 4)), 2, 1), 2, 2)[..., None]
    )
    assert free.std() == pytest.approx(
        0.1 * np.sqrt(3 / 4), rel=0.1
    )  # three of four directions are as in the data
    blurred = np.full((4, 4, 1), 0.5, np.float32)
    blurred[1, 1] = 0.6
    np.savez(tmp_path / "blurred.npz", samples=blurred[None])
    sharp = np.asarray(model.sample(KEY, 50, deblur=tmp_path / "blurred.npz", blur=0.5, **options))
    again = sharp.reshape(-1, 16) @ inpainting.blurring(SQUARE, 0.5).T
    np.testing.assert_allclose(again, np.broadcast_to(blurred.ravel(), again.shape), atol=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"upscale": np.zeros((3, 3))}, "a half, a third"),
        ({"deblur": np.zeros((3, 4))}, "bring it to that height"),
        ({"upscale": np.zeros((2, 2)), "deblur": np.zeros((4, 4))}, "give one of them"),
        ({"upscale": np.zeros((2, 2, 3))}, "one image of 1 channels"),
    ],
)
def test_images_that_cannot_be_restored_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        _restoring().sample(KEY, 2, **options)


@pytest.mark.slow
def test_repainting_comes_near_it_and_replacing_stays_away() -> None:
    repainted = drawn(PAIR, inpainting.Inpainted(known(1.5), samplers.Ancestral(), 20), 100, count=2000)
    replaced = drawn(PAIR, inpainting.Inpainted(known(1.5), samplers.Ancestral(), 1), 500, count=2000)
    assert (repainted[:, 0] == 1.5).all()
    assert repainted[:, 1].mean() == pytest.approx(1.17, abs=0.04)
    assert 0.6 < replaced[:, 1].mean() < 0.95


def test_with_nothing_known_the_walk_is_that_of_the_sampler_inside() -> None:
    nothing = inpainting.Known(jnp.zeros(2), jnp.zeros(2))
    for inner in (samplers.DPMSolver(), samplers.GradientEstimation()):
        plain = drawn(PAIR, inner, 20, count=10)
        np.testing.assert_allclose(drawn(PAIR, inpainting.Inpainted(nothing, inner, 1), 20, count=10), plain)


def test_measurements_are_matrices_and_their_shapes_are_checked() -> None:
    x = np.arange(16.0).reshape(SQUARE)
    small = (inpainting.downsampling(SQUARE, 2) @ x.ravel()).reshape(2, 2)
    np.testing.assert_allclose(small, [[2.5, 4.5], [10.5, 12.5]])
    np.testing.assert_allclose(inpainting.blurring(SQUARE, 1e-3), np.eye(16), atol=1e-12)
    with pytest.raises(ArgumentError, match="does not divide"):
        inpainting.downsampling(SQUARE, 3)
    with pytest.raises(ArgumentError, match="do not describe"):
        inpainting.PosteriorDenoiser(PAIR, [[1.0, 0.0]], [1.5, 2.0])


@pytest.mark.parametrize("name", [*views.NAMES, "rotate(-90)", "rotate(360)"])
def test_orthogonal_views_pass_and_are_undone(name: str) -> None:
    for seed in range(2):
        one = views.view(name, SQUARE, seed)
        x = jax.random.normal(KEY, (3, *SQUARE))
        np.testing.assert_allclose(one.undo(one.apply(x)), x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: views.view("rotate(30)", SQUARE), r"rotate\(30\)' is not orthogonal \(norm changes by"),
        (lambda: views.view("rotate(90)", (4, 6, 1)), "changes the shape"),
        (lambda: views.view("mirrored", SQUARE), "did you mean 'mirror'"),
        (lambda: views.check(views.View("double", lambda x: 2 * x, lambda x: x / 2), SQUARE), "by 1e.02 %"),
        (lambda: views.check(views.View("1-x", lambda x: 1 - x, lambda x: 1 - x), SQUARE), "use negative"),
        (lambda: views.check(views.View("abs", jnp.abs, jnp.abs), SQUARE), "not linear"),
        (
            lambda: views.check(views.View("roll", lambda x: jnp.roll(x, 1, 1), lambda x: x), SQUARE),
            "not undone",
        ),
        (lambda: views.from_matrix("blur", inpainting.blurring(SQUARE, 0.7), SQUARE), "not orthogonal"),
    ],
    ids=range(8),
)
def test_views_that_would_colour_the_noise_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


def test_an_orthogonal_matrix_of_ones_own_is_a_view() -> None:
    matrix = np.linalg.qr(np.random.default_rng(0).normal(size=(16, 16)))[0]
    one = views.from_matrix("mine", matrix, SQUARE)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(2, *SQUARE)))
    np.testing.assert_allclose(one.apply(x)[0].ravel(), matrix @ np.asarray(x[0]).ravel(), atol=1e-10)


@pytest.mark.parametrize("mode", ["mean", "alternate"])
def test_an_anagram_of_two_gaussians_has_the_mean_of_both_seen_from_their_views(mode: str) -> None:
    means = np.random.default_rng(0).normal(size=(2, 16))
    two = MixtureDenoiser([1, 1], means, [0.09, 0.09], labels=[0, 1])
    turned = views.view("rotate(90)", SQUARE)
    levels = schedules.grid(schedules.schedule("logsnr-linear"), 400)
    both = Anagram(two, [views.view("identity", SQUARE), turned], mode, levels)
    start = jax.random.normal(KEY, (500, *SQUARE))
    condition = jnp.array([[0] * 500, [1] * 500])
    out = samplers.walk(both, start, levels, samplers.DDIM(), KEY, condition=condition).samples
    expected = (means[0].reshape(SQUARE) + np.asarray(turned.undo(means[1].reshape(1, *SQUARE)))[0]) / 2
    np.testing.assert_allclose(out.mean(axis=0), expected, atol=0.06)
    assert float(out.std(axis=0).mean()) == pytest.approx(0.3, abs=0.02)


def test_views_in_turn_need_the_levels_of_the_walk() -> None:
    with pytest.raises(ArgumentError, match="take turns"):
        Anagram(PAIR, [], "alternate")


def test_guidance_leads_away_from_a_negative_condition_within_its_interval_and_keeps_contrast() -> None:
    three = MixtureDenoiser([1, 1, 1], [[-1.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [0.1] * 3, labels=[0, 1, 2])
    x, level = jnp.array([[0.2, 0.3], [0.5, 0.1]]), Level(0.8, 0.6)
    wanted = jnp.array([0, 0])
    away = guided(three, 3.0, negative=jnp.array(1)).predict(x, level, wanted)
    one, other = (three.predict(x, level, jnp.full(2, c)) for c in (0, 1))
    np.testing.assert_allclose(away, 3 * one - 2 * other, rtol=1e-10)
    outside = guided(three, 3.0, interval=(5.0, 9.0)).predict(x, level, wanted)
    np.testing.assert_allclose(outside, one, rtol=1e-10)
    calm = guided(three, 3.0, rescale=1.0).predict(x, level, wanted)
    np.testing.assert_allclose(calm.std(axis=1), one.std(axis=1), rtol=1e-10)
    with pytest.raises(ArgumentError, match="does not lead away"):
        guided(three, 1.0, negative=jnp.array(1))
    with pytest.raises(ArgumentError, match="rescale=2"):
        guided(three, 3.0, rescale=2)


def test_similarity_is_one_for_a_copy_in_other_contrast_and_zero_for_noise() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(1, 100_000)))
    noise = jnp.asarray(np.random.default_rng(1).normal(size=(1, 100_000)))
    assert float(similarity(x, 3 * x - 1)[0]) == pytest.approx(1)
    assert abs(float(similarity(x, noise)[0])) < 0.02


def test_files_are_read_in_the_units_of_the_data(tmp_path: Path) -> None:
    schema = Schema("image", SQUARE, levels=17)
    file = tmp_path / "known.npz"
    np.savez(file, known=np.full(SQUARE, 16.0), mask=np.ones(SQUARE, bool))
    found = arrays_of(file, ("known", "mask"), schema)
    assert found["known"].max() == 1.0
    assert found["mask"].dtype == bool
    with pytest.raises(ArgumentError, match="no array 'samples'"):
        arrays_of(file, ("samples",), schema)
    with pytest.raises(ArgumentError, match="No such file"):
        arrays_of(tmp_path / "nothing.npz", ("samples",), schema)
    with pytest.raises(CapabilityError, match="these are table data"):
        arrays_of(file, ("known",), Schema("table", (3,)))


CLASSES = Schema("points", (2,), target="class", classes=("left", "right"))


def test_a_classifier_of_noisy_data_leads_to_its_class_and_one_of_clean_data_is_warned_about() -> None:
    from chainrule import models
    from chainrule.data import Batch
    from chainrule.models.diffusion.denoisers.guided import ClassifierGuided
    from chainrule.models.diffusion.diffusion import Diffusion
    from chainrule.models.diffusion.noisy_classifier import NoisyClassifier
    from chainrule.models.diffusion.steering.classifier import by_classifier

    model = models.build("diffusion", CLASSES, width=8, depth=1, conditional=False)
    assert isinstance(model, Diffusion)
    classifier = models.build("noisy-classifier", CLASSES, width=8, depth=1)
    assert isinstance(classifier, NoisyClassifier)
    y = jnp.array([0, 1, 1])
    loss, metrics = eqx.filter_jit(classifier.loss)(Batch(jnp.ones((3, 2)), y), KEY)
    assert loss.shape == metrics["accuracy"].shape == ()
    assert model.sample(
        KEY, 3, condition=["left", "right", "left"], classifier=classifier, steps=2
    ).shape == (3, 2)
    with pytest.raises(CapabilityError, match="towards a class"):
        model.sample(KEY, 3, classifier=classifier)
    # The shift of the noise is -w s grad log p.
    level = Level(jnp.full(3, 0.6), jnp.full(3, 0.8))
    x = jax.random.normal(KEY, (3, 2))
    led = by_classifier(model.denoiser, classifier, 2.0, CLASSES)
    assert isinstance(led, ClassifierGuided)
    slope = jax.jit(jax.grad(lambda x: classifier.log_prob(x, level, y).sum()))(x)
    shift = jax.jit(lambda x: led.predict(x, level, y) - model.denoiser.value("eps", x, level))(x)
    np.testing.assert_allclose(shift, -2.0 * 0.8 * slope, rtol=1e-5, atol=1e-7)
    plain = models.build("mlp", CLASSES, width=4)
    with pytest.warns(UserWarning, match="never saw noisy data"):
        clean = by_classifier(model.denoiser, plain, 1.0, CLASSES)
    assert jax.eval_shape(lambda x: clean.predict(x, level, y), x).shape == (3, 2)
    with pytest.raises(CapabilityError, match="predicts no classes"):
        by_classifier(model.denoiser, "classifier", 1.0, CLASSES)
