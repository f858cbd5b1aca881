"""Experiments and probes of transfer: closed forms, the counter-example, data like those of training and others."""

from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

import chainrule as cr
from chainrule.core.errors import DataError
from chainrule.explain import experiments, probes
from chainrule.explain.experiments.importance_weighting import effective_share
from chainrule.train import Run


@pytest.mark.parametrize(("shift", "spread"), [(0.0, 0.6), (1.0, 0.6), (1.0, 1.0), (2.0, 1.2)])
def test_the_effective_share_is_the_integral(shift: float, spread: float) -> None:
    square, _ = integrate.quad(
        lambda x: stats.norm.pdf(x, shift, spread) ** 2 / stats.norm.pdf(x),
        shift - 25,
        shift + 25,
        limit=200,
        points=[shift],
    )
    assert abs(effective_share(shift, spread) - 1 / square) < 1e-6


def test_a_spread_too_wide_leaves_nothing() -> None:
    assert effective_share(0.0, 1.5) == 0.0


def test_weights_halve_the_error_on_the_target() -> None:
    numbers = experiments.run("importance-weighting", n=200).numbers["methods"]
    plain = numbers["no weights"]["error"]
    for name in ("true ratio", "classifier", "kernel-mean-matching", "least-squares"):
        assert numbers[name]["error"] < plain / 2
    # The optimum of kernel mean matching may rest on a few examples: nothing in it asks for even weights.
    for name in ("true ratio", "classifier", "least-squares"):
        assert 0.1 < numbers[name]["effective_share"] < 0.9


def test_the_bound_is_tight_on_four_points_and_holds_on_data() -> None:
    outcome = experiments.run(
        "domain-bound", problems=50, steps=100, load={"n": 200}, load_target={"n": 200}, frequencies=8
    )
    numbers = outcome.numbers
    assert numbers["four_points"] == {"d_h": 0.0, "d_hdh": 2.0, "target_error": 1.0}
    assert numbers["data"]["target_error"] <= numbers["data"]["bound"]
    assert not any("guarantee" in line for line in outcome.findings)
    with pytest.raises(DataError, match="two classes"):
        experiments.run("domain-bound", data="digits", against="digits")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    data = cr.data.load("shifted-gaussians", n=400, shift=0.0)
    folder = tmp_path_factory.mktemp("transfer")
    return cr.fit(
        cr.models.build("mlp", data, width=8, depth=1), data, run=folder / "own", steps=20, batch=32
    )


def test_held_out_examples_are_like_those_of_training_and_moved_ones_are_not(run: Run) -> None:
    own = probes.examine("domain-shift", run, examples=40, permutations=99)
    assert own.numbers["layers"][0]["p"] > 0.01
    other = probes.examine(
        "domain-shift",
        run,
        against="shifted-gaussians",
        load={"shift": 3.0, "n": 100},
        examples=40,
        permutations=99,
    )
    first = other.numbers["layers"][0]
    assert first["p"] == 0.01
    assert first["proxy"] > 1.0
    assert first["mmd"] > 3 * own.numbers["layers"][0]["mmd"]
    assert first["name"] == "input"
    assert any("It is right on" in line for line in other.findings)


def test_the_witness_names_examples_of_either_side(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "other.npz"
    np.savez(file, x=np.random.default_rng(0).normal(6, 1, (50, 2)).astype(np.float32))
    outcome = probes.examine("domain-shift", run, against=str(file), examples=40, permutations=19)
    names = [picture.name for picture in outcome.pictures]
    assert names[-2:] == ["domain-shift-witness-1", "domain-shift-witness-2"]
    assert not any("It is right on" in line for line in outcome.findings)
