"""The compiled training step against hand-written loops: batches, rates, clipping, averages, accumulation, state."""

import subprocess
import sys
from pathlib import Path
from typing import final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, DivergedError
from chainrule.core.types import Array, Key, Scalar
from chainrule.data import Batch, Batches, Data, load
from chainrule.data.batches import predicted
from chainrule.data.text.packing import pack
from chainrule.models.protocol import Metrics, Model
from chainrule.train import overfit_one_batch
from chainrule.train.config import TrainConfig
from chainrule.train.micro_batches import _weight
from chainrule.train.optimizers import matrices
from tests.train.toys import Averager, Mean, Picture, blobs, leaves, numbers, rows, train

STEPS, BATCH, LR = 12, 16, 0.1


def centers(data: Data, steps: int = STEPS, batch: int = BATCH) -> np.ndarray:
    """The mean of the batch of every step, in double precision."""
    index = Batches(len(data.train), batch, seed=0).indices(0, steps)
    return data.train.arrays["x"].astype(np.float64)[index].mean(axis=1)


def descend(data: Data, rates: np.ndarray, clip: float = np.inf) -> tuple[np.ndarray, np.ndarray]:
    """The weights of `Mean` before every step and after the last, and the gradient norms, by hand."""
    w, path, norms = np.ones(3), [], []
    for rate, center in zip(rates, centers(data), strict=True):
        path.append(w)
        gradient = w - center
        norms.append(np.linalg.norm(gradient))
        w = w - rate * gradient * min(1, clip / norms[-1])
    return np.array([*path, w]), np.array(norms)


@pytest.fixture(scope="module")
def data() -> Data:
    return numbers(50)


@pytest.fixture(scope="module")
def plain(data: Data) -> tuple:
    return train(Mean(jnp.ones(3)), data, STEPS, ema=0.9, rate=lambda step: 1 / (1 + step))


def test_steps_take_the_batches_and_rates_of_their_numbers(data: Data, plain: tuple) -> None:
    model, seen, state = plain
    rates = LR / (1 + np.arange(STEPS))
    path, norms = descend(data, rates)
    np.testing.assert_allclose(model.w, path[-1], rtol=1e-5)
    np.testing.assert_allclose(seen["lr"], rates, rtol=1e-6)
    np.testing.assert_allclose(seen["grad_norm"], norms, rtol=1e-4)
    assert int(state.step) == STEPS


def test_losses_and_metrics_are_those_before_each_step(data: Data, plain: tuple) -> None:
    _, seen, _ = plain
    path, _ = descend(data, LR / (1 + np.arange(STEPS)))
    index = Batches(len(data.train), BATCH, seed=0).indices(0, STEPS)
    x = data.train.arrays["x"].astype(np.float64)[index]
    losses = np.square(x - path[:-1, None, :]).sum(axis=2).mean(axis=1) / 2
    np.testing.assert_allclose(seen["loss"], losses, rtol=1e-5)
    np.testing.assert_allclose(seen["first"], path[:-1, 0], rtol=1e-4, atol=1e-6)


def test_averaged_weights_follow_their_recursion_with_warm_up(data: Data, plain: tuple) -> None:
    path, _ = descend(data, LR / (1 + np.arange(STEPS)))
    average = path[0]
    for t, w in enumerate(path[1:]):
        decay = min(0.9, (1 + t) / (10 + t))
        average = decay * average + (1 - decay) * w
    np.testing.assert_allclose(plain[2].ema.w, average, rtol=1e-5)


def test_without_averaging_the_state_holds_no_averages(data: Data) -> None:
    _, _, state = train(Mean(jnp.ones(3)), data, 1)
    assert state.ema is None


def test_gradients_are_clipped_and_their_norm_is_reported_as_it_was(data: Data) -> None:
    settings = {"name": "sgd", "lr": LR, "clip": 1.2}
    model, seen, _ = train(Mean(jnp.ones(3)), data, STEPS, optimizer=settings)
    path, norms = descend(data, np.full(STEPS, LR), clip=1.2)
    assert norms.min() < 1.2 < norms.max()
    np.testing.assert_allclose(model.w, path[-1], rtol=1e-5)
    np.testing.assert_allclose(seen["grad_norm"], norms, rtol=1e-4)
    np.testing.assert_array_equal(seen["clip_rate"], norms > 1.2)


