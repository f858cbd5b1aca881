"""Gradients of single examples: equal to a Python loop, and refused where examples are coupled."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError
from tests.derive.dense.functions import point
from tests.derive.dense.test_strategies import close

BATCH = {"x": point(7, 3), "y": np.array([0, 1, 2, 1, 0, 2, 1])}
PARAMS = {"w": point(3, 4, seed=2), "v": point(4, 3, seed=3), "b": point(3, seed=4)}


def logits(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"]) @ params["v"] + params["b"][None]


def loss(params: Any, batch: Any) -> Any:
    scores = jax.nn.log_softmax(logits(params, batch["x"]))
    return -jnp.take_along_axis(scores, batch["y"][:, None], axis=1).mean()


def one_each(params: Any, batch: Any) -> Any:
    scores = jax.nn.log_softmax(logits(params, batch["x"]))
    return -jnp.take_along_axis(scores, batch["y"][:, None], axis=1)[:, 0]


@functools.cache
def looped() -> Any:
    slope = jax.jit(jax.grad(loss))
    rows = [slope(PARAMS, jax.tree.map(lambda a, i=i: a[i : i + 1], BATCH)) for i in range(7)]
    return jax.tree.map(lambda *g: np.stack(g), *rows)


CHUNKS = (None, 1, 3, 7, 100)


@pytest.mark.parametrize("function", [loss, one_each])
def test_per_sample_gradients_equal_a_loop_and_average_to_the_batch(function: Any) -> None:
    run = jax.jit(lambda p, b: [cr.derive.per_sample_gradient(function, p, b, chunk=c) for c in CHUNKS])
    for found in run(PARAMS, BATCH):
        close(found, looped())
        mean = jax.tree.map(lambda g: g.mean(axis=0), found)
        close(mean, jax.jit(jax.grad(loss))(PARAMS, BATCH))


def norms() -> np.ndarray:
    return np.sqrt(sum((g.reshape(7, -1) ** 2).sum(axis=1) for g in jax.tree.leaves(looped())))


def test_norms_come_without_keeping_gradients() -> None:
    run = jax.jit(lambda p, b: [cr.derive.per_sample_norms(loss, p, b, chunk=c) for c in CHUNKS])
    for found in run(PARAMS, BATCH):
        close(found, norms())


@pytest.mark.parametrize("limit", [0.1, 0.7, 1e6])
def test_clipped_sums_clip_every_gradient(limit: float) -> None:
    factors = np.minimum(1, limit / norms())
    expected = jax.tree.map(lambda g: np.einsum("i,i...->...", factors, g), looped())
    run = jax.jit(lambda p, b: [cr.derive.clipped_sum(loss, p, b, limit, chunk=c) for c in CHUNKS])
    for found in run(PARAMS, BATCH):
        close(found, expected)


def test_outside_jit_they_are_the_same() -> None:
    compiled, compiled_each = jax.jit(loss), jax.jit(one_each)
    close(cr.derive.per_sample_gradient(compiled, PARAMS, BATCH, chunk=3), looped())
    close(cr.derive.per_sample_norms(compiled_each, PARAMS, BATCH), norms())
    expected = jax.tree.map(lambda g: np.einsum("i,i...->...", np.minimum(1, 0.5 / norms()), g), looped())
    close(cr.derive.clipped_sum(compiled, PARAMS, BATCH, 0.5, chunk=4), expected)


def test_a_gradient_of_zero_is_not_divided_by() -> None:
    found = cr.derive.clipped_sum(lambda w, x: (0.0 * w * x).mean(), 1.0, np.ones(3), 1.0)
    assert float(found) == 0.0


@jax.jit
def normalised(params: Any, batch: Any) -> Any:
    z = logits(params, batch["x"])
    return (((z - z.mean(axis=0, keepdims=True)) / (z.std(axis=0, keepdims=True) + 1.0)) ** 2).mean()


def test_a_loss_that_couples_examples_is_refused() -> None:
    for call in (
        lambda: cr.derive.per_sample_gradient(normalised, PARAMS, BATCH),
        lambda: cr.derive.per_sample_norms(normalised, PARAMS, BATCH),
        lambda: cr.derive.clipped_sum(normalised, PARAMS, BATCH, 1.0),
    ):
        with pytest.raises(
            ArgumentError, match=r"is not the mean over its examples .* so examples are coupled"
        ):
            call()


CALLS: dict[str, Any] = {
    "per_sample_gradient": cr.derive.per_sample_gradient,
    "per_sample_norms": cr.derive.per_sample_norms,
    "clipped_sum": lambda loss, params, batch, **how: cr.derive.clipped_sum(loss, params, batch, 1.0, **how),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_loss_that_couples_examples_is_refused_inside_jit_when_the_program_runs(name: str) -> None:
    run = jax.jit(lambda p, b: CALLS[name](normalised, p, b))
    with pytest.raises(Exception, match=f"{name}: the loss of the batch is not the mean over its examples"):
        jax.block_until_ready(run(PARAMS, BATCH))


def test_the_check_can_be_left_out() -> None:
    def spread(w: Any, x: Any) -> Any:
        return (((x - x.mean(axis=0, keepdims=True)) @ w) ** 2).mean()

    for run in (lambda f: f, jax.jit):
        found = run(lambda p, b: cr.derive.per_sample_norms(spread, p, b, check=False))(
            np.ones(3), BATCH["x"]
        )
        assert np.array_equal(found, np.zeros(7))


def test_the_check_does_not_stand_in_the_way_of_batches_and_derivatives() -> None:
    total = lambda p: CALLS["per_sample_norms"](loss, p, BATCH).sum()  # noqa: E731
    plain = lambda p: CALLS["per_sample_norms"](loss, p, BATCH, check=False).sum()  # noqa: E731
    close(jax.jit(jax.grad(total))(PARAMS), jax.jit(jax.grad(plain))(PARAMS))
    two = jax.tree.map(lambda a: np.stack([a, 2 * a]), PARAMS)
    close(jax.jit(jax.vmap(total))(two), jax.jit(jax.vmap(plain))(two))


def test_a_loss_that_is_not_finite_is_not_called_coupled() -> None:
    broken = jax.tree.map(lambda a: np.full_like(a, np.nan), PARAMS)
    assert np.isnan(CALLS["per_sample_norms"](jax.jit(loss), broken, BATCH)).all()


def test_coupling_that_does_not_show_in_the_loss_shows_in_its_slope() -> None:
    @jax.jit
    def hidden(w: Any, x: Any) -> Any:
        centred = x - x.mean(axis=0, keepdims=True)  # batch normalisation before weights that are still zero
        return jax.nn.softplus(centred @ w).mean()

    with pytest.raises(ArgumentError, match="the slope of the batch is not the mean"):
        cr.derive.per_sample_gradient(hidden, np.zeros(3), BATCH["x"] ** 2)


def test_a_sum_over_examples_is_told_apart_from_a_mean() -> None:
    with pytest.raises(ArgumentError, match="use a mean over examples"):
        cr.derive.per_sample_gradient(lambda w, x: (w * x).sum(), 1.0, np.ones(3))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"x": np.ones(3), "y": np.ones(4)}, "leading sizes 3, 4"),
        ({"x": np.ones(3), "y": np.asarray(1.0)}, "leading sizes 3, none"),
        ({"x": np.ones((0, 2))}, "leading sizes 0"),
        ({}, "leading sizes none"),
    ],
)
def test_a_batch_needs_one_row_per_example(batch: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        cr.derive.per_sample_gradient(lambda w, b: w * b["x"].mean(), 1.0, batch)


def test_other_mistakes_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"the loss has shape \(3, 3\), not \(\) or \(3,\)"):
        cr.derive.per_sample_gradient(lambda w, x: w * jnp.outer(x, x), 1.0, np.ones(3))
    with pytest.raises(ArgumentError, match=r"clipped_sum\(limit=0\): the limit must be a positive number"):
        cr.derive.clipped_sum(loss, PARAMS, BATCH, 0)
    with pytest.raises(ArgumentError, match=r"params\['w'\] has type int64"):
        cr.derive.per_sample_norms(loss, {"w": np.arange(3)}, BATCH)
    with pytest.raises(ArgumentError, match=r"per_sample_norms\(chunk=0\)"):
        cr.derive.per_sample_norms(loss, PARAMS, BATCH, chunk=0)


def test_single_precision_is_not_taken_for_coupling() -> None:
    single = jax.tree.map(lambda a: np.asarray(a, np.float32), PARAMS)
    batch = {"x": np.asarray(point(500, 3), np.float32), "y": np.zeros(500, int)}
    assert cr.derive.per_sample_norms(jax.jit(loss), single, batch, chunk=50).shape == (500,)


def squares(w: Any, batch: Any) -> Any:
    return jnp.mean((batch[0] @ w - batch[1]) ** 2)


THREE = (np.ones((3, 2)), np.zeros(3))


@pytest.mark.parametrize(
    ("loss", "batch", "message"),
    [
        (squares, ("text",), r"batch\[0\] is str, not an array"),
        (lambda w, b: {"loss": squares(w, b)}, THREE, "returns a dict with a number at"),
        (lambda w, b: jnp.asarray(1), THREE, "returns type int64; its derivative is zero or undefined"),
    ],
)
def test_what_is_no_loss_of_a_batch_is_named(loss: Any, batch: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        cr.derive.per_sample_norms(loss, np.ones(2), batch)


def test_the_limit_may_be_traced() -> None:
    found = jax.jit(lambda limit: cr.derive.clipped_sum(squares, jnp.ones(2), THREE, limit))(0.5)
    np.testing.assert_allclose(np.linalg.norm(found), 1.5, rtol=1e-6)
