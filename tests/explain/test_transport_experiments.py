"""Experiments about transport: their numbers are known, and what they say follows from them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from chainrule.core.errors import ArgumentError, DataError
from chainrule.core.pictures import Film
from chainrule.explain import experiments
from chainrule.explain.methods.film_frames import FilmFrame, matrix_with_margins
from chainrule.explain.methods.histogram_profile import histogram_profile

A, B = [0.5, 0.3, 0.2], [0.2, 0.2, 0.6]


def test_bounds_of_plans_by_entropy_close_on_the_exact_cost() -> None:
    found = experiments.run("transport-plan", of=A, against=B, steps=3, least=0.05, cloud=3).numbers
    assert found["cost"] == pytest.approx(0.9, abs=1e-12)
    assert found["gap"] < 1e-9
    assert found["slack_on_plan"] < 1e-9
    lower, upper = np.array(found["lower"]), np.array(found["upper"])
    assert (lower <= 0.9 + 1e-9).all()
    assert (upper >= 0.9 - 1e-9).all()
    assert (np.diff(upper - lower) < 0).all(), "the interval does not shrink with eps"
    assert (np.array(found["values"]) >= 0.9).all()


def test_projections_lose_what_pythagoras_says_and_the_rate_is_the_known_one() -> None:
    mean = float(np.array(A) @ np.square(np.arange(3)[:, None] - np.arange(3)[None]) @ np.array(B))
    found = experiments.run("sinkhorn-convergence", of=A, against=B, eps=[1 / mean], iterations=20).numbers
    assert found["eps"][0] == pytest.approx(1)
    assert found["kappa"][0] == pytest.approx(0.9640276, abs=1e-7)
    assert found["mixed_up_mass"] == pytest.approx(4.8689, abs=1e-4)
    assert found["pythagoras"] < 1e-12
    errors = np.array(found["errors"][0])
    assert (errors <= errors[0] * found["bound"][0] ** np.arange(len(errors)) + 1e-12).all()
    late = errors[6:9] / errors[5:8]
    assert late == pytest.approx(found["local"][0], rel=0.2), "errors do not shrink by the local rate"


def test_points_end_on_the_target_without_the_bias_and_inside_of_it_with() -> None:
    found = experiments.run("point-flow", n=30, steps=60, frames=3, eps=0.1, load={"n": 200}).numbers
    assert found["spread"]["divergence"] == pytest.approx(1, abs=0.1)
    assert found["spread"]["entropic"] < 0.85
    assert found["distance"]["divergence"][-1] < min(
        found["distance"][name][-1] for name in ("entropic", "mmd")
    )
    losses = np.array(found["losses"]["divergence"])
    assert losses[-1] < 1e-2 * losses[0]


def test_mass_moves_at_constant_speed_and_colours_become_the_others(tmp_path: Path) -> None:
    shades = np.linspace(0, 255, 600).reshape(20, 30)
    for name, factors in (("one", (1.0, 0.5, 0.0)), ("two", (0.0, 0.4, 1.0))):
        pixels = (shades[..., None] * np.array(factors)[None, None]).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
    files = {"image": str(tmp_path / "one.png"), "reference": str(tmp_path / "two.png")}
    outcome = experiments.run("displacement", n=12, frames=3, colors=8, load={"n": 100}, **files)
    found = outcome.numbers
    np.testing.assert_allclose(
        found["moved"], np.array(found["share"]) * found["distance"], rtol=1e-4, atol=1e-4
    )
    assert found["mixed"][1] > 1.2 * found["moved"][1]
    assert found["colors_after"] < 0.1 * found["colors_before"]
    film = outcome.pictures[0]
    assert isinstance(film, Film)
    assert np.asarray(film.frames).shape[:2] == (3, 2)
    with pytest.raises(ArgumentError, match="two images are needed"):
        experiments.run("displacement", image=files["image"])
    with pytest.raises(DataError, match="points in the plane"):
        experiments.run("displacement", data="digits")


def test_tables_are_as_far_apart_as_their_columns_say(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 2))
    for name, shift in (("here", 0.0), ("there", 40.0)):
        np.savetxt(
            tmp_path / f"{name}.csv", 10 * rows + [[shift, 0.0]], "%.4f", ",", header="u,v", comments=""
        )
    paths = {name: str(tmp_path / f"{one}.csv") for name, one in (("data", "here"), ("against", "there"))}
    found = experiments.run("displacement", **paths, n=16, frames=2, colors=2, load={"target": "none"})
    assert found.numbers["distance"] == pytest.approx(40, rel=1e-4)


def test_histograms_that_do_not_meet_are_infinitely_far_in_information_and_as_far_as_they_are_in_transport() -> (
    None
):
    found = experiments.run("slide-test", of=[1, 4, 2], against=[1, 4, 2], gap=4, steps=5).numbers
    shift, profile = np.array(found["shift"]), found["histograms"]
    assert shift.tolist() == [0, 1, 2, 3, 4]
    assert np.isinf(profile["kl"][1:]).all()
    assert profile["kl"][0] == 0
    for name in ("w1", "w2", "sinkhorn"):
        np.testing.assert_allclose(profile[name], shift, atol=2e-3)
    np.testing.assert_allclose(profile["js"][3:], np.log(2), atol=1e-6)
    assert np.isfinite(found["smoothed"]["kl"]).all(), "smoothed densities have no zeros"
    assert (np.diff(found["smoothed"]["kl"]) < 0).all()
    with pytest.raises(ArgumentError, match="two histograms are needed"):
        experiments.run("slide-test", of=[1, 2])
    with pytest.raises(ArgumentError, match="has no mass"):
        experiments.run("slide-test", of=[1, 2], against=[0, 0])


def test_smoothed_points_have_the_divergence_of_normals() -> None:
    found = histogram_profile(np.ones(1), np.ones(1), np.array([12]), np.array([3.0]))
    assert float(found.kl[0]) == pytest.approx(12**2 / (2 * 3**2), rel=1e-2)


def test_what_is_drawn_is_where_it_should_be() -> None:
    sheet = FilmFrame(np.zeros(2), 2.0, side=100)
    sheet.dots(np.array([[0.5, 0.5]]), "1", radius=5)
    dark = np.argwhere(sheet.image.sum(axis=-1) < 2)
    np.testing.assert_allclose(dark.mean(axis=0), [24.5, 74.5], atol=0.6)
    sheet = FilmFrame(np.zeros(2), 2.0, side=100)
    sheet.lines(np.array([[-0.9, 0.01]]), np.array([[0.9, 0.01]]), "1", alpha=np.array([0.9]))
    row, column = np.argwhere(sheet.image.sum(axis=-1) < 2.2).T
    assert set(row) == {49}
    assert column.min() in range(4, 8)
    image = matrix_with_margins(np.eye(2) / 2, np.array([0.25, 0.75]), np.array([0.5, 0.5]), side=100)
    assert image.min() >= 0
    assert image.max() <= 1
    assert image[30, 30].sum() < image[30, 90].sum(), "the diagonal is the darker part"
    left = (image[:, :20].sum(axis=-1) < 2.5).sum(axis=1)
    assert left[80] > 2.5 * left[30], "bars are as long as weights are large"


def test_positions_without_mass_and_data_that_are_the_same_leave_no_gaps_in_what_is_said() -> None:
    found = experiments.run(
        "sinkhorn-convergence", of=[0, 1, 1], against=[1, 0, 0.5], eps=[1.0], iterations=3
    )
    assert found.numbers["pythagoras"] < 1e-12
    same = experiments.run(
        "displacement", data="moons", against="moons", n=5, frames=2, colors=3, load={"n": 60}
    )
    assert same.numbers["distance"] == pytest.approx(0, abs=1e-4)
    assert not any("nan" in sentence for sentence in same.findings)