@pytest.fixture(scope="module")
def whole() -> tuple:
    """A perceptron with dropout trained in one stretch, so that every kind of randomness is at work."""
    return train(perceptron(dropout=0.3), blobs(), 10, optimizer={"name": "adam", "lr": 0.01})


def perceptron(**settings: object) -> eqx.Module:
    return models.build("mlp", blobs(), **{"width": 8, "depth": 2, "dropout": 0.0, **settings})


@pytest.mark.parametrize("variant", [{"stretches": (3, 1, 6)}, {"resident": False}])
def test_however_steps_are_cut_into_calls_and_data_reach_the_device_the_bits_are_the_same(
    variant: dict, whole: tuple
) -> None:
    other = train(perceptron(dropout=0.3), blobs(), 10, optimizer={"name": "adam", "lr": 0.01}, **variant)
    assert leaves(whole[2]).keys() == leaves(other[2]).keys()
    for name, leaf in leaves(whole[2]).items():
        np.testing.assert_array_equal(leaves(other[2])[name], leaf, err_msg=name)
    for name, values in whole[1].items():
        np.testing.assert_array_equal(other[1][name], values, err_msg=name)


def test_the_model_that_was_given_is_not_used_up(data: Data) -> None:
    model = Mean(jnp.ones(3))
    train(model, data, 2)
    np.testing.assert_array_equal(model.w, np.ones(3))


@pytest.fixture(scope="module")
def in_one_piece() -> tuple:
    return train(perceptron(), blobs(), 5, batch=64, optimizer={"name": "adam", "lr": 0.01})


@pytest.mark.parametrize("pieces", [4, 5, 7])
def test_micro_batches_of_any_size_are_one_batch_of_sixty_four(in_one_piece: tuple, pieces: int) -> None:
    one, seen, _ = in_one_piece
    settings = {"batch": 64, "optimizer": {"name": "adam", "lr": 0.01}}
    other, seen_other, _ = train(perceptron(), blobs(), 5, accumulate=pieces, **settings)
    for name, leaf in leaves(one).items():
        np.testing.assert_allclose(leaves(other)[name], leaf, rtol=1e-5, atol=1e-6, err_msg=name)
    for name in ("loss", "accuracy", "grad_norm"):
        np.testing.assert_allclose(seen_other[name], seen[name], rtol=1e-5, err_msg=name)


def test_micro_batches_of_documents_count_for_the_tokens_they_predict() -> None:
    split = pack([np.arange(n, dtype=np.uint8) % 5 for n in (10, 2, 2, 2)], 9, bytes=16)
    counts = [predicted(split.batch([row]).documents).sum() for row in (0, 1)]
    assert sorted(counts) == [3, 9]
    np.testing.assert_array_equal([_weight(split.batch([row]), 1) for row in (0, 1)], counts)


def test_batch_statistics_are_those_of_each_micro_batch_as_the_setting_says() -> None:
    assert "batch statistics are those of each micro-batch" in (
        TrainConfig.model_fields["accumulate"].description or ""
    )
    model = perceptron(normalization="batch")
    data = blobs()
    trained, seen, _ = train(model, data, 1, accumulate=4, batch=64)
    block = model.blocks[0]
    x = data.train.arrays["x"][Batches(len(data.train), 64, seed=0).indices(0, 1)[0]].reshape(4, 16, 2)
    hidden = x @ np.asarray(block.linear.weight) + np.asarray(block.linear.bias)
    mean = np.zeros(8)
    for piece in hidden:
        mean = 0.9 * mean + 0.1 * piece.mean(axis=0)
    np.testing.assert_allclose(trained.blocks[0].norm.mean, mean, rtol=1e-4)
    whole = train(model, data, 1, batch=64)[1]
    assert abs(float(whole["loss"][0]) - float(seen["loss"][0])) > 1e-4


def test_more_pieces_than_examples_are_refused(data: Data) -> None:
    with pytest.raises(ArgumentError, match="accumulate=17: a batch of 16 has no 17 micro-batches") as raised:
        train(Mean(jnp.ones(3)), data, 1, accumulate=17)
    assert "accumulate=16" in raised.value.remedy


@final
class Bowl(Model):
    """`(w - goal) H (w - goal) / 2` of a column, beside a bias that no penalty may touch."""

    w: Array
    bias: Array

    def loss(self, batch: Batch, key: Key) -> tuple[Scalar, Metrics]:
        off = self.w - GOAL
        return ((off.T @ HESSIAN @ off)[0, 0] + jnp.square(self.bias - 2).sum()) / 2, {}


