"""Experiments about information: their numbers are known, and bad settings are named."""

from pathlib import Path

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines
from chainrule.explain import experiments

TWO = "0.9,0.1; 1/2,1/2"


def test_typical_sets_have_their_sizes_and_paths_reach_the_entropy() -> None:
    found = experiments.run("typical-set", n=(10, 100), paths=20, steps=2000)
    assert found.numbers["probability"][1] == pytest.approx(0.758968, abs=1e-6)
    assert np.mean(np.abs(np.array(found.numbers["ends"]) - 0.468996) < 0.1) > 0.9
    chain = experiments.run("typical-set", transition=TWO, n=(5,), paths=20, steps=2000)
    assert chain.numbers["target"] == pytest.approx(0.557496, abs=1e-6)
    assert np.mean(chain.numbers["ends"]) == pytest.approx(0.557496, abs=0.02)


def test_chains_tunes_and_texts_have_their_rates(tmp_path: Path) -> None:
    own = experiments.run("chain-information", transition=TWO, chains=3, points=51)
    assert own.numbers["own"]["predictive_information_rate"] == pytest.approx(0.076251, abs=1e-6)
    assert own.numbers["peak"]["noise"] == pytest.approx(0.307, abs=0.02)
    assert own.numbers["peak"]["predictive_information_rate"] == pytest.approx(0.6772, abs=1e-3)
    tune = experiments.run("chain-information", chains=0, points=5)
    assert 0 < tune.numbers["own"]["predictive_information_rate"] < tune.numbers["own"]["entropy"]
    file = tmp_path / "clock.txt"
    file.write_text("abcd" * 100)
    clock = experiments.run("chain-information", data=str(file), chains=0, points=5, pseudo_count=0)
    assert clock.numbers["own"]["information_rate"] == pytest.approx(2, abs=1e-6)


def test_capacities_are_proven_and_channels_of_ones_own_are_read() -> None:
    found = experiments.run("channel-capacity")
    assert found.numbers["capacity"] == pytest.approx(0.321928, abs=1e-6)
    assert found.numbers["gap"] < 1e-9
    assert found.pictures[0].name == "capacity-convergence"
    own = experiments.run("channel-capacity", matrix="0.9,0.1; 1/10,9/10")
    assert own.pictures[0].name == "capacity-channel"  # bounds that meet at once have no way to show
    assert "after 1 iteration (" in own.findings[0]
    assert own.numbers["capacity"] == pytest.approx(0.531004, abs=1e-6)


def test_learned_codes_lie_on_the_curve() -> None:
    found = experiments.run("rate-distortion-curve", p=(0.6, 0.4), slopes=(0.5, 2, 10), steps=1500)
    assert found.numbers["rate"] == pytest.approx(0.501955, abs=1e-6)
    assert found.numbers["rate"] == pytest.approx(found.numbers["lower_bound"], abs=1e-6)
    assert np.abs(found.numbers["excess"]).max() < 0.02


def test_the_bottleneck_of_a_bit_has_its_points() -> None:
    found = experiments.run("bottleneck", source="flips", betas=(1.2, 2, 5))
    assert found.numbers["rate"] == pytest.approx([0, 0.696433, 0.997837], abs=1e-5)
    assert found.numbers["critical_betas"] == pytest.approx([1.5625])
    learned = found.numbers["learned"]
    assert learned["beta"] == [2, 5]
    assert np.all(np.array(learned["rate"]) <= np.array(learned["rate_bound"]) + 1e-3)
    # No code lies above the curve; these come near it.
    assert min(learned["lacking"]) > -0.01
    assert max(learned["lacking"]) < 0.1
    assert learned["relevance"][1] > 0.45
    drawn = {picture.name: picture for picture in found.pictures}["bottleneck-learned"]
    assert isinstance(drawn, Lines)
    assert drawn.dots is not None
    np.testing.assert_array_equal(drawn.dots[1], learned["relevance"])
    text = experiments.run(
        "bottleneck", source="text", data="tune", count=3, restarts=1, deterministic=False, learned=0
    )
    assert "learned" not in text.numbers
    assert text.numbers["relevance"][-1] <= text.numbers["mutual_information"] + 1e-9


def test_the_shorter_codeword_wastes_and_bits_back_do_not() -> None:
    found = experiments.run("codeword-choice").numbers
    assert (found["mass"], found["mean_waste"]) == pytest.approx((0.841345, 0.273658), abs=1e-6)
    assert found["posterior_choice_bits_back"] == pytest.approx(found["entropy"], abs=1e-9)
    assert found["shorter_codeword"] - found["entropy"] == pytest.approx(0.2737, abs=5e-3)


def test_phrases_of_a_file_write_new_text(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text("round and round " * 300)
    found = experiments.run("phrase-tree", data=str(file), length=40)
    assert len(found.numbers["written"]) == 40
    assert set(found.numbers["written"]) <= set("round and ")
    assert found.numbers["rate"] < 1


def test_normal_variables_have_their_closed_forms() -> None:
    found = experiments.run("gaussian-information", covariance="1,0.8; 0.8,1", x=(0,), points=5).numbers
    assert (found["rate"], found["relevance"]) == pytest.approx((1.207519, 0.529447), abs=1e-6)
    assert found["critical_betas"] == pytest.approx([1 / 0.64])
    assert found["predictive_information_rate"] == pytest.approx(0.356848, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("typical-set", {"p": (0.5, 0.6)}, "sums to 1.1, which is 0.1 away from 1"),
        ("typical-set", {"p": (1.5, -0.5)}, "p"),
        ("typical-set", {"transition": "0.9,0.1; 1"}, "rows of equal length"),
        ("chain-information", {"data": "nowhere.txt"}, "there is no such file"),
        ("chain-information", {"transition": "1,0; 0,1"}, "closed classes|not unique"),
        ("channel-capacity", {"matrix": "0.9,0.2; 0.5,0.5"}, "row 0 sums to 1.1, which is 0.1 above 1"),
        ("rate-distortion-curve", {"matrix": "0,1"}, "has 1 rows, p has 4 symbols"),
        ("bottleneck", {"matrix": "0.5,0.5; 0.5,0.5"}, "1 above 1"),
        ("bottleneck", {"width": 40}, "at most 31"),
        ("phrase-tree", {"data": "nowhere.txt"}, "there is no such file"),
        ("gaussian-information", {"coefficients": (1.0,)}, "not stationary"),
        ("gaussian-information", {"x": (7,)}, "numbered 0 to 4"),
        ("gaussian-information", {"covariance": "1,1; 1,1", "x": (0,)}, "smallest eigenvalue"),
    ],
)
def test_bad_settings_are_named(name, settings, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        experiments.run(name, **settings)
