"""Directed models against the full product table, moments of draws, and independence in random models."""

import itertools

import jax
import numpy as np
import pytest
import scipy.stats

from chainrule import report
from chainrule.core.errors import ArgumentError
from chainrule.probability.graphical import (
    DirectedModel,
    FiniteNode,
    LinearGaussianNode,
    latent_variable,
    two_latent_variables,
)

SIZES = {"a": 2, "b": 3, "c": 2, "d": 2, "e": 3}
PARENTS = {"a": (), "b": (), "c": ("a", "b"), "d": ("c",), "e": ("b", "d")}


def table(name: str, seed: int = 0) -> np.ndarray:
    draws = np.random.default_rng([seed, ord(name)])
    return draws.dirichlet(np.ones(SIZES[name]), size=tuple(SIZES[p] for p in PARENTS[name]))


MODEL = DirectedModel({name: FiniteNode(table(name), PARENTS[name]) for name in "edcab"})
FULL = np.einsum("a,b,abc,cd,bde->abcde", *(table(name) for name in "abcde"))


def test_marginals_are_those_of_the_full_table() -> None:
    np.testing.assert_allclose(MODEL.marginal("e", "a").values, FULL.sum(axis=(1, 2, 3)).T, rtol=1e-13)
    np.testing.assert_allclose(MODEL.marginal("a", "b").values, FULL.sum(axis=(2, 3, 4)), rtol=1e-13)
    posterior = FULL[:, :, :, 1, 2].sum(axis=(1, 2))
    np.testing.assert_allclose(MODEL.marginal("a", d=1, e=2).values, posterior / posterior.sum(), rtol=1e-13)


def test_a_long_chain_is_solved_without_its_joint_table() -> None:
    step = np.array([[0.9, 0.1], [0.3, 0.7]])
    nodes = {"x0": FiniteNode([1.0, 0.0])} | {f"x{k}": FiniteNode(step, [f"x{k - 1}"]) for k in range(1, 60)}
    expected = np.array([1.0, 0.0]) @ np.linalg.matrix_power(step, 59)
    np.testing.assert_allclose(DirectedModel(nodes).marginal("x59").values, expected, rtol=1e-13)


def test_the_joint_is_the_product_of_its_factors_and_draws_follow_it() -> None:
    values = {"a": 1, "b": 2, "c": 0, "d": 1, "e": 0}
    assert float(MODEL.log_prob(values)) == pytest.approx(np.log(FULL[1, 2, 0, 1, 0]), rel=1e-5)
    drawn = MODEL.sample(jax.random.key(0), (20_000,))
    seen = np.bincount(np.asarray(drawn["e"]) * 2 + np.asarray(drawn["a"]), minlength=6) / 20_000
    assert np.abs(seen.reshape(3, 2) - MODEL.marginal("e", "a").values).max() < 4 * 0.5 / np.sqrt(20_000)


def test_separation_agrees_with_independence_in_a_random_model() -> None:
    joint = MODEL.marginal(*"abcde")
    pairs = list(itertools.combinations("abcde", 2))
    for a, b in pairs:
        others = [one for one in "abcde" if one not in (a, b)]
        for size in range(4):
            for given in itertools.combinations(others, size):
                found = MODEL.is_separated(a, b, given)
                assert found.value == joint.independence(a, b, given).value, (a, b, given)
                assert found.value == (found.witness is None)


def test_the_witness_is_an_active_path() -> None:
    assert MODEL.is_separated("a", "b").value
    assert MODEL.is_separated("a", "b", given="d").witness == ("a", "c", "b")
    assert MODEL.is_separated("a", "d").witness == ("a", "c", "d")


def test_a_blanket_shields_its_node_from_everything_else() -> None:
    assert MODEL.markov_blanket("c") == ("a", "b", "d")
    assert MODEL.markov_blanket("b") == ("a", "c", "d", "e")
    for name in "abcde":
        blanket = MODEL.markov_blanket(name)
        rest = [one for one in "abcde" if one != name and one not in blanket]
        assert not rest or MODEL.is_separated(name, rest, blanket)


