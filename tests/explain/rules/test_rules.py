"""Small trees are those of scikit-learn, rules say what a function does, and unfaithful ones are refused."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from chainrule.core.errors import ArgumentError, DataError
from chainrule.explain.methods.rules.extraction import extract_rules
from chainrule.explain.methods.rules.tree import grow

DRAW = np.random.default_rng(0)
ROWS = DRAW.normal(size=(400, 5))


def test_a_tree_of_classes_is_that_of_scikit_learn() -> None:
    y = (ROWS[:, 0] > 0.3).astype(int) + ((ROWS[:, 1] > 0) & (ROWS[:, 0] > 0.3))
    ours = grow(ROWS, np.eye(3)[y], depth=3, least=5).predict(ROWS).argmax(axis=1)
    theirs = DecisionTreeClassifier(max_depth=3, min_samples_leaf=5, random_state=0).fit(ROWS, y)
    np.testing.assert_array_equal(ours, theirs.predict(ROWS))


def test_a_tree_of_values_is_that_of_scikit_learn() -> None:
    y = np.sin(2 * ROWS[:, 0]) + ROWS[:, 1] ** 2
    ours = grow(ROWS, y[:, None], depth=4, least=7).predict(ROWS)[:, 0]
    theirs = DecisionTreeRegressor(max_depth=4, min_samples_leaf=7, random_state=0).fit(ROWS, y)
    np.testing.assert_allclose(ours, theirs.predict(ROWS), atol=1e-12)


def test_rules_that_a_function_follows_are_found() -> None:
    """A function made of two thresholds: the rules name both, and agree everywhere."""

    def f(x: jnp.ndarray) -> jnp.ndarray:
        yes = (x[:, 0] > 0.5) & (x[:, 2] > 0.5)
        return jnp.stack([1.0 - yes, yes.astype(float)], axis=1)

    rows = np.column_stack([DRAW.uniform(size=300), DRAW.normal(size=300), DRAW.integers(0, 2, 300)])
    truth = ((rows[:, 0] > 0.5) & (rows[:, 2] > 0.5)).astype(int)
    found = extract_rules(f, rows, truth, names=["age", "noise", "city=Rome"], classes=["no", "yes"], depth=3)
    assert found.fidelity > 0.98
    assert found.accuracy is not None
    assert found.accuracy > 0.98
    assert found.own_accuracy == 1.0
    (yes,) = [rule for rule in found.rules if rule.answer == "yes"]
    assert "city=Rome" in yes.conditions
    assert any(word.startswith("age > 0.4") or word.startswith("age > 0.5") for word in yes.conditions)
    assert not any("noise" in word for word in yes.conditions)
    np.testing.assert_allclose(sum(rule.share for rule in found.rules), 1.0)


def test_rules_that_miss_the_function_are_refused_unless_forced() -> None:
    def chequers(x: jnp.ndarray) -> jnp.ndarray:
        odd = jnp.floor(4 * x[:, 0]) + jnp.floor(4 * x[:, 1])
        return jnp.stack([odd % 2, 1 - odd % 2], axis=1)

    rows = DRAW.uniform(size=(400, 2))
    with pytest.raises(ArgumentError, match=r"no explanation of it\n.*depth=4.*force=true"):
        extract_rules(chequers, rows, classes=["a", "b"], depth=2)
    assert extract_rules(chequers, rows, classes=["a", "b"], depth=2, force=True).fidelity < 0.9


def test_values_are_judged_by_the_variance_they_explain() -> None:
    found = extract_rules(lambda x: jnp.where(x[:, 1] > 0, 3.0, -1.0), ROWS, names=list("abcde"), depth=1)
    assert found.fidelity > 0.95
    assert sorted(rule.answer for rule in found.rules) == ["3", "−1"]


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ArgumentError, match="at least 10 rows"):
        extract_rules(lambda x: x, ROWS[:5])


def test_a_forest_of_scikit_learn_is_called_on_the_host_and_wrong_outputs_are_named() -> None:
    forest = RandomForestClassifier(5, random_state=0).fit(ROWS, ROWS[:, 0] > 0.3)
    found = extract_rules(forest.predict_proba, ROWS, classes=["no", "yes"])
    assert found.fidelity > 0.95
    with pytest.raises(ArgumentError, match=r"extract_rules\(output=2\): f has 2 outputs"):
        extract_rules(forest.predict_proba, ROWS, output=2)
    with pytest.raises(DataError, match="extract_rules: f gives nan at row"):
        extract_rules(lambda x: jnp.log(x[:, 0]), ROWS)
