"""A generator trained by transport: its slope, its bias and what takes it away, eps on its way, whole runs."""

import dataclasses
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Batch
from chainrule.data.generated.toys import modes_of
from chainrule.data.splits import Subset
from chainrule.models.transport.sinkhorn_generator import diagnostics
from chainrule.models.transport.sinkhorn_generator.losses import divergence, entropic, sliced
from chainrule.probability.samples import mode_coverage
from chainrule.probability.transport import sinkhorn_divergence, usual_eps
from chainrule.probability.transport import sliced as sliced_distance
from chainrule.report.gallery import groups
from chainrule.train import fit, resume, snapshots

TOY = {"width": 8, "depth": 1, "latent": 2, "cost": "sqeuclidean"}
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def data() -> Any:
    return cr.data.load("ring", n=400)


def batch_of(data: Any, n: int = 32) -> Batch:
    return jax.tree.map(jnp.asarray, data.train.batch(np.arange(n)))


def test_the_loss_is_the_divergence_of_as_many_generated_examples(data: Any) -> None:
    model = cr.models.build("sinkhorn-generator", data, **TOY)
    batch = batch_of(data)
    loss, metrics = eqx.filter_jit(lambda m: m.loss(batch, KEY))(model)
    drawn = model.generate(jax.random.normal(cr.core.random.named(KEY, "noise"), (32, 2)))
    eps = 0.05 * np.square(batch.x[:, None] - batch.x[None]).sum(axis=-1).mean()
    assert float(loss) == pytest.approx(float(sinkhorn_divergence(batch.x, drawn, float(eps))), rel=1e-3)
    floor = float(sinkhorn_divergence(batch.x[:16], batch.x[16:], float(eps)))
    assert float(metrics["floor"]) == pytest.approx(floor, rel=1e-3)
    near = float(sinkhorn_divergence(batch.x[:16], drawn[:16], float(eps)))
    assert float(metrics["half_distance"]) == pytest.approx(near, rel=1e-3)


def test_the_slope_by_a_shift_is_twice_the_distance_of_the_means_at_any_eps(data: Any) -> None:
    batch = batch_of(data)
    for eps in (0.02, 1.0):
        model = cr.models.build("sinkhorn-generator", data, eps=eps, **{**TOY, "depth": 0})
        slope = eqx.filter_jit(eqx.filter_grad(lambda m: m.loss(batch, KEY)[0]))(model)
        drawn = model.generate(jax.random.normal(cr.core.random.named(KEY, "noise"), (32, 2)))
        expected = 2 * (np.asarray(drawn).mean(axis=0) - np.asarray(batch.x).mean(axis=0))
        np.testing.assert_allclose(slope.generator.network.layers[-1].bias, expected, atol=5e-3)


def test_eps_falls_from_the_mean_cost_to_its_share_in_the_first_part_of_a_run(data: Any) -> None:
    model = cr.models.build("sinkhorn-generator", data, **TOY)
    batch = batch_of(data)
    mean = np.square(batch.x[:, None] - batch.x[None]).sum(axis=-1).mean()
    found = [
        float(eqx.filter_jit(lambda m, t: m.generator_move(batch, KEY, t)[1]["eps"])(model, jnp.asarray(t)))
        / mean
        for t in (0.0, 0.1, 0.2, 1.0)
    ]
    np.testing.assert_allclose(found, [1.0, 0.05**0.5, 0.05, 0.05], rtol=1e-4)
    given = cr.models.build("sinkhorn-generator", data, eps=0.5, absolute=True, **TOY)
    assert float(given.generator_move(batch, KEY, 0.0)[1]["eps"]) == 0.5