def test_linear_gaussian_nodes_have_the_moments_of_their_sums() -> None:
    model = DirectedModel(
        {
            "x": LinearGaussianNode(1.0, 2.0),
            "y": LinearGaussianNode(0.5, 1.0, {"x": 3.0}),
            "z": LinearGaussianNode(0.0, 0.25, {"x": -1.0, "y": 2.0}),
        }
    )
    joint = model.gaussian()
    np.testing.assert_allclose(joint.mean, [1.0, 3.5, 6.0], rtol=1e-6)
    np.testing.assert_allclose(joint.covariance, [[2, 6, 10], [6, 19, 32], [10, 32, 54.25]], rtol=1e-5)
    np.testing.assert_allclose(model.gaussian("z", "x").covariance, [[54.25, 10], [10, 2]], rtol=1e-5)
    values = {"x": 0.3, "y": 1.0, "z": 2.0}
    expected = scipy.stats.norm.logpdf(
        [0.3, 1.0, 2.0], [1.0, 0.5 + 0.9, -0.3 + 2.0], np.sqrt([2.0, 1.0, 0.25])
    ).sum()
    assert float(model.log_prob(values)) == pytest.approx(expected, rel=1e-5)
    drawn = model.sample(jax.random.key(0), (20_000,))
    assert np.cov(np.asarray(drawn["x"]), np.asarray(drawn["z"]))[0, 1] == pytest.approx(10, rel=0.1)


def test_the_built_in_models_are_their_formulas() -> None:
    prior, likelihood = np.array([0.4, 0.6]), np.array([[0.9, 0.1], [0.3, 0.7]])
    posterior = prior * likelihood[:, 1]
    np.testing.assert_allclose(
        latent_variable(prior, likelihood).marginal("z", x=1).values, posterior / posterior.sum()
    )
    z2, x1, x2 = likelihood, np.random.default_rng(0).dirichlet(np.ones(2), (2, 2)), likelihood[::-1]
    model = two_latent_variables(prior, z2, x1, x2)
    full = np.einsum("a,ab,abc,bd->cd", prior, z2, x1, x2)
    np.testing.assert_allclose(model.marginal("x1", "x2").values, full, rtol=1e-13)
    assert model.to_text().splitlines()[2] == "p(x1 | z1, z2)  finite, 2 values"


def test_graphs_are_written_and_drawn() -> None:
    assert '"c" -> "d";' in MODEL.to_dot()
    assert report.draw(MODEL.picture()).startswith("<svg")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: DirectedModel(
                {
                    name: FiniteNode(np.full((2, 2), 0.5), [of])
                    for name, of in (("x", "z"), ("y", "x"), ("z", "y"))
                }
            ),
            "x -> y -> z -> x",
        ),
        (lambda: DirectedModel({"x": FiniteNode(np.eye(2), ["why"])}), "which is no node"),
        (lambda: FiniteNode([0.5, 0.4]), "sum to 0.9"),
        (lambda: FiniteNode(np.full((2, 2), 0.4), ["z"]), "given {'z': 0}"),
        (lambda: FiniteNode([0.5, 0.5], ["z"]), "for 1 parents"),
        (lambda: LinearGaussianNode(variance=0), "positive and finite"),
        (
            lambda: DirectedModel({"x": FiniteNode([1.0]), "y": LinearGaussianNode(parents={"x": 1.0})}),
            "its parent 'x' is finite",
        ),
        (
            lambda: DirectedModel({"x": LinearGaussianNode(), "y": FiniteNode(np.eye(2), ["x"])}),
            "its parent 'x' is linear-Gaussian",
        ),
        (
            lambda: DirectedModel({"x": FiniteNode([1.0]), "y": FiniteNode(np.eye(2), ["x"])}),
            "which has 1 values",
        ),
        (lambda: MODEL.marginal("f"), "no variable 'f'"),
        (lambda: MODEL.marginal("a", a=1), "values of others only"),
        (lambda: MODEL.marginal("a", e=7), "values 0 to 2"),
        (lambda: MODEL.gaussian("a"), "model.marginal"),
        (lambda: MODEL.log_prob({"a": 0}), "no value of"),
        (lambda: latent_variable([1.0, 0.0], np.eye(2)).marginal("z", x=1), "x=1 has probability 0"),
    ],
)
def test_bad_input_is_named(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
