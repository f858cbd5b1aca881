"""Probes of a small diffusion model of digits."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Table
from chainrule.explain import experiments, probes
from chainrule.explain.probes.samplers import _near
from chainrule.models.diffusion.samplers import on_host
from chainrule.probability.interpolation import between
from chainrule.train import Run, fit


def test_codes_between_two_codes_are_as_long_as_they_are() -> None:
    with jax.enable_x64(True):
        path = between(jnp.array([3.0, 0.0]), jnp.array([0.0, 3.0]), 5)
        np.testing.assert_allclose(jnp.linalg.norm(path, axis=1), 3, rtol=1e-12)


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


def test_few_held_out_examples_are_compared_and_a_single_one_is_refused(tmp_path: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(30, 3))
    for held_out, name in ((3, "some"), (1, "one")):
        count = 27 + held_out
        part = data.from_arrays(rows[:count], split=(27 / count, held_out / count, 0), name=name)
        trained = fit(models.build("kde", part), part, run=tmp_path / name)
        if held_out > 1:
            outcome = probes.examine("generation", trained, permutations=10)
            assert outcome.numbers["samples"] == 20
            assert outcome.numbers["compared_at_once"] == 3
        else:
            with pytest.raises(ArgumentError, match="holds out 1 example"):
                probes.examine("generation", trained)


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
