"""Loss landscapes: known planes, lines and curvatures; rescaling a network that stays the same changes nothing."""

from typing import Any

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema
from chainrule.explain import probes
from chainrule.explain.methods.landscape import (
    along,
    barrier,
    between,
    curvature,
    direction,
    objective,
    recomputed,
    surface,
    weights_of,
)
from chainrule.explain.methods.paths import main_plane, random_walk
from chainrule.explain.probes.landscape import negative_share
from chainrule.train import Run, fit, keep

SCHEMA = Schema("table", (4,), target="value")
KEY = jax.random.key(0)
BATCH = Batch(jax.random.normal(KEY, (16, 4)), jax.random.normal(jax.random.key(1), (16,)))
LOSS = objective(BATCH, KEY)
RNG = np.random.default_rng(0)


def network(**settings: Any) -> Any:
    return models.build("mlp", SCHEMA, **{"width": 5, "depth": 3, "dropout": 0.5, **settings})


def test_the_centre_is_the_loss_of_the_model_without_noise() -> None:
    model = network()
    found = surface(LOSS, model, KEY, points=3, reach=0.5)
    assert found.losses.shape == (3, 3)
    expected = eqx.filter_jit(eqx.nn.inference_mode(model).loss)(BATCH, KEY)[0]
    np.testing.assert_allclose(found.losses[1, 1], expected, rtol=1e-6)
    first, second = (direction(model, k) for k in jax.random.split(KEY))
    corner = eqx.filter_jit(LOSS)(along(model, (-0.5, first), (0.5, second)))
    np.testing.assert_allclose(found.losses[0, 2], corner, rtol=1e-5)


def test_directions_have_the_size_of_the_filters_and_leave_biases_alone() -> None:
    model = network()
    way = direction(model, KEY)
    for weight, change in zip(
        jax.tree.leaves(eqx.filter(model, eqx.is_array)), jax.tree.leaves(way), strict=True
    ):
        if weight.ndim == 1:
            assert not change.any()
        else:
            np.testing.assert_allclose(
                jnp.linalg.norm(change, axis=0), jnp.linalg.norm(weight, axis=0), rtol=1e-5
            )


def test_scaling_one_layer_up_and_the_next_down_leaves_the_picture_as_it_was() -> None:
    model = network()
    weights = lambda m: (m.blocks[0].linear.weight, m.blocks[1].linear.weight)  # noqa: E731
    first, second = weights(model)
    scaled = eqx.tree_at(weights, model, (10 * first, second / 10))
    before, after = (surface(LOSS, m, KEY, points=3).losses for m in (model, scaled))
    np.testing.assert_allclose(after, before, rtol=1e-5)


def test_a_line_between_two_models_begins_and_ends_at_their_losses() -> None:
    one, other = network(), network(seed=1)
    steps, found = between({"loss": LOSS}, one, other, points=7, beyond=0.25)
    np.testing.assert_allclose(steps[[1, 5]], [0, 1], atol=1e-7)
    np.testing.assert_allclose(found["loss"][[1, 5]], [LOSS(one), LOSS(other)], rtol=1e-5)
    with pytest.raises(ArgumentError, match="different shapes"):
        between({"loss": LOSS}, one, network(width=6))


def test_the_line_between_two_linear_models_is_a_parabola_without_a_barrier() -> None:
    steps, found = between({"loss": LOSS}, network(depth=1), network(depth=1, seed=1), points=7)
    fitted = np.polyfit(steps, found["loss"], 2)
    np.testing.assert_allclose(np.polyval(fitted, steps), found["loss"], rtol=1e-4)
    assert fitted[0] > 0
    assert barrier(steps, found["loss"]) == pytest.approx(0, abs=1e-5)
    assert barrier(steps, -found["loss"]) == pytest.approx(fitted[0] / 4, rel=1e-3)  # (t - t^2) at its top


def test_curvature_is_that_of_the_explicit_hessian() -> None:
    model = network(depth=1)  # least squares: the Hessian is known
    x = np.concatenate([np.asarray(BATCH.x), np.ones((16, 1), np.float32)], axis=1)
    values = np.linalg.eigvalsh(2 * x.T @ x / 16)
    np.testing.assert_allclose(curvature(LOSS, model, KEY), (values[0], values[-1]), rtol=1e-3)


def test_curvature_of_a_saddle_is_exact_and_its_ratio_that_of_the_extremes() -> None:
    model = network(depth=1)  # four weights and a bias
    scales = jnp.array([-3.0, -1.0, 0.5, 4.0, 12.0])
    saddle = lambda m: 0.5 * (scales * jnp.append(m.head.weight[:, 0], m.head.bias) ** 2).sum()  # noqa: E731
    low, high = curvature(saddle, model, KEY)
    np.testing.assert_allclose((low, high), (-3, 12), rtol=1e-5)
    assert negative_share(low, high) == pytest.approx(0.25)
    assert negative_share(0.1, 2.0) == 0


def normalised(seed: int) -> Any:
    return network(seed=seed, normalization="batch", dropout=0.0, width=3)


