"""Experiments with decisions: the cat's numbers, sweeps that keep their bound, bandits, and rules on the cliff."""

import numpy as np
import pytest

from chainrule.agents import envs
from chainrule.agents.mdp import enumerated
from chainrule.agents.tabular import TabularHyper
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Slides
from chainrule.explain import experiments
from chainrule.explain.experiments.settings_grid import SettingsGridSettings, agents_of
from chainrule.explain.methods.grids import grid_of, is_closed


def test_the_cat_has_its_numbers_and_is_drawn_sweep_by_sweep() -> None:
    found = experiments.run("cat-world", sweeps=3, paths=400)
    numbers = found.numbers
    np.testing.assert_allclose(
        numbers["values"], [-24.43497, -10.23218, 6.14123, 2.12371, 0.68728, 0], atol=5e-6
    )
    assert numbers["path_return"] == pytest.approx(-4.475)
    assert numbers["q_relaxed"] == pytest.approx([3.86731, 2], abs=5e-6)
    assert numbers["best_relaxed"] == ["talk"]
    assert numbers["flip"] == pytest.approx(0.938326, abs=5e-7)
    assert numbers["methods_differ_by"] < 1e-8
    chain, decisions = (picture for picture in found.pictures if isinstance(picture, Slides))
    assert len(chain.drawings) == len(decisions.drawings) == 4
    assert "stroke 2" in decisions.drawings[0]
    assert ">hunting<" in chain.drawings[-1]
    # -5, then -5 + 0.9 (0.8 (-5) + 0.2 (-2)) = -8.96, then -5 + 0.9 (0.8 (-8.96) + 0.2 (-2)).
    assert "V -8.96" in chain.drawings[2]
    assert "V -11.81" in chain.drawings[3]


def test_who_looks_far_ahead_strokes_the_cat() -> None:
    patient = experiments.run("cat-world", sweeps=2, paths=50, gamma=1.0)
    assert patient.numbers["best_relaxed"] == ["stroke"]
    assert patient.numbers["values"][0] == pytest.approx(-49.053, abs=5e-4)


def test_sweeps_keep_their_bound_and_find_the_policy_before_the_values() -> None:
    found = experiments.run("value-iteration", tolerance=1e-3)
    numbers = found.numbers
    assert numbers["start_value"] == pytest.approx(0.542026, abs=5e-7)
    assert numbers["error"] <= numbers["bound"] <= 1e-3
    assert numbers["policy_optimal_from_sweep"] < numbers["sweeps"]
    assert found.table is not None
    assert all(error <= bound for _, error, bound in found.table.rows)
    slides, film, _ = found.pictures
    assert len(slides.drawings) == len(film.frames)
    assert film.frames.shape[2:] == (224, 224, 3)


def test_maps_of_ones_own_are_drawn_with_their_walls() -> None:
    found = experiments.run("value-iteration", env="grid-world", layout="S.#/..G", gamma=0.9, tolerance=0.01)
    assert len(found.numbers["values"]) == 6
    assert found.pictures[1].frames.shape[2:4] == (112, 168)
    with pytest.raises(ArgumentError, match="has no start"):
        experiments.run("value-iteration", env="grid-world", layout="..G")


def test_cells_of_a_cliff_are_never_decided_in() -> None:
    env = envs.make("cliff-walking")
    colors, shape = grid_of(env)
    closed = is_closed(enumerated(env))
    assert shape == (4, 12)
    assert np.flatnonzero(closed).tolist() == list(range(37, 48))
    assert set(colors[37:47]) == {"mark"}


def test_bandits_are_ranked_with_intervals() -> None:
    found = experiments.run("bandits", means="0,2", steps=60, runs=60)
    assert found.table is not None
    regrets = [row[1] for row in found.table.rows]
    assert regrets == sorted(regrets)
    assert found.numbers["least_slope"] == pytest.approx(2 / 2)
    assert all(found.numbers[row[0]]["half_width"] > 0 for row in found.table.rows)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"means": "0.5"}, "two arms"),
        ({"means": "0.5,1.5", "rewards": "bernoulli"}, "probabilities"),
        ({"runs": 100_000, "steps": 100_000}, "100 million"),
    ],
)
def test_arms_that_are_none_are_refused(settings, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        experiments.run("bandits", **settings)


def test_rules_on_the_cliff_go_where_the_textbook_says() -> None:
    found = experiments.run("tabular-learning", seeds=5, steps=12_000)
    off, on = (found.numbers[name] for name in ("q-learning", "sarsa"))
    assert found.numbers["optimal_return"] == -13
    assert np.median(off["greedy"]) == -13
    assert np.median(on["greedy"]) < -13
    assert on["return"] > off["return"]
    maps = {picture.name: picture.values for picture in found.pictures if picture.name.startswith("visits")}
    edge, far = maps["visits-q-learning"][2, 3:9], maps["visits-sarsa"][2, 3:9]
    assert (edge > far).all()


def test_unknown_rules_are_refused_with_a_suggestion() -> None:
    with pytest.raises(ArgumentError, match="did you mean 'sarsa'"):
        experiments.run("tabular-learning", rules="sarse", steps=100, seeds=5)


def test_a_grid_of_settings_gives_every_pair_its_agents() -> None:
    toy = dict(experiments.get("settings-grid").toy)
    settings = SettingsGridSettings(**{**toy, "y_values": (0.9, 0.5)})
    count, hyper = agents_of(settings, TabularHyper(0.3))
    assert count == 8
    assert hyper.alpha.tolist() == pytest.approx(2 * [0.1, 0.1, 0.5, 0.5])
    assert hyper.gamma.tolist() == pytest.approx(4 * [0.9] + 4 * [0.5])
    for wrong, message in (
        ({"x": "alfa"}, "did you mean 'alpha'"),
        ({"y": "alpha"}, "two different numbers"),
        ({"seeds": 1000, "x_values": tuple(range(5))}, "5000 agents are more than 4096"),
        ({"x_values": (0.1, -1.0)}, "alpha=-1.0"),
    ):
        with pytest.raises(ArgumentError, match=message):
            experiments.run("settings-grid", **{**toy, **wrong})