HESSIAN = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 0.5]], np.float32)
GOAL = np.array([[1.0], [-2.0], [3.0]], np.float32)
BOWL = Bowl(jnp.ones((3, 1)), jnp.zeros(2))


def descended(steps: int = 6, **settings: object) -> tuple[np.ndarray, np.ndarray, dict]:
    model, seen, _ = train(BOWL, numbers(50), steps, optimizer={"lr": LR, **settings})
    return np.asarray(model.w), np.asarray(model.bias), seen


def test_a_penalty_is_decay_for_plain_descent_and_not_with_a_memory() -> None:
    for name in ("sgd", "momentum", "adam"):
        (decayed, bias, _), (penalised, same, seen) = (
            descended(name=name, **{which: 0.3}) for which in ("decay", "l2")
        )
        np.testing.assert_allclose(same, bias, rtol=1e-6)
        assert np.allclose(penalised, decayed, rtol=1e-5, atol=1e-6) == (name == "sgd")
        np.testing.assert_allclose(seen["l2_penalty"][0], 0.3 / 2 * 3, rtol=1e-6)
        start = (np.ones((3, 1)) - GOAL)[:, 0]
        np.testing.assert_allclose(seen["loss"][0], start @ HESSIAN @ start / 2 + 4, rtol=1e-5)


def test_a_penalised_bowl_ends_where_its_eigenvalues_say() -> None:
    w, bias, _ = descended(400, name="sgd", l2=0.3)
    expected = np.linalg.solve(HESSIAN + 0.3 * np.eye(3), HESSIAN @ GOAL)
    np.testing.assert_allclose(w, expected, rtol=1e-4)
    np.testing.assert_allclose(bias, 2.0, rtol=1e-4)