def test_recomputed_statistics_are_those_a_training_pass_normalises_by() -> None:
    model = normalised(0)
    training = eqx.nn.inference_mode(model, value=False).loss(BATCH, KEY)[0]
    np.testing.assert_allclose(objective(BATCH, KEY, "recomputed")(model), training, rtol=1e-5)
    assert abs(LOSS(model) - training) > 1e-3  # as they were: zero and one
    fresh = recomputed(model, BATCH, KEY)
    first: Any = model.blocks[0].linear(BATCH.x)
    np.testing.assert_allclose(fresh.blocks[0].norm.mean, first.mean(axis=0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fresh.blocks[0].norm.var, first.var(axis=0), rtol=1e-4)
    assert recomputed(network(), BATCH, KEY).blocks[0].norm == network().blocks[0].norm


def test_running_statistics_go_along_a_line_so_that_both_ends_are_the_models_they_are() -> None:
    one, other = (recomputed(normalised(seed), BATCH, KEY) for seed in (0, 1))
    _, found = between({"loss": LOSS}, one, other, points=3, beyond=0.0)
    np.testing.assert_allclose(found["loss"][[0, 2]], [LOSS(one), LOSS(other)], rtol=1e-5)


def in_plane(coordinates: np.ndarray, model: Any) -> tuple[list[Any], np.ndarray]:
    """Models at points of a plane of two known directions through the model."""
    ways = np.linalg.qr(RNG.normal(size=(sum(leaf.size for leaf in jax.tree.leaves(weights_of(model))), 2)))[
        0
    ].T
    flat, back = jax.flatten_util.ravel_pytree(weights_of(model))
    rest = eqx.filter(model, eqx.is_inexact_array, inverse=True)
    return [eqx.combine(back(flat + jnp.asarray(p @ ways, jnp.float32)), rest) for p in coordinates], ways


def test_the_plane_of_a_path_that_lies_in_one_is_that_plane() -> None:
    coordinates = np.array([[4.0, 1.0], [2.0, -1.0], [1.0, 0.5], [0.5, 0.2], [0.0, 0.0]])
    path, ways = in_plane(coordinates, network(dropout=0.0))
    found = main_plane(path)
    flat = np.stack([np.asarray(jax.flatten_util.ravel_pytree(way)[0], np.float64) for way in found.ways])
    np.testing.assert_allclose(flat @ flat.T, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(np.linalg.svd(flat @ ways.T)[1], 1, atol=1e-6)  # the same plane
    values = np.linalg.eigvalsh(np.cov(coordinates.T))[::-1]
    np.testing.assert_allclose(found.shares, values / values.sum(), rtol=1e-5)
    np.testing.assert_allclose(
        np.linalg.norm(found.coordinates[:, None] - found.coordinates[None], axis=-1),
        np.linalg.norm(coordinates[:, None] - coordinates[None], axis=-1),
        atol=1e-5,
    )
    np.testing.assert_allclose(found.away, 0, atol=1e-3)
    back = along(path[-1], *zip(found.coordinates[0].tolist(), found.ways, strict=True))
    np.testing.assert_allclose(LOSS(back), LOSS(path[0]), rtol=1e-4)


def test_a_path_too_short_or_straight_is_refused() -> None:
    model = network(dropout=0.0)
    with pytest.raises(ArgumentError, match="a path of 3 points"):
        main_plane([model] * 3)
    line, _ = in_plane(np.array([[t, 0.0] for t in (3.0, 2.0, 0.5, 0.0)]), model)
    with pytest.raises(ArgumentError, match="straight line"):
        main_plane(line)
    with pytest.raises(ArgumentError, match="different shapes"):
        main_plane([*line, network(width=6)])


def test_a_random_walk_in_many_dimensions_has_the_shares_that_were_derived() -> None:
    walk = RNG.normal(size=(12, 20_000)).cumsum(axis=0)
    values = np.linalg.svd(walk - walk.mean(axis=0), compute_uv=False)[:-1] ** 2
    np.testing.assert_allclose(values / values.sum(), random_walk(12), rtol=0.1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    moons, folder = data.load("moons", n=60), tmp_path_factory.mktemp("runs")
    often: dict[str, Any] = {"steps": 8, "batch": 8, "save_every": 2, "keep": 9}
    one = fit(models.build("mlp", moons, width=3), moons, run=folder / "one", **often)
    two = models.build("mlp", moons, width=3, seed=1)
    return [one, keep(two, moons, run=folder / "two", origin=one.origin)]


def test_the_probe_draws_the_path_of_the_checkpoints_and_the_line_to_another_run(runs: list[Run]) -> None:
    found = probes.examine(
        "landscape", runs[0], directions="path", other="two", points=3, examples=20, statistics="trained"
    )
    assert found.table is not None
    assert [row[0] for row in found.table.rows] == [2, 4, 6, 8]
    assert sum(found.numbers["shares"]) <= 1
    assert set(found.numbers["barrier"]) == {"training examples", "test examples"}
    drawn = [report.draw(picture) for picture in found.pictures]
    assert all(one.startswith("<svg") for one in drawn)
    assert "of its variance" in drawn[0]


def test_a_path_needs_checkpoints_and_says_how_to_keep_them(runs: list[Run]) -> None:
    with pytest.raises(ArgumentError, match="two keeps 1 checkpoints, a path needs at least 4") as caught:
        probes.examine("landscape", runs[1], directions="path")
    assert "save_every" in str(caught.value)
