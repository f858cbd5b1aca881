"""Mutual information from samples: normals of known value, labels, another library, and what is said beside it."""

import itertools
import math
from collections.abc import Callable
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import information
from chainrule.core.errors import ArgumentError
from chainrule.information import (
    check_processing,
    mutual_information_estimate,
    mutual_information_panel,
)
from chainrule.information.estimates.pairwise import noisy_bounds

TRUE = 0.830366
"""Nats of two normals with a correlation of 0.9."""
N = 2000


def normals(rho: float, n: int = N, dimensions: int = 1, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    x, noise = np.random.default_rng(seed).normal(size=(2, n, dimensions))
    y = rho * x + math.sqrt(1 - rho**2) * noise
    return (x[:, 0], y[:, 0]) if dimensions == 1 else (x, y)


def nats(
    x: np.ndarray, y: np.ndarray, method: str, **options: object
) -> information.MutualInformationEstimate:
    return mutual_information_estimate(x, y, method, unit="nats", **options)


def test_neighbours_find_the_information_of_two_normals() -> None:
    found = nats(*normals(0.9), "ksg")
    assert abs(found.value - TRUE) < 0.1
    assert found.interval[0] < TRUE < found.interval[1]
    assert abs(nats(*normals(0.0), "ksg").value) < 0.05


def test_neighbours_agree_with_another_library(oracle: Callable[[str], ModuleType]) -> None:
    theirs = oracle("sklearn.feature_selection")
    x, y = normals(0.9)
    expected = theirs.mutual_info_regression(x[:, None], y, n_neighbors=3, random_state=0)[0]
    assert nats(x, y, "ksg").value == pytest.approx(expected, abs=1e-3)
    labels = (y > 0.3).astype(int) + (y > 1.0)
    expected = theirs.mutual_info_classif(x[:, None], labels, n_neighbors=3, random_state=0)[0]
    assert nats(x, labels, "ksg").value == pytest.approx(expected, abs=1e-3)
    assert nats(labels, x, "ksg").value == pytest.approx(expected, abs=1e-3)


def test_ties_are_broken_by_numbers_that_no_seed_of_the_data_gives() -> None:
    """The noise of one seed beside rounded pairs of the same seed would give back what rounding took."""
    draws = np.random.default_rng(0)
    x = draws.normal(size=500)
    y = x + draws.normal(size=500)
    found = [nats(np.round(x), np.round(y), "ksg", seed=seed).value for seed in (0, 1)]
    assert found[0] == pytest.approx(found[1], abs=0.1)


def test_neighbours_on_a_line_are_counted_like_those_in_space() -> None:
    x, y = normals(0.7, 300)
    once = nats(x, y, "ksg").value
    wide = nats(np.stack([x, np.zeros(300)], axis=1), y, "ksg").value  # a constant says nothing
    assert wide == pytest.approx(once, abs=1e-6)


def test_intervals_of_neighbours_hold_the_truth_as_often_as_they_say() -> None:
    held = [
        low <= TRUE <= high
        for low, high in (nats(*normals(0.9, 500, seed=seed), "ksg").interval for seed in range(40))
    ]
    assert sum(held) >= 35


def test_bins_read_too_much_of_independent_values_and_shuffles_say_so() -> None:
    none = nats(*normals(0.0), "binning")
    assert none.details["plug_in"] == pytest.approx(0.15, abs=0.03)
    assert none.value == pytest.approx(0.06, abs=0.03)
    assert none.null is not None
    assert none.null[0] < none.value < none.null[1]
    assert "Shuffled pairs read as much" in none.caveat
    assert nats(*normals(0.9), "binning").value == pytest.approx(0.84, abs=0.03)


def test_bins_of_labels_are_the_labels() -> None:
    x = np.array(["a", "b"] * 50)
    found = mutual_information_estimate(x, x, "binning", correct=False)
    assert found.value == pytest.approx(1.0)
    assert found.unit == "bits"
    assert "table of counts" in found.caveat
    quantiles = nats(*normals(0.9), "binning", edges="quantile", bins=10)
    assert abs(quantiles.value - TRUE) < 0.15


def test_units_of_numbers_do_not_matter_however_large_or_small() -> None:
    x, y = normals(0.5, 100)
    values = [mutual_information_estimate(unit * x, y).value for unit in (1.0, 1e300, 1e-300)]
    assert values == pytest.approx([values[0]] * 3)


def test_errors_of_counts_hold_where_all_outcomes_are_alike() -> None:
    """Every number of heads in 100 throws of a fair coin, weighed by its probability; without spread in what an outcome
    says, the first order of the error vanishes."""
    covered = {"entropy": 0.0, "copies": 0.0}
    for heads in range(101):
        x, chance = (np.arange(100) < heads).astype(int), math.comb(100, heads) / 2.0**100
        one = information.entropy_estimate(x)
        covered["entropy"] += chance * (abs(one.value - 1) <= 1.96 * one.error)
        low, high = mutual_information_estimate(x, x, "binning", shuffles=0).interval
        covered["copies"] += chance * (low <= 1 <= high)
    assert min(covered.values()) > 0.94, covered


def test_many_labels_take_no_more_memory_than_their_pairs() -> None:
    x = np.arange(100_000)  # a table with a column for each would have ten thousand million numbers
    panel = mutual_information_panel(x, x % 7, ["binning", "infonce"], options={"binning": {"shuffles": 0}})
    assert panel.estimates[0].details["plug_in"] == pytest.approx(
        information.entropy(np.bincount(x % 7) / len(x))
    )
    assert "are 100,000 different labels" in panel.left_out["infonce"]


def test_bounds_by_noise_bracket_what_a_noisy_value_says_about_its_label() -> None:
    labels = np.arange(400) % 2
    found = nats(labels, 2.0 * labels, "noise", noise=1.0)
    grid = np.linspace(-8, 10, 20001)
    p = [np.exp(-0.5 * (grid - m) ** 2) / math.sqrt(2 * math.pi) for m in (0.0, 2.0)]
    mixture = (p[0] + p[1]) / 2
    exact = sum(0.5 * (q * np.log(q / mixture)).sum() * (grid[1] - grid[0]) for q in p)
    assert found.interval[0] < exact < found.interval[1]
    assert found.interval[1] <= math.log(2)
    assert nats(2.0 * labels, labels, "noise", noise=1.0).value == found.value
    assert nats(labels, 2.0 * labels, "noise", noise=1e-3).value == pytest.approx(math.log(2))


def test_bounds_by_noise_are_those_of_the_sums_over_all_pairs() -> None:
    h, s = np.random.default_rng(0).normal(size=(30, 3)), 0.7
    apart = np.square(h[:, None] - h[None]).sum(axis=-1)
    for bound, c in zip(noisy_bounds(h, s), (8, 2), strict=True):
        expected = -np.log(np.exp(-apart / (c * s**2)).mean(axis=1)).mean()
        assert bound == pytest.approx(expected)
    even = noisy_bounds(h, s, np.full(30, 1 / 30))
    assert even == pytest.approx(noisy_bounds(h, s))


def exact_critic(rho: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """log p(y|x), up to what depends on x alone."""

    def critic(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        apart = np.square(y[None, :, :] - rho * x[:, None, :]).sum(axis=-1)
        own = np.square(y).sum(axis=-1)[None]
        return -apart / (2 * (1 - rho**2)) + own / 2

    return critic


@pytest.mark.parametrize(("batch", "value"), [(64, 3.28), (1024, 4.01)])
def test_the_exact_critic_reads_less_than_the_logarithm_of_its_batch(batch: int, value: float) -> None:
    x, y = normals(0.9, 8192, 5)
    found = nats(x, y, "infonce", critic=exact_critic(0.9), batch=batch)
    assert found.value == pytest.approx(value, abs=0.05)
    assert found.value < math.log(batch)
    assert found.details["ceiling"] == pytest.approx(math.log(batch))
    assert found.meaning == "lower bound"


def test_other_bounds_by_the_exact_critic_reach_the_truth() -> None:
    x, y = normals(0.9, 4000)
    scale = -0.5 * math.log(1 - 0.81)  # the logarithm of the ratio of densities
    known = exact_critic(0.9)
    for method in ("mine", "nwj"):
        found = nats(x, y, method, critic=lambda a, b: known(a, b) + scale)
        assert abs(found.value - TRUE) < 0.1
    assert abs(nats(x, y, "smile", critic=lambda a, b: known(a, b) + scale, clip=5.0).value - TRUE) < 0.2


@pytest.mark.parametrize(
    "method", ["infonce", *(pytest.param(one, marks=pytest.mark.slow) for one in ("mine", "nwj", "smile"))]
)
def test_a_critic_that_is_fitted_reads_most_of_it_on_pairs_it_never_saw(method: str) -> None:
    found = nats(*normals(0.9, 4000), method, steps=600)
    assert 0.7 < found.value < TRUE + 0.15
    assert found.count == 2000


def test_a_critic_finds_nothing_where_nothing_is() -> None:
    x, y = normals(0.0, 600, 5)
    assert nats(x, y, "infonce", steps=300).value < 0.02


@pytest.mark.slow
def test_a_joint_critic_is_fitted_too() -> None:
    assert nats(*normals(0.9, 2000), "infonce", critic="joint", steps=300, batch=64).value > 0.6


def test_labels_are_predicted_for_a_bound() -> None:
    x, y = normals(0.9, 2000)
    labels = (y > 0).astype(int)
    found = nats(x, labels, "label", steps=400)
    reference = nats(x, labels, "ksg").value
    assert reference - 0.1 < found.value < reference + 0.05
    assert found.details["entropy"] == pytest.approx(math.log(2), abs=0.01)


def test_numbers_are_in_bits_unless_nats_are_asked_for() -> None:
    x, y = normals(0.5, 200)
    bits, same = mutual_information_estimate(x, y), nats(x, y, "ksg")
    assert bits.unit == "bits"
    assert bits.value == pytest.approx(same.value / math.log(2))
    assert bits.error == pytest.approx(same.error / math.log(2))
    assert "bits" in str(bits)
    assert mutual_information_estimate(jnp.asarray(x), jnp.asarray(y)).value == pytest.approx(
        bits.value, abs=1e-3
    )


def test_a_panel_has_all_methods_that_apply_and_says_how_far_they_are_apart() -> None:
    x, y = normals(0.9, 200)
    panel = mutual_information_panel(
        x, y, ["ksg", "binning", "noise", "label"], truth=TRUE / math.log(2), options={"ksg": {"k": 5}}
    )
    assert [one.method for one in panel.estimates] == ["ksg", "binning", "noise"]
    assert "neither x nor y" in panel.left_out["label"]
    values = [one.value for one in panel.estimates]
    assert panel.disagreement == pytest.approx(max(values) - min(values))
    table = panel.table()
    assert all(len(row) == len(table.columns) for row in table.rows)
    assert "Left out: label" in table.caption


def test_a_method_warns_where_it_cannot_tell() -> None:
    x, y = normals(0.999999, 100)
    assert "near what 100 pairs can tell" in mutual_information_estimate(x, y).caveat
    wide = np.random.default_rng(0).normal(size=(2, 100, 6))
    assert "12 dimensions" in mutual_information_estimate(*wide).caveat
    assert "y has only 2 different values" in mutual_information_estimate(x, 1.0 * (y > 0)).caveat
    assert "told apart" in mutual_information_estimate(*wide, "noise", noise=1e-3).caveat
    assert "pairs for each occupied cell" in mutual_information_estimate(*wide, "binning").caveat


def test_input_that_makes_no_sense_is_refused() -> None:
    x, y = normals(0.5, 50)
    for wrong, why in (
        (lambda: mutual_information_estimate(x, y[:-1]), "come in pairs"),
        (lambda: mutual_information_estimate(x[:5], y[:5]), "5 pairs"),
        (lambda: mutual_information_estimate(np.where(x > 1, np.nan, x), y), "not finite"),
        (lambda: mutual_information_estimate(x, y, "knn"), "method must be"),
        (lambda: mutual_information_estimate(x, y, "ksg", bins=3), "no option 'bins'"),
        (lambda: mutual_information_estimate(x, y, unit="bytes"), 'unit must be "bits" or "nats"'),
        (lambda: mutual_information_estimate(x, y, k=50), "49 neighbours"),
        (lambda: mutual_information_estimate(x > 0, y > 0), "labels have no neighbours"),
        (lambda: mutual_information_estimate(x, y, "noise", noise=0.0), "noise"),
        (lambda: mutual_information_estimate(x, y, "label"), "neither x nor y are labels"),
        (lambda: mutual_information_estimate([[1.0, 2.0], [3.0]] * 25, y), "one row as long as the other"),
        (lambda: mutual_information_estimate(["a"] * 50, y, discrete="none"), 'discrete="x" takes them'),
        (lambda: mutual_information_estimate(x, y, "infonce", critic=lambda a, b: a), "shape"),
        (lambda: mutual_information_panel(x, y, ["label"]), "none of label applies"),
        (lambda: mutual_information_panel(x, y, []), "name at least one of binning"),
        (lambda: mutual_information_estimate(np.zeros((50, 0)), y), "x.: has no columns"),
    ):
        with pytest.raises(ArgumentError, match=why):
            wrong()


def test_a_later_layer_that_reads_more_is_marked_as_a_failure_of_the_estimator() -> None:
    label = np.arange(600) % 2
    noise = np.random.default_rng(0).normal(size=(3, 600))
    chain = list(itertools.accumulate(noise[1:], initial=label + 0.3 * noise[0]))
    found = {f"h{i}": mutual_information_estimate(label, h, "ksg") for i, h in enumerate(chain)}
    check = check_processing(found)
    assert check.holds
    assert "holds" in str(check)
    turned = check_processing(dict(reversed(found.items())))
    assert not turned.holds
    assert turned.violations[0].rise > turned.violations[0].error
    assert "Estimator failure" in str(turned)
    with pytest.raises(ArgumentError, match="at least two places"):
        check_processing({"h0": found["h0"]})
