"""Gauss-Newton and Fisher products against explicit matrices, and second-order blocks against closed forms."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError
from tests.derive.dense.functions import point
from tests.derive.dense.test_strategies import close

d = cr.derive
X = point(6, 3)
LABELS = np.array([0, 1, 2, 3, 1, 0])


def network(w: Any) -> Any:
    """24 weights to (6, 4) outputs."""
    w1, w2 = w[:12].reshape(3, 4), w[12:].reshape(4, 3)
    return jnp.tanh(X @ w1) @ jnp.concatenate([w2, w2[:, :1] ** 2], axis=1)


WEIGHTS = point(24, seed=3)


@functools.cache
def rows() -> np.ndarray:
    """The Jacobian of every example, (6, 4, 24)."""
    return np.asarray(jax.jit(jax.jacfwd(network))(WEIGHTS))


def test_the_softmax_of_the_book_has_the_output_hessian_of_the_book() -> None:
    p = np.array([0.2, 0.3, 0.5])
    cross_entropy = lambda z: jax.nn.logsumexp(z) - z[0]  # noqa: E731
    close(d.hessian(cross_entropy)(np.log(p)), np.diag(p) - np.outer(p, p))
    fisher = jax.vmap(d.fisher_product(lambda z: z[None], np.log(p)))
    close(fisher(np.eye(3)), np.diag(p) - np.outer(p, p))


def dense(make: Callable[[Any], Callable[[Any], Any]]) -> np.ndarray:
    """The matrix of a product that is made from the weights, all in one program."""
    return np.asarray(jax.jit(lambda w: jax.vmap(make(w))(jnp.eye(24)).T)(WEIGHTS))


def cross_entropy(z: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(z), LABELS[:, None], axis=1).mean()


@pytest.mark.parametrize("loss", [cross_entropy, lambda z: (z**4).sum(), lambda z: jnp.sin(z).sum() ** 2])
def test_gauss_newton_products_are_those_of_the_explicit_matrix(loss: Any) -> None:
    curve = np.asarray(jax.jit(lambda w: jax.hessian(loss)(network(w)))(WEIGHTS)).reshape(24, 24)
    J = rows().reshape(24, 24)
    explicit = J.T @ curve @ J
    close(dense(lambda w: d.gauss_newton_product(network, loss, w)), explicit)


def test_gauss_newton_is_the_exact_fisher_for_softmax_cross_entropy() -> None:
    G = dense(lambda w: d.gauss_newton_product(network, cross_entropy, w))
    close(dense(lambda w: d.fisher_product(network, w)), G)
    v = point(24, seed=7)
    close(d.gauss_newton_product(network, cross_entropy, WEIGHTS)(v), G @ v)
    close(jax.jit(d.fisher_product(network, WEIGHTS))(v), G @ v)


@pytest.mark.parametrize("likelihood", ["categorical", "bernoulli", "gaussian"])
def test_the_exact_fisher_is_the_expected_outer_product_of_scores(likelihood: str) -> None:
    z = np.asarray(jax.jit(network)(WEIGHTS))
    outputs = {
        "categorical": [np.diag(p) - np.outer(p, p) for p in np.asarray(jax.nn.softmax(z))],
        "bernoulli": [np.diag(p * (1 - p)) for p in np.asarray(jax.nn.sigmoid(z))],
        "gaussian": [np.eye(4)] * 6,
    }[likelihood]
    explicit = sum(Ji.T @ F @ Ji for Ji, F in zip(rows(), outputs, strict=True)) / 6
    close(dense(lambda w: d.fisher_product(network, w, likelihood=likelihood)), explicit)


@pytest.mark.parametrize(
    ("likelihood", "targets"),
    [("categorical", LABELS), ("bernoulli", (X[:, :1] > 0) * np.ones((6, 4))), ("gaussian", np.ones((6, 4)))],
)
def test_the_empirical_fisher_is_the_mean_outer_product_of_gradients(
    likelihood: str, targets: np.ndarray
) -> None:
    def log_likelihood(w: Any, i: int) -> Any:
        z = network(w)[i]
        if likelihood == "categorical":
            return jax.nn.log_softmax(z)[targets[i]]
        if likelihood == "bernoulli":
            return (targets[i] * jax.nn.log_sigmoid(z) + (1 - targets[i]) * jax.nn.log_sigmoid(-z)).sum()
        return -0.5 * ((targets[i] - z) ** 2).sum()

    score = jax.jit(lambda w: jnp.stack([jax.grad(log_likelihood)(w, i) for i in range(6)]))
    scores = np.asarray(score(WEIGHTS))
    empirical = {"likelihood": likelihood, "kind": "empirical", "targets": jnp.asarray(targets)}
    close(dense(lambda w: d.fisher_product(network, w, **empirical)), scores.T @ scores / 6)


@pytest.mark.parametrize("likelihood", ["categorical", "bernoulli", "gaussian"])
def test_the_sampled_fisher_converges_to_the_exact_one(likelihood: str) -> None:
    v = point(24, seed=9)

    def form(w: Any, **settings: Any) -> Any:
        return v @ d.fisher_product(network, w, likelihood=likelihood, **settings)(jnp.asarray(v))

    draw = jax.jit(jax.vmap(lambda w, k: form(w, kind="sampled", key=k, samples=40), (None, 0)))
    draws = np.asarray(draw(WEIGHTS, jax.random.split(jax.random.key(0), 50)))
    error = draws.std(ddof=1) / np.sqrt(len(draws))
    assert abs(draws.mean() - float(jax.jit(form)(WEIGHTS))) < 4 * error


def test_products_work_on_trees_and_under_jit() -> None:
    f = lambda p: X @ p["w"] + p["b"][None]  # noqa: E731
    p = {"w": point(3, 2), "b": point(2)}
    product = jax.jit(d.fisher_product(f, p, likelihood="gaussian"))(p)
    z = X @ p["w"] + p["b"]
    close(product, {"w": X.T @ z / 6, "b": z.mean(axis=0)})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: d.fisher_product(network, WEIGHTS, likelihood="poisson"),
            r'likelihood="poisson".*"categorical"',
        ),
        (lambda: d.fisher_product(network, WEIGHTS, kind="guess"), r'kind="guess".*"exact"'),
        (lambda: d.fisher_product(network, WEIGHTS, kind="empirical"), "needs the targets of the batch"),
        (lambda: d.fisher_product(network, WEIGHTS, kind="sampled"), "needs a random key"),
        (
            lambda: d.fisher_product(lambda w: w, WEIGHTS),
            r"must return \(batch, outputs\), not shape \(24,\)",
        ),
        (
            lambda: d.fisher_product(network, WEIGHTS)(np.ones(3)),
            r"v has shape \(3,\), params has shape \(24,\)",
        ),
        (
            lambda: d.fisher_product(network, WEIGHTS, kind="sampled", key=jax.random.key(0), samples=0),
            r"fisher_product\(samples=0\)",
        ),
        (
            lambda: d.fisher_product(network, WEIGHTS, kind="empirical", targets=jnp.zeros(5, int)),
            r"targets of shape \(5,\)",
        ),
        (
            lambda: d.gauss_newton_product(network, lambda z: z, WEIGHTS)(WEIGHTS),
            "returns shape .* not one number",
        ),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()


def test_a_lagrangian_hessian_is_the_weighted_sum_of_hessians() -> None:
    f = lambda x: {"a": jnp.sin(x) * x[0], "b": jnp.prod(x)}  # noqa: E731
    x = point(3)
    y = {"a": point(3, seed=2), "b": np.asarray(0.7)}
    H = jax.jit(jax.hessian(f))(x)
    expected = np.einsum("k,kij->ij", y["a"], H["a"]) + y["b"] * H["b"]
    L = d.lagrangian_hessian(f)
    close(L(x, y), expected)
    assert L.report.outputs == 1
    assert L.report.products == 3
    close(d.lagrangian_hessian(f, "reverse-over-forward", chunk=2)(x, y), expected)


def test_mixed_blocks_are_blocks_of_the_whole_hessian() -> None:
    f = lambda p, q: jnp.sin(p["a"] @ q) * p["b"].sum()  # noqa: E731
    p, q = {"a": point(2, 3), "b": point(2)}, point(3, seed=5)
    g = lambda p, q: f(p, q).sum()  # noqa: E731
    expected = jax.jit(jax.jacfwd(jax.grad(g), 1))(p, q)
    M = d.mixed(g)
    close(M(p, q), expected)
    assert M.report.inputs == 3
    other = d.mixed(g, 1, 0)(p, q)
    close(other["b"], np.asarray(expected["b"]).T)


def test_second_derivatives_of_several_outputs_have_one_more_axis() -> None:
    f = lambda x: {"field": jnp.outer(x, x**2)}  # noqa: E731
    x = point(2, seed=8)
    H = d.hessian(f)(x)["field"]
    assert H.shape == (2, 2, 2, 2)
    close(H, jax.jit(jax.hessian(f))(x)["field"])
