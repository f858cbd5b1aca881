"""Judging drawn examples: measures with known values, and probes of a small diffusion model of digits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Table
from chainrule.explain import experiments, probes
from chainrule.explain.methods.interpolation import between
from chainrule.explain.methods.sample_comparison import real
from chainrule.explain.methods.sample_distances import (
    alikeness,
    components,
    frechet_distance,
    kernel_distance,
    nearest,
    spread,
)
from chainrule.explain.probes.samplers import _near
from chainrule.models.diffusion.samplers import on_host
from chainrule.train import Run, fit

DRAW = np.random.default_rng(0)


def test_codes_between_two_codes_are_as_long_as_they_are() -> None:
    with jax.enable_x64(True):
        path = between(jnp.array([3.0, 0.0]), jnp.array([0.0, 3.0]), 5)
        np.testing.assert_allclose(jnp.linalg.norm(path, axis=1), 3, rtol=1e-12)


def test_the_kernel_distance_is_unbiased_and_grows_with_the_difference() -> None:
    same = [kernel_distance(DRAW.normal(size=(40, 2)), DRAW.normal(size=(50, 2))).value for _ in range(200)]
    assert abs(np.mean(same)) < 3 * np.std(same) / np.sqrt(200)
    far = kernel_distance(DRAW.normal(size=(400, 2)), DRAW.normal(size=(400, 2)) + 1)
    assert far.value > 10 * np.std(same)
    # By hand, for two and two points of one feature: (x y + 1)³.
    by_hand = kernel_distance(np.array([[0.0], [1.0]]), np.array([[0.0], [2.0]])).value
    assert by_hand == pytest.approx(1 + 1 - 2 * 30 / 4)
    with pytest.raises(ArgumentError, match="two examples"):
        kernel_distance(np.zeros((1, 2)), np.zeros((5, 2)))


def test_the_kernel_distance_of_examples_with_a_fixed_number_of_each_class_is_unbiased_too() -> None:
    def classes_apart(labels: np.ndarray) -> np.ndarray:
        return DRAW.normal(size=(len(labels), 2)) + 3 * labels[:, None]

    even = np.repeat([0, 1], 20)
    far = classes_apart(DRAW.integers(0, 2, 2000))
    within = alikeness(far)
    plain, corrected = [], []
    for _ in range(200):
        rows = classes_apart(even)
        plain.append(kernel_distance(rows, far, within).value)
        corrected.append(kernel_distance(rows, far, within, even).value)
    error = np.std(corrected) / np.sqrt(200)
    fixed = np.mean(kernel_distance(classes_apart(np.repeat([0, 1], 2000)), far, within).value)
    assert abs(np.mean(corrected) - fixed) < 4 * error
    assert np.mean(plain) < np.mean(corrected) - 10 * error  # what counting all pairs alike would say


def test_classes_of_samples_come_by_their_frequency_and_held_out_ones_are_known_to_be_stratified() -> None:
    noise = np.random.default_rng(0)
    labels = np.repeat([0, 1], [160, 40])
    known = real(data.from_arrays(noise.normal(size=(200, 3)), labels))
    drawn = known.drawn_classes(2000, 0)
    assert drawn is not None
    assert drawn.mean() == pytest.approx(0.2, abs=0.03)
    np.testing.assert_array_equal(known._strata(), known.held_out_y)


def test_the_error_of_the_kernel_distance_is_its_spread_over_draws() -> None:
    other = DRAW.normal(size=(300, 2)) + 1
    found = [kernel_distance(DRAW.normal(size=(80, 2)), other) for _ in range(300)]
    assert np.std([one.value for one in found]) == pytest.approx(
        np.mean([one.error for one in found]), rel=0.15
    )


def test_the_frechet_distance_of_gaussians_along_the_axes_has_a_closed_form() -> None:
    x = DRAW.normal(size=(60, 3))
    x = (x - x.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(x.T))).T  # white to the last digit
    sizes = np.array([1.0, 2.0, 5.0])
    turned = x @ np.linalg.qr(DRAW.normal(size=(3, 3)))[0]  # a white set seen from elsewhere is as white
    assert frechet_distance(x, turned * sizes[None] + 1) == pytest.approx(3 + ((sizes - 1) ** 2).sum())
    assert frechet_distance(x, turned) == pytest.approx(0, abs=1e-9)
    with pytest.raises(ArgumentError, match="two examples"):
        frechet_distance(np.zeros((1, 2)), np.zeros((5, 2)))


def test_components_have_unit_variance_and_no_correlation() -> None:
    x = DRAW.normal(size=(300, 3)) @ DRAW.normal(size=(3, 5)) + 2
    mean, axes = components(x)
    assert axes.shape == (5, 3)
    np.testing.assert_allclose(np.cov(((x - mean[None]) @ axes).T, bias=True), np.eye(3), atol=1e-9)


def test_distances_and_spreads_are_those_of_small_sets() -> None:
    x = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    distances, numbers = nearest(np.array([[3.0, 3.0]]), x, 2)
    np.testing.assert_allclose(distances, [[1.0, np.sqrt(13)]])
    assert numbers.tolist() == [[1, 2]]
    assert spread(x[:2]) == pytest.approx(5)
    assert spread(x, np.array([0, 1, 0])) == pytest.approx(1)


def test_the_judge_of_digits_is_right_about_those_it_never_saw_and_has_features_of_one_size() -> None:
    known = real(data.load("digits"))
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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    digits = data.load("digits")
    model = models.build("diffusion", digits, width=16, depth=1)
    path = tmp_path_factory.mktemp("runs") / "digits"
    return fit(model, digits, run=path, steps=120, batch=32, eval_every=120, save_every=120)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        pytest.param("generation", {"n": 20, "steps": 3}, marks=pytest.mark.slow),
        ("guidance", {"n": 20, "steps": 3, "weights": (1.0, 2.0)}),
        pytest.param(
            "samplers", {"n": 20, "evaluations": (3, 5), "samplers": ("heun", "ddpm")}, marks=pytest.mark.slow
        ),
        pytest.param("flow-likelihood", {"n": 3, "probes": 1, "tolerance": 0.01}, marks=pytest.mark.slow),
        ("denoising", {"n": 3, "steps": 4, "condition": "3"}),
        pytest.param("codes", {"n": 9, "steps": (3,)}, marks=pytest.mark.slow),
        pytest.param("anagram", {"n": 4, "steps": 3}, marks=pytest.mark.slow),
        ("uncertainty", {"n": 2, "lams": (0.0,)}),
    ],
)
def test_a_probe_of_a_diffusion_model_gives_findings_pictures_and_numbers(
    run: Run, name: str, settings: dict[str, Any]
) -> None:
    outcome = probes.examine(name, run, **settings)
    assert name in probes.applicable(run)
    assert outcome.findings
    assert outcome.numbers
    for picture in outcome.pictures:
        if not isinstance(picture, Table):
            assert report.draw(picture).startswith("<svg")


def test_the_terms_of_the_bound_add_up_to_the_one_that_score_prints(run: Run) -> None:
    outcome = probes.examine("bound-terms", run, n=16)
    scored = run.score(n=16)
    assert outcome.numbers["bound"] == pytest.approx(scored["bits_per_dim_bound"].value, rel=1e-6)
    terms = outcome.numbers["terms"]
    assert sum(terms.values()) == pytest.approx(outcome.numbers["bound"], rel=1e-5)
    for name in ("prior", "class", "reconstruction"):
        assert terms[name] == pytest.approx(scored[f"bound_{name}"].value, rel=1e-5)
        assert outcome.numbers["errors"][name] == pytest.approx(scored[f"bound_{name}"].stderr, rel=1e-5)
    lams = [float(name.removeprefix("lam ")) for name in terms if name.startswith("lam ")]
    assert len(lams) == 16
    assert lams == sorted(lams, reverse=True)
    assert report.draw(outcome.pictures[0]).startswith("<svg")


def test_a_function_of_ones_own_follows_the_samples_of_a_run(run: Run) -> None:
    seen: list[int] = []
    run.sample(2, steps=3, callback=on_host(lambda step: seen.append(int(step.number))))
    assert seen == [0, 1, 2]
    black = run.sample(2, steps=3, callback=lambda step: -jnp.ones_like(step.x))
    np.testing.assert_array_equal(black, 0)


def test_they_do_not_apply_to_a_classifier(tmp_path: Any) -> None:
    moons = data.load("moons", n=100)
    other = fit(models.build("mlp", moons, width=4), moons, run=tmp_path / "moons", steps=2, batch=16)
    with pytest.raises(CapabilityError, match="it needs a diffusion model with classes"):
        probes.examine("guidance", other)


@pytest.mark.slow  # long walks
def test_a_plain_walk_gets_the_weights_of_far_modes_wrong_and_noise_gets_them_right() -> None:
    found = experiments.run("langevin-failures").numbers["weight"]
    assert found["plain"] == pytest.approx(0.51, abs=0.03)
    assert found["annealed"] == pytest.approx(0.79, abs=0.03)
    assert found["flow"] == pytest.approx(0.80, abs=0.03)


def test_a_walk_that_is_far_off_does_not_flatten_the_picture_of_the_others() -> None:
    found = {
        "one": np.array([0.1, 0.02]),
        "two": np.array([0.2, -0.01]),
        "off": np.array([6e6, 0.01]),
    }
    near, left_out = _near(found)
    assert left_out == ["off"]
    np.testing.assert_array_equal(near["off"], [np.nan, 0.01])
    np.testing.assert_array_equal(near["two"], found["two"])
