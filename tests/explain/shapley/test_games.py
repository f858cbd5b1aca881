"""Games with known answers, and what a game refuses."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from chainrule.core.errors import ArgumentError, DataError
from chainrule.explain import CoalitionGame, check_axioms, interactions, owen_values, shapley
from chainrule.explain.methods.shapley.exact import banzhaf_values, exact_values
from chainrule.explain.methods.shapley.fair_division import concede_and_split, run_to_the_bank
from chainrule.explain.methods.shapley.game_values import GameValues
from chainrule.explain.methods.shapley.games import Masks, masks_of
from chainrule.explain.methods.shapley.interactions import sampled_interactions
from chainrule.explain.methods.shapley.kernel import chosen_levels, kernel_matrix, kernel_values
from chainrule.explain.methods.shapley.permutations import all_marginals, permutation_values

THREE = {
    (1,): 100.0,
    (2,): 125.0,
    (3,): 50.0,
    (1, 2): 270.0,
    (1, 3): 375.0,
    (2, 3): 350.0,
    (1, 2, 3): 500.0,
}


def curved(players: int, seed: int = 0) -> Callable[[Masks], np.ndarray]:
    """A smooth game of any number of players."""
    random = np.random.default_rng(seed)
    weights, heights = random.normal(size=(players, 20)) / 2, random.normal(size=20)
    return lambda masks: np.tanh(masks @ weights) @ heights


def test_marginals_of_all_orders_are_those_worked_out_by_hand() -> None:
    found = all_marginals(CoalitionGame(THREE))
    assert (found.orders + 1).tolist() == [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]]
    assert found.marginals.T.tolist() == [
        [100, 100, 145, 150, 325, 150],
        [170, 125, 125, 125, 125, 300],
        [230, 275, 230, 225, 50, 50],
    ]
    first = found.marginals[:, 0]
    pairs = (first + first[[5, 3, 4, 1, 2, 0]]) / 2  # each order with its reverse
    assert (round(first.std(), 2), round(pairs.std(), 2)) == (76.19, 51.85)


@pytest.mark.parametrize("method", ["auto", "exact", "permutation", "kernel"])
def test_every_method_divides_the_game_of_three(method: str) -> None:
    found = shapley(THREE, method=method)
    np.testing.assert_allclose(found.values, np.array([970, 970, 1060]) / 6)
    assert (found.base, found.outputs, found.errors, found.is_additive) == (0, 500, None, True)


def test_banzhaf_values_and_interactions_of_the_game_of_three() -> None:
    game = CoalitionGame(THREE)
    assert banzhaf_values(game).tolist() == [180, 180, 195]
    found = interactions(game)
    assert (found.values[0, 1], found.values[0, 2], found.values[1, 2]) == (-32.5, 57.5, 32.5)
    np.testing.assert_allclose(np.diag(found.values), [136.667, 161.667, 86.667], atol=5e-4)
    assert found.values.sum() == pytest.approx(500)


@pytest.mark.parametrize(
    ("estate", "shares"),
    [(100, [33.33, 33.33, 33.33]), (200, [33.33, 83.33, 83.33]), (300, [50, 100, 150])],
)
def test_a_run_to_the_bank(estate: float, shares: list[float]) -> None:
    np.testing.assert_allclose(run_to_the_bank(estate, [100, 200, 300]), shares, atol=0.005)


@given(st.floats(0, 10), st.tuples(st.floats(0, 10), st.floats(0, 10)))
@settings(max_examples=30)
def test_two_claimants_run_as_they_concede(estate: float, claims: tuple[float, float]) -> None:
    estate = min(estate, sum(claims))
    np.testing.assert_allclose(
        run_to_the_bank(estate, list(claims)), concede_and_split(estate, claims), atol=1e-9
    )


@pytest.mark.parametrize(("players", "expected"), [(3, 1 / 6), (4, 0.227273), (10, 0.323257)])
def test_the_kernel_matrix_is_that_of_all_coalitions(players: int, expected: float) -> None:
    assert kernel_matrix(players)[0, 1] == pytest.approx(expected, abs=1e-6)
    masks = masks_of(np.arange(1, (1 << players) - 1), players).astype(float)
    levels = chosen_levels(players, 1 << players)
    assert levels.weights.sum() == pytest.approx(1)
    together = levels.masks.T.astype(float) @ (levels.weights[:, None] * levels.masks)
    np.testing.assert_allclose(together, kernel_matrix(players), atol=1e-12)
    assert len(levels.masks) == len(masks)


@given(hnp.arrays(np.float64, st.sampled_from([2, 4, 8, 16]), elements=st.floats(-5, 5)))
@settings(max_examples=25)
def test_shapley_values_keep_every_axiom_and_all_methods_agree(table: np.ndarray) -> None:
    game = CoalitionGame(table)
    broken = [axiom for axiom in check_axioms(game, tol=1e-8) if not axiom.holds and axiom.gap > 1e-8]
    assert not broken
    exact = exact_values(game).values
    for method in (permutation_values, kernel_values):
        np.testing.assert_allclose(method(CoalitionGame(table)).values, exact, atol=1e-9)


def test_other_rules_break_axioms_and_the_checker_says_which() -> None:
    game = CoalitionGame(curved(4), 4)

    def failing(rule: Callable[[CoalitionGame], np.ndarray]) -> set[str]:
        return {axiom.name for axiom in check_axioms(game, rule) if not axiom.holds and axiom.witness}

    assert failing(banzhaf_values) == {"efficiency"}
    assert failing(lambda game: np.full(4, game.gain / 4)) == {"null player", "missingness"}
    first = lambda game: np.array([game.gain.item(), 0, 0, 0])  # noqa: E731
    assert failing(first) >= {"symmetry", "null player"}
    assert "consistency" in failing(lambda game: -exact_values(game).values)
    assert "linearity" in failing(lambda game: np.square(exact_values(game).values))


def test_a_player_who_changes_nothing_gets_exactly_nothing() -> None:
    v = curved(5)
    game = CoalitionGame(lambda masks: v(masks & np.array([1, 1, 0, 1, 1], bool)), 5)
    assert exact_values(game).values[2] == 0
    assert permutation_values(CoalitionGame(game.worth, 5)).values[2] == 0
    assert (interactions(game).values[2] == 0).all()


def test_sampled_values_lie_within_their_errors_and_sum_to_the_whole() -> None:
    v, players = curved(14), 14
    exact = exact_values(CoalitionGame(v, players)).values
    for found in (
        permutation_values(CoalitionGame(v, players), budget=3000, tol=0),
        kernel_values(CoalitionGame(v, players), budget=1000, tol=0),
        kernel_values(CoalitionGame(v, players), budget=1000, tol=0, matrix="exact"),
    ):
        assert found.errors is not None
        assert np.abs((found.values - exact) / found.errors).max() < 4
        assert found.values.sum() == pytest.approx(CoalitionGame(v, players).gain.item())


def test_sampling_stops_when_errors_are_small_enough() -> None:
    loose, strict = (
        kernel_values(CoalitionGame(curved(20), 20), tol=tol, budget=4000) for tol in (0.05, 0.005)
    )
    assert loose.errors is not None
    assert strict.errors is not None
    assert loose.errors.max() <= 0.05 * np.ptp(np.append(loose.values, 0))
    assert strict.errors.max() < loose.errors.max()
    again = kernel_values(CoalitionGame(curved(20), 20), tol=0.05, budget=4000)
    assert (again.values == loose.values).all()


def estimated(game: CoalitionGame, how: str, budget: int, seed: int) -> GameValues:
    if how == "permutation":
        return permutation_values(game, budget=budget, tol=0, seed=seed)
    return kernel_values(game, budget=budget, tol=0, seed=seed, matrix=how)


@pytest.mark.parametrize("how", ["sampled", "exact", "permutation"])
def test_errors_fall_with_the_root_of_the_budget(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    game = CoalitionGame(curved(12, 3), 12)
    exact = exact_values(game).values
    # Levels stay those of the smallest budget: a level more that is enumerated is a jump.
    levels = chosen_levels(12, 300)
    monkeypatch.setattr("chainrule.explain.methods.shapley.kernel.chosen_levels", lambda *_: levels)
    drawn = np.array([300, 600, 1200, 2400])
    budgets = drawn if how == "permutation" else drawn + len(levels.masks)
    found = np.array([[estimated(game, how, int(n), seed).values for seed in range(40)] for n in budgets])
    missed = np.sqrt(np.square(found - exact).mean(axis=(1, 2)))
    slope = np.polyfit(np.log(drawn), np.log(missed), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["sampled", "exact", "permutation"])
def test_intervals_of_two_errors_hold_the_truth_nineteen_times_out_of_twenty(how: str) -> None:
    game = CoalitionGame(curved(10, 1), 10)
    exact = exact_values(game).values
    inside = []
    for seed in range(1000):
        found = estimated(game, how, 1200 if how == "permutation" else 400, seed)
        assert found.errors is not None
        inside.append(np.abs(found.values - exact) <= 1.96 * found.errors)
    assert 0.93 <= np.mean(inside) <= 0.97


def test_sampled_interactions_lie_within_their_errors() -> None:
    v, players = curved(7), 7
    exact, found = (
        interactions(CoalitionGame(v, players)),
        sampled_interactions(CoalitionGame(v, players), budget=20_000),
    )
    apart = ~np.eye(players, dtype=bool)
    assert found.errors is not None
    assert np.abs(((found.values - exact.values) / found.errors)[apart]).max() < 4
    assert found.values.sum() == pytest.approx(exact.values.sum())


def test_owen_values_of_a_group_sum_to_its_value_among_groups() -> None:
    players = 7
    game = CoalitionGame(curved(players), list("abcdefg"))
    groups = {"first": ["a", "b", "c"], "second": ["d", "e"]}
    found = owen_values(game, groups)
    owner = np.array([0, 0, 0, 1, 1, 2, 3])
    among = exact_values(CoalitionGame(lambda masks: game.worth(masks[:, owner]), 4)).values
    np.testing.assert_allclose(np.bincount(owner, found.values), among, atol=1e-12)
    sampled = owen_values(CoalitionGame(curved(players), list("abcdefg")), groups, budget=120, tol=0)
    assert sampled.errors is not None
    np.testing.assert_allclose(np.bincount(owner, sampled.values).sum(), among.sum())
    assert np.abs((sampled.values - found.values) / sampled.errors).max() < 5


def test_groups_of_one_make_owen_values_shapley_values() -> None:
    game = CoalitionGame(curved(5), 5)
    np.testing.assert_allclose(owen_values(game, {}).values, exact_values(game).values, atol=1e-12)
    np.testing.assert_allclose(
        owen_values(game, {"all": game.players}).values, exact_values(game).values, atol=1e-12
    )


def test_a_batch_of_games_is_the_same_as_each_alone() -> None:
    one, two = curved(13, 1), curved(13, 2)
    both = CoalitionGame(lambda masks: np.stack([one(masks), two(masks)]), 13)
    for method in (
        exact_values,
        lambda game: kernel_values(game, budget=500, tol=0),
        lambda game: permutation_values(game, budget=500, tol=0),
    ):
        found = method(both)
        for row, v in enumerate((one, two)):
            np.testing.assert_allclose(found.values[row], method(CoalitionGame(v, 13)).values, atol=1e-9)


def test_coalitions_are_evaluated_once() -> None:
    seen: list[int] = []
    v = curved(9)
    game = CoalitionGame(lambda masks: (seen.append(len(masks)), v(masks))[1], 9)
    kernel_values(game, budget=100)
    before = sum(seen)
    kernel_values(game, budget=100)
    assert (sum(seen), game.evaluations) == (before, before)


@pytest.mark.parametrize(
    ("v", "players", "why"),
    [
        ({(1,): 1.0, (2,): 2.0}, None, r"coalition \{1, 2\} has no entry"),
        ({(1,): 1.0}, ["1", "1"], "two players are called '1'"),
        ({("ann",): 1.0}, ["bob"], "'ann' is in a coalition"),
        ([1.0, 2.0, 3.0], None, "not one number for each of 2"),
        ([1.0, 2.0, 3.0, 4.0], 3, "of 2 players, 3 were given"),
        (np.sum, None, "does not say how many players"),
        ([0.0, 1.0], "ann", "players are names or a number"),
    ],
)
def test_what_is_no_game_is_refused(v: object, players: object, why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        CoalitionGame(v, players)  # type: ignore[arg-type]


def test_a_worth_that_is_not_finite_is_named_with_its_coalition() -> None:
    v = curved(3)
    game = CoalitionGame(
        lambda masks: np.where(masks[:, 0] & ~masks[:, 2], np.nan, v(masks)), ["ann", "bob", "eve"]
    )
    with pytest.raises(DataError, match=r"v is nan for the coalition \{ann\}"):
        game.table()


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (lambda: exact_values(CoalitionGame(curved(17), 17)), "17 players have 131,072 coalitions"),
        (lambda: exact_values(CoalitionGame(curved(23), 23), force=True), "the limit is 22 players"),
        (lambda: interactions(CoalitionGame(curved(23), 23), force=True), "leave force out"),
        (lambda: CoalitionGame({f"p{i}": 1.0 for i in range(17)}), r"give a function of masks.*'kernel'\)$"),
        (lambda: all_marginals(CoalitionGame(curved(9), 9)), "9 players have 362,880 orders"),
        (lambda: kernel_values(CoalitionGame(curved(9), 9), budget=10), "9 players need at least 18"),
        (lambda: kernel_values(CoalitionGame(curved(9), 9), matrix="other"), "matrix must be"),
        (lambda: CoalitionGame(curved(3), 3).worth(np.ones((1, 2), bool)), "there are 3 players"),
        (lambda: CoalitionGame(lambda masks: np.zeros(2), 3).table(), "v gives an array of shape"),
        (lambda: owen_values(CoalitionGame(curved(3), 3), {"a": ["1"], "b": ["1"]}), "is in two groups"),
        (lambda: shapley(np.sum), "a function needs inputs"),
        (
            lambda: check_axioms(CoalitionGame(lambda masks: np.stack([masks.sum(axis=1)] * 2), 3)),
            "2 games at once; axioms are of one",
        ),
        (lambda: shapley(THREE, method="fast"), "method must be"),
        (lambda: shapley(THREE, method="linear"), "could not be shown to be affine"),
        (lambda: concede_and_split(1, [1, 2, 3]), "the rule is for two"),
        (lambda: run_to_the_bank(-1, [1, 2]), "an estate is at least 0"),
    ],
)
def test_bad_requests_say_what_to_do(action: Callable[[], object], why: str) -> None:
    with pytest.raises(ArgumentError, match=why):
        action()