@pytest.mark.parametrize("name", ["alexnet", "cnn", "convnext", "mlp", "resnet", "vgg", "vit"])
def test_decay_and_penalty_leave_out_the_biases_and_scales_of_every_supervised_model(name: str) -> None:
    entry = models.entry(name)
    data = load(entry.toy_data)
    model = eqx.filter_eval_shape(lambda: models.build(name, data, **entry.toy))
    shapes = eqx.filter(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    decays = dict(zip(tree.names(shapes), jax.tree.leaves(matrices(shapes)), strict=True))
    assert {path.rpartition(".")[2] for path, decay in decays.items() if decay} <= {
        "weight",
        "positions",
        "token",
    }
    others = {path.rpartition(".")[2] for path, decay in decays.items() if not decay}
    assert others <= {"bias", "scale", "shift", "mean", "var"}  # the last two are moved by rule


def test_a_batch_larger_than_the_data_is_refused(data: Data) -> None:
    with pytest.raises(
        ArgumentError, match="batch=51: a batch must hold between 1 and 50 examples"
    ) as raised:
        train(Mean(jnp.ones(3)), data, 1, batch=51)
    assert "batch=50" in raised.value.remedy


@pytest.mark.parametrize("shape", [(3,), (4, 3)])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_state_moves_by_its_rule_in_every_shape_and_precision(
    shape: tuple[int, ...], precision: str, data: Data
) -> None:
    model = Averager(jnp.ones(3), jnp.ones(shape))
    settings = {"name": "adamw", "lr": LR, "decay": 0.1}
    trained, _, _ = train(model, data, STEPS, precision=precision, optimizer=settings)
    average = np.ones(3)
    for center in centers(data):
        average = 0.99 * average + 0.01 * center
    assert trained.average.dtype == jnp.float32
    expected = np.broadcast_to(average, shape)
    np.testing.assert_allclose(trained.average, expected, rtol=1e-5 if precision == "float32" else 1e-3)
    assert not np.array_equal(trained.w, np.ones(3))


def test_low_precision_keeps_its_state_in_single_precision_and_learns_alike() -> None:
    settings = {"optimizer": {"name": "adam", "lr": 0.01}, "ema": 0.9}
    high, low = (
        train(perceptron(normalization="batch"), blobs(), 8, precision=precision, **settings)
        for precision in ("float32", "bfloat16")
    )
    for name, leaf in leaves(low[2]).items():
        assert leaf.dtype == leaves(high[2])[name].dtype, name
    np.testing.assert_allclose(low[1]["loss"], high[1]["loss"], rtol=0.05, atol=0.01)
    assert not np.array_equal(low[1]["loss"], high[1]["loss"])
    for kind in ("mean", "var"):
        statistics = (getattr(run[0].blocks[0].norm, kind) for run in (low, high))
        np.testing.assert_allclose(*statistics, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_low_precision_does_not_round_targets(shape: tuple[int, ...]) -> None:
    # 1001 is no bfloat16 number (1000 and 1008 are its neighbours).
    y = np.full((16, *shape), 1001.0, np.float32)
    data = rows(np.zeros((16, 3), np.float32), y, target="value", target_shape=shape)
    model = models.build("mlp", data, depth=1)
    _, seen, _ = train(model, data, 1, precision="bfloat16")
    assert seen["loss"][0] == pytest.approx(1001.0**2, rel=1e-5)


def test_every_draw_depends_on_the_seed() -> None:
    one, other = (train(perceptron(dropout=0.3), blobs(), 2, seed=seed)[1]["loss"] for seed in (0, 1))
    assert not np.array_equal(one, other)


def test_without_shuffling_and_noise_the_seed_changes_nothing(data: Data) -> None:
    losses = [train(Mean(jnp.ones(3)), data, 3, shuffle=False, seed=seed)[1]["loss"] for seed in (0, 5)]
    np.testing.assert_array_equal(*losses)


def test_images_of_a_step_are_changed_by_its_number_alone_and_only_while_training() -> None:
    x = np.random.default_rng(0).normal(size=(40, 4, 5, 1)).astype(np.float32)
    data = rows(x, kind="image")
    model = Picture(jnp.zeros((4, 5, 1)))
    everything = {"flip": True, "crop": 2, "colour": 0.1, "resized_crop": 0.5, "rand_augment": 1}
    settings = {"augment": everything}
    changed, _, _ = train(model, data, 6, **settings)
    in_parts, _, _ = train(model, data, 6, stretches=(2, 1, 3), **settings)
    plain, _, _ = train(model, data, 6)
    np.testing.assert_array_equal(changed.w, in_parts.w)
    assert not np.allclose(changed.w, plain.w)
    for refused, other in (("not images", numbers(50)), ("cannot be moved so far", data)):
        with pytest.raises(ArgumentError, match=refused):
            train(model, other, 1, augment={"crop": 9})


def test_one_batch_is_the_first_one_seen_over_and_over(data: Data) -> None:
    first = data.train.arrays["x"][:BATCH].astype(np.float64)
    w, losses = np.ones(3), []
    for _ in range(5):
        losses.append(np.square(first - w).sum(axis=1).mean() / 2)
        w = w - LR * (w - first.mean(axis=0))
    settings = {"batch": BATCH, "optimizer": {"name": "sgd", "lr": LR}}
    found = overfit_one_batch(Mean(jnp.ones(3)), data, steps=5, **settings)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-5)
    assert found.summary == f"{losses[0]:.4g} to {losses[-1]:.4g} in 5 steps on the same 16 examples"
    with pytest.raises(DivergedError, match="not finite after 0 steps"):
        overfit_one_batch(Mean(jnp.full(3, jnp.nan)), data, steps=5, **settings)


COUNTED = """
import sys, pathlib, jax, jax.numpy as jnp
from chainrule import models
from chainrule.data import Schema
from chainrule.train import TrainConfig, checkpoints
from chainrule.train.state import initial_state

model = models.build("mlp", Schema("points", (3,), target="class", classes=("a", "b")), width=5, depth=2)
config = TrainConfig.parse(optimizer={"name": "sgd", "momentum": 0.0}, ema=0.9)
initial_state(model, config)
other = models.build("mlp", Schema("points", (4,), target="class", classes=("a", "b")), width=7, depth=2)
compiled = []
jax.monitoring.register_event_duration_secs_listener(lambda event, *_, **__: compiled.append(event))
state = initial_state(other, config)
found = checkpoints.save(pathlib.Path(sys.argv[1]), state, 1, {})
checkpoints.load(found, state)
assert not [event for event in compiled if "compile" in event], compiled
"""


@pytest.mark.slow  # a process of its own, where copies are made as users make them
def test_states_of_new_shapes_are_copied_and_read_without_compiling(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", COUNTED, str(tmp_path)], check=True)
