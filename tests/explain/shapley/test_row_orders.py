"""Orders of background rows: right on average, honest about errors, and as many evaluations as are claimed."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.explain.methods.functions import host_function
from chainrule.explain.methods.shapley.explaining import shapley
from chainrule.explain.methods.shapley.explanation import Explanation
from chainrule.explain.methods.shapley.games import CoalitionGame

RANDOM = np.random.default_rng(0)
WIDE, NARROW = (RANDOM.normal(size=(n, 8)).astype(np.float32) / 2 for n in (14, 6))
X = RANDOM.normal(size=(3, 14)).astype(np.float32) / 4
ROWS = RANDOM.normal(size=(20, 14)).astype(np.float32)
UNEVEN = RANDOM.normal(size=(150, 6)).astype(np.float32) * RANDOM.integers(1, 4, (150, 1))


def network(x: Any) -> Any:
    w = WIDE if x.shape[1] == 14 else NARROW
    return jnp.tanh(x @ w).sum(axis=1) + (x[:, 0] * x[:, 1] if x.shape[1] == 6 else 0)


def found(x: Any = X, rows: Any = ROWS, method: str = "rows", **options: Any) -> Explanation:
    return shapley(options.pop("f", network), x, rows, method, **{"budget": 200, "tol": 0, **options})


def errors_of(found: Explanation) -> np.ndarray:
    assert found.errors is not None
    return found.errors


def test_values_add_up_and_the_same_seed_gives_the_same_bits() -> None:
    one, same, other = found(), found(), found(seed=1)
    assert one.is_additive
    assert (one.values == same.values).all()
    assert (one.values != other.values).any()
    assert one.method == "orders of 20 background rows, 7 pairs of each"


@pytest.mark.parametrize("rows", [ROWS[:, :6], UNEVEN])
def test_errors_are_those_of_many_seeds(rows: np.ndarray) -> None:
    """Also where background rows stand for different numbers of others."""
    exact = found(X[:, :6], rows, "exact")
    several = [found(X[:, :6], rows, budget=60, seed=seed) for seed in range(40)]
    apart = np.array([one.values for one in several]) - exact.values
    claimed = np.sqrt(np.mean([np.square(errors_of(one)) for one in several], axis=0))
    assert np.sqrt(np.square(apart / claimed).mean()) == pytest.approx(1, abs=0.15)
    assert np.abs(apart.mean(axis=0) / claimed).max() < 4 / np.sqrt(40)


def test_blocks_and_plain_functions_give_the_same() -> None:
    whole = found()
    for memory in (100, 4000, 60_000):
        np.testing.assert_allclose(found(memory=memory).values, whole.values, atol=1e-5)
    seen = 0

    def plain(x: np.ndarray) -> np.ndarray:
        nonlocal seen
        seen += len(x)
        return np.tanh(x @ WIDE).sum(axis=1)

    by_host = found(f=host_function(plain), memory=50_000)
    np.testing.assert_allclose(by_host.values, whole.values, atol=1e-5)
    ours = (*X.shape[:1], len(ROWS), 7, 2 * 13)
    assert whole.evaluations == by_host.evaluations
    assert np.prod(ours) < whole.evaluations <= seen


def test_groups_are_players() -> None:
    exact = found(groups={"first": [0, 3], "rest": range(5, 14)}, method="exact")
    several = found(groups={"first": [0, 3], "rest": range(5, 14)})
    assert several.names == exact.names
    assert np.abs((several.values - exact.values) / (errors_of(several) + 1e-6)).max() < 5
    alone = found(groups={"all": range(14)})
    np.testing.assert_allclose(alone.values[:, 0], alone.outputs - alone.base, atol=1e-5)


def test_it_is_taken_where_it_suits() -> None:
    ways = {
        "orders of 20 background rows": found(method="auto"),
        "kernel": found(rows=ROWS[:15], method="auto"),
        "kernel, ": found(method="auto", budget=50),
        "exact": found(X[:, :6], ROWS[:, :6], "auto"),
    }
    for word, one in ways.items():
        assert one.method.startswith(word) or (word == "exact" and "coalitions" in one.method), one.method


def test_what_it_cannot_do_is_said() -> None:
    with pytest.raises(ArgumentError, match="no background rows that are the same for all inputs"):
        found(rows=ROWS[0])
    with pytest.raises(ArgumentError, match="a game has no background rows"):
        shapley(CoalitionGame(lambda masks: masks.sum(axis=1), 14), method="rows")
    with pytest.raises(ArgumentError, match="two pairs of orders of 14 players take 52 coalitions"):
        found(budget=51)
    assert found(budget=52).is_additive