def test_the_entropic_cost_shrinks_what_it_learns_and_the_divergence_does_not() -> None:
    """Of normal data with variance 1 an affine generator keeps 1 - eps/2."""

    def trained(distance: Any) -> float:
        def loss(parameters: jax.Array, key: jax.Array) -> jax.Array:
            one, two = jax.random.split(key)
            x, z = jax.random.normal(one, (128, 1)), jax.random.normal(two, (128, 1))
            return distance(x, parameters[0] + parameters[1] * z, jnp.asarray(0.5), "sqeuclidean").value

        def step(
            carry: tuple[jax.Array, jax.Array], number: jax.Array
        ) -> tuple[tuple[jax.Array, jax.Array], None]:
            parameters, mean = carry
            moved = parameters - 0.1 * jax.grad(loss)(parameters, jax.random.fold_in(KEY, number))
            return (moved, mean + jnp.where(number >= 60, moved / 90, 0.0)), None

        start = (jnp.array([1.0, 0.3]), jnp.zeros(2))
        (_, mean), _ = jax.jit(lambda: jax.lax.scan(step, start, jnp.arange(150)))()
        return float(mean[1] ** 2)

    assert trained(entropic) == pytest.approx(0.75, abs=0.03)
    assert trained(divergence) == pytest.approx(1.0, abs=0.04)


def test_a_point_that_batches_send_to_two_places_lies_between_by_squares_and_at_one_by_distances() -> None:
    """Two of three batches ask for a second point at 0 beside that at 1, one for a second one at 1."""
    often, seldom = jnp.array([[0.0], [0.0], [1.0]]), jnp.array([[0.0], [1.0], [1.0]])
    positions = jnp.linspace(-0.2, 1.2, 141)
    best = {}
    for cost in ("sqeuclidean", "euclidean"):

        def mean(position: jax.Array, cost: str = cost) -> jax.Array:
            y, eps = jnp.stack([jnp.zeros(1), position[None], jnp.ones(1)]), jnp.asarray(1e-3)
            return 2 * divergence(often, y, eps, cost).value + divergence(seldom, y, eps, cost).value

        best[cost] = float(positions[jax.jit(jax.vmap(mean))(positions).argmin()])
    assert best["sqeuclidean"] == pytest.approx(1 / 3, abs=0.011)
    assert best["euclidean"] == pytest.approx(0, abs=0.011)


def test_what_a_move_costs_follows_the_data_and_eps_the_cost(data: Any) -> None:
    def chosen(schema: Any, **settings: Any) -> tuple[str, float]:
        config: Any = cr.models.build("sinkhorn-generator", schema, width=8, channels=4, **settings).config
        return config.cost, config.eps

    assert chosen(data) == ("euclidean", 0.01)
    assert chosen(data, cost="sqeuclidean") == ("sqeuclidean", 0.05)
    assert chosen(data, eps=0.3) == ("euclidean", 0.3)
    assert chosen(cr.data.Schema("image", (8, 8, 1), levels=17)) == ("sqeuclidean", 0.05)


def test_the_sliced_loss_is_the_square_of_the_sliced_distance() -> None:
    x, y = (np.random.default_rng(seed).normal(size=(20, 3)).astype(np.float32) for seed in (0, 1))
    found = float(sliced(jnp.asarray(x), jnp.asarray(y), 64, KEY).value)
    assert found == pytest.approx(float(sliced_distance(KEY, x, y, directions=64)) ** 2, rel=1e-5)
    line = sliced(jnp.asarray(x[:, :1]), jnp.asarray(y[:, :1]), 64, KEY).value
    np.testing.assert_allclose(line, np.square(np.sort(x[:, 0]) - np.sort(y[:, 0])).mean(), rtol=1e-5)


def test_what_the_model_cannot_do_is_said(data: Any, tmp_path: Path) -> None:
    model = cr.models.build("sinkhorn-generator", data, **TOY)
    with pytest.raises(ArgumentError, match=r"batch=1:.*sets of 2 examples or more\n.*batch=64"):
        fit(model, data, runs=tmp_path / "runs", steps=2, batch=1)
    assert not (tmp_path / "runs").exists()
    with pytest.raises(CapabilityError, match="implicit") as error:
        model.log_prob(jnp.zeros((1, 2)))
    assert "chainrule train spline-flow" in str(error.value)
    with pytest.raises(ArgumentError, match="leave the condition out"):
        model.generate(jnp.zeros((1, 2)), condition=0)


