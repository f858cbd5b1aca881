"""Joint tables against their definitions, summed by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.probability import MultivariateNormal, Normal
from chainrule.probability.tables import JointTable, joint_density

VALUES = np.random.default_rng(0).dirichlet(np.ones(24)).reshape(2, 3, 4)
TABLE = JointTable(VALUES, ("x", "y", "z"))


def test_marginals_sum_out_the_others_in_the_order_asked_for() -> None:
    np.testing.assert_allclose(TABLE.marginal("z", "x").values, VALUES.sum(axis=1).T, rtol=1e-14)
    assert TABLE.marginal("z", "x").axes == ("z", "x")


def test_a_conditional_reproduces_every_joint_event_and_not_only_the_marginal() -> None:
    conditional, p_y = TABLE.conditional("x", "y"), TABLE.marginal("y").values
    for size_a, size_b in itertools.product((1, 2), (1, 2, 3)):
        for a, b in itertools.product(
            itertools.combinations(range(2), size_a), itertools.combinations(range(3), size_b)
        ):
            mixed = sum(conditional.at(y=y).probability(x=a) * p_y[y] for y in b)
            assert TABLE.probability(x=a, y=b) == pytest.approx(mixed, abs=1e-15)


def test_what_is_given_leaves_a_distribution_of_the_rest() -> None:
    found = TABLE.given(y=1)
    assert found.axes == ("x", "z")
    np.testing.assert_allclose(found.values, VALUES[:, 1] / VALUES[:, 1].sum(), rtol=1e-14)


def test_bayes_rule_turns_a_conditional_around() -> None:
    likelihood, prior = TABLE.conditional("y", "x"), JointTable([0.3, 0.7], "x")
    found = likelihood.inverted(prior)
    weights = likelihood.values * np.array([[0.3], [0.7]])
    np.testing.assert_allclose(found.values, (weights / weights.sum(axis=0)).T, rtol=1e-14)
    np.testing.assert_allclose(
        TABLE.conditional("y", "x").joint(TABLE.marginal("x")).values, VALUES.sum(axis=2)
    )


def test_a_condition_of_mass_zero_has_no_distribution() -> None:
    table = JointTable([[0.5, 0.0], [0.5, 0.0]], ("x", "y"))
    with pytest.raises(ArgumentError, match=r"given\(y=1\): has probability 0"):
        table.given(y=1)
    conditional = table.conditional("x", "y")
    assert conditional.possible.tolist() == [True, False]
    with pytest.raises(ArgumentError, match="has probability 0"):
        conditional.at(y=1)
    with pytest.raises(ArgumentError, match="under which there is no distribution"):
        conditional.joint(JointTable([0.5, 0.5], "y"))


def test_independence_is_found_and_its_largest_violation_named() -> None:
    p, q = np.array([0.2, 0.8]), np.array([0.1, 0.6, 0.3])
    assert JointTable(np.outer(p, q), ("x", "y")).independence("x", "y")
    found = TABLE.independence("x", "z")
    joint = VALUES.sum(axis=1)
    gap = np.abs(joint - np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    assert not found
    assert found.violation == pytest.approx(gap.max())
    assert gap[found.witness["x"], found.witness["z"]] == pytest.approx(gap.max())


def test_causes_are_independent_until_their_effect_is_seen() -> None:
    xor = np.zeros((2, 2, 2))
    for a, b in itertools.product(range(2), repeat=2):
        xor[a, b, a ^ b] = 0.25
    table = JointTable(xor, ("a", "b", "either"))
    assert table.independence("a", "b")
    assert not table.independence("a", "b", given="either")
    assert table.independence("a", "b", given="either").violation == 0.25
    chain = np.einsum("a,ab,bc->abc", [0.3, 0.7], [[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.5, 0.5]])
    assert JointTable(chain, ("a", "b", "c")).independence("a", "c", given="b")


def test_draws_have_the_frequencies_of_the_table() -> None:
    drawn = TABLE.sample(jax.random.key(0), (20_000,))
    seen = np.zeros((2, 3, 4))
    np.add.at(seen, tuple(np.asarray(drawn[name]) for name in ("x", "y", "z")), 1 / 20_000)
    assert np.abs(seen - VALUES).max() < 4 * 0.5 / np.sqrt(20_000)


def test_a_variable_and_itself_have_no_density_together() -> None:
    key = jax.random.key(0)
    found = joint_density(key, Normal(0.0, 1.0), lambda x: jnp.stack([x, x]))
    assert str(found) == "no joint density; rank 1 of 2"
    pair = MultivariateNormal(np.zeros(2), np.eye(2))
    assert joint_density(key, pair, lambda x: jnp.stack([x[0], x[0] + x[1] ** 3])).value
    assert joint_density(key, pair, lambda x: jnp.stack([x[0], x[1], x[0] * x[1]])).rank == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: JointTable([0.5, 0.4], "x"), "sums to 0.9"),
        (lambda: JointTable([-0.5, 1.5], "x"), "neither negative nor missing"),
        (lambda: JointTable([0.0, 0.0], "x", normalize=True), "all entries are zero"),
        (lambda: JointTable(np.full((2, 2), 0.25), ("x", "x")), "different names"),
        (lambda: TABLE.marginal("w"), "no variable 'w'"),
        (lambda: TABLE.given(y=3), "values 0 to 2"),
        (lambda: TABLE.independence("x", "x"), "stands in two of them"),
        (lambda: TABLE.conditional("x", "y").at(z=0), "a value of each of y"),
    ],
)
def test_bad_input_is_named(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