def test_plans_that_do_not_converge_raise_an_alarm_with_remedies() -> None:
    history = {
        "step": np.arange(4) * 100,
        "split": np.array(["train"] * 4),
        "marginal_error": np.array([0.0, 0.3, 0.4, 0.5]),
    }
    (alarm,) = diagnostics.alarms(history, 0.3, annealed=True)
    assert "eps=1.2" in alarm.text
    assert "anneal=0.5" in alarm.text
    (alarm,) = diagnostics.alarms(history, 0.3, annealed=False)
    assert "anneal" not in alarm.text
    assert "a lower optimizer.lr" in alarm.text
    images = {**history, "lr": np.array([1e-5, 2e-4, 1e-4, 1e-5])}
    (alarm,) = diagnostics.alarms(images, 1e-6, annealed=False, least=0.01)
    assert "eps=0.01)" in alarm.text
    assert "optimizer.lr=7e-05" in alarm.text
    well = {**history, "marginal_error": np.array([0.3, 0.4, 0.5, 0.01])}
    assert diagnostics.alarms(well, 0.3, annealed=True) == []


def test_reports_of_data_without_held_out_points_and_of_sliced_transport_show_what_there_is() -> None:
    points = cr.data.from_arrays(np.random.default_rng(0).normal(size=(40, 2)))
    whole = dataclasses.replace(points, val=Subset(points.val, np.arange(0)))
    model = cr.models.build("sinkhorn-generator", whole, distance="sliced", **TOY)
    (ways,) = model.pictures(whole, KEY)
    assert set(ways.groups) == {"training", "generated"}
    assert model.generator_move(batch_of(whole, 8), KEY)[1] == {}


def test_a_run_shows_its_floor_and_goes_on_bit_for_bit(data: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 8, "batch": 32, "eval_every": 4, "save_every": 4, "log_every": 2}

    def stop(moment: Any) -> None:
        if moment.step == 4:
            moment.stop("here")

    build = lambda: cr.models.build("sinkhorn-generator", data, **TOY)  # noqa: E731
    whole = fit(build(), data, run=tmp_path / "whole", **settings)
    fit(build(), data, run=tmp_path / "half", callbacks=[stop], **settings)
    again = resume(tmp_path / "half")
    for one, other in zip(*(jax.tree.leaves(run.model_at(8)) for run in (whole, again)), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert {"floor", "half_distance", "eps", "marginal_error"} <= whole.metrics.keys()
    kept = snapshots.kept(whole.path, 10)
    assert kept is not None
    names = {picture.name for group in groups(whole) for picture in group.pictures}
    assert {"distance-and-floor", "eps", "film", "transport-ways", "modes"} <= names
    assert whole.score("val")["loss"].unit == "Sinkhorn divergence"


def test_images_come_from_convolutions_and_stay_between_zero_and_one() -> None:
    digits = cr.data.load("digits")
    model = cr.models.build("sinkhorn-generator", digits, channels=4, latent=3)
    drawn = np.asarray(model.sample(KEY, 3, temperature=5.0))
    assert drawn.shape == (3, 8, 8, 1)
    assert drawn.min() >= 0
    assert drawn.max() <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moons", "ring"])
def test_small_networks_come_within_five_times_what_real_sets_are_apart(name: str, tmp_path: Path) -> None:
    data = cr.data.load(name, n=20_000)
    model = cr.models.build("sinkhorn-generator", data, width=64, cost="sqeuclidean")
    run = fit(model, data, run=tmp_path / "run", steps=1500, batch=128)
    rows = np.asarray(data.train.x)
    sets = [rows[1500 * i : 1500 * (i + 1)] for i in range(5)]
    eps = float(usual_eps(sets[0], sets[1]))
    floor = np.mean([sinkhorn_divergence(sets[i], sets[i + 1], eps) for i in range(4)])
    found = float(sinkhorn_divergence(np.asarray(run.sample(1500)), sets[0], eps))
    assert found <= 5 * floor
    modes = modes_of(data.source)
    if modes is not None:
        assert mode_coverage(run.sample(2500), modes.centres, modes.deviation).covered == 8
