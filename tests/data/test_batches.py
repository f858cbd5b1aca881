import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.core.errors import ArgumentError
from chainrule.data import Batches, Data, Rows, Scaling, Windows, load
from chainrule.data.batches import permute
from chainrule.data.splits import Selected


@given(examples=st.integers(1, 5000), seed=st.integers(0, 2**64 - 1), epoch=st.integers(0, 2**40))
def test_the_shuffle_is_a_bijection_of_any_number_of_examples(examples: int, seed: int, epoch: int) -> None:
    image = permute(np.arange(examples, dtype=np.uint64), examples, seed, epoch)
    assert np.array_equal(np.sort(image), np.arange(examples))


@given(examples=st.integers(1, 60), data=st.data(), seed=st.integers(0, 1000))
def test_every_example_comes_once_per_epoch_whatever_the_batch_size(
    examples: int, data: st.DataObject, seed: int
) -> None:
    size = data.draw(st.integers(1, examples))
    stream = Batches(examples, size, seed).indices(0, 3 * examples).ravel()
    for epoch in stream[: 3 * examples].reshape(3, examples):
        assert np.array_equal(np.sort(epoch), np.arange(examples))


@given(first=st.integers(0, 10**9), count=st.integers(1, 5), seed=st.integers(0, 2**64 - 1))
def test_a_batch_depends_on_seed_and_step_alone(first: int, count: int, seed: int) -> None:
    stream = Batches(1000, 64, seed)
    together = stream.indices(first, count)
    apart = [Batches(1000, 64, seed).indices(first + i, 1)[0] for i in range(count)]
    assert np.array_equal(together, apart)


def test_epochs_and_seeds_differ_in_order() -> None:
    epochs = Batches(200, 200, seed=0).indices(0, 20)
    assert len({tuple(epoch) for epoch in epochs}) == 20
    assert not np.array_equal(Batches(200, 200, seed=1).indices(0, 1), epochs[:1])


def test_without_shuffling_examples_come_in_their_own_order() -> None:
    assert Batches(5, 2, shuffle=False).indices(0, 5).ravel().tolist() == [0, 1, 2, 3, 4] * 2


@pytest.mark.parametrize("examples", [10, 16, 17, 100])
def test_every_example_is_equally_likely_in_every_position(examples: int) -> None:
    epochs = 4000
    order = Batches(examples, examples, seed=3).indices(0, epochs)
    counts = np.stack([np.bincount(order[:, position], minlength=examples) for position in range(examples)])
    expected = epochs / examples
    # The statistic has (examples - 1)^2 degrees of freedom; six standard deviations leave no room for chance.
    freedom = (examples - 1) ** 2
    statistic = np.sum((counts - expected) ** 2 / expected)
    assert abs(statistic - freedom) < 6 * np.sqrt(2 * freedom)


def test_neighbours_in_an_epoch_are_not_neighbours_in_the_data() -> None:
    order = Batches(1000, 1000, seed=0).indices(0, 50).astype(int)
    steps = np.diff(order, axis=1)
    assert np.mean(steps == 1) < 0.002
    assert abs(np.corrcoef(order[:, :-1].ravel(), order[:, 1:].ravel())[0, 1]) < 0.02


def test_the_batch_of_a_late_step_costs_no_replay() -> None:
    assert Batches(10**10, 4).indices(10**9, 1).dtype == np.int64
    assert Batches(10**10, 4).indices(10**9, 1).max() < 10**10


def test_a_batch_must_fit_the_split() -> None:
    with pytest.raises(
        ArgumentError, match=r"batch=11: a batch must hold between 1 and 10 examples.*\n.*batch=10"
    ):
        Batches(10, 11)
    with pytest.raises(ArgumentError, match="there are no examples"):
        Batches(0, 1)


@pytest.mark.parametrize("stride", [1, 5, 13])
def test_windows_are_slices_of_the_text(stride: int) -> None:
    tokens = np.arange(1000, dtype=np.uint16) % 77
    windows = Windows({"tokens": tokens}, 13, stride)
    assert len(windows) == (1000 - 14) // stride + 1
    index = np.array([0, len(windows) - 1, 3, 3])
    expected = np.stack([tokens[stride * i : stride * i + 14] for i in index])
    assert np.array_equal(windows.batch(index).x, expected)


def test_windows_side_by_side_predict_every_symbol_but_the_first_once() -> None:
    x = Windows({"tokens": np.arange(41)}, 8, 8).x
    assert np.array_equal(x[:, 1:].ravel(), np.arange(1, 41))
    assert np.array_equal(x[:, :-1].ravel(), np.arange(40))


def test_a_text_without_room_for_a_window_has_none() -> None:
    assert [len(Windows({"tokens": np.arange(n)}, 3)) for n in (0, 3, 4, 5)] == [0, 0, 1, 2]


@pytest.fixture(name="data", params=["digits", "shakespeare", "moons"])
def _data(request: pytest.FixtureRequest) -> Data:
    return load(request.param)


def test_gathering_on_the_device_equals_gathering_on_the_host(data: Data) -> None:
    index = Batches(len(data.train), 32).indices(5, 1)[0]
    host = data.train.batch(index)
    device = jax.jit(data.train.gather)({k: jnp.asarray(v) for k, v in data.train.arrays.items()}, index)
    assert np.allclose(host.x, device.x, rtol=1e-6)
    assert host.x.dtype == device.x.dtype
    if host.y is not None:
        assert np.array_equal(host.y, device.y)


def test_selected_rows_gather_like_copied_rows() -> None:
    x = np.random.default_rng(0).normal(5, 3, (50, 4))
    rows = np.array([3, 30, 7, 49])
    scaling = Scaling(x.mean(axis=0), 1 / x.std(axis=0))
    copied, selected = Rows({"x": x[rows]}, scaling), Selected({"x": x, "rows": rows}, scaling)
    index = np.array([2, 0, 0, 3])
    assert len(selected) == 4
    assert np.allclose(copied.batch(index).x, selected.batch(index).x, rtol=1e-6)
    arrays = {k: jnp.asarray(v) for k, v in selected.arrays.items()}
    assert np.allclose(jax.jit(selected.gather)(arrays, index).x, selected.batch(index).x, rtol=1e-4)


def test_images_come_back_exactly_from_model_units() -> None:
    data = load("digits")
    assert np.array_equal(data.inverse(data.train.x), data.train.arrays["x"])
    for levels in (2, 17, 256, 65536):
        raw = np.arange(levels, dtype=np.uint16)[:, None]
        scaling = Scaling(0.0, 1 / (levels - 1))
        assert np.array_equal(np.rint(scaling.inverse(scaling.apply(raw))), raw)


def test_classes_take_turns_in_balanced_batches() -> None:
    classes = np.repeat([0, 2, 5], [40, 7, 3])
    stream = Batches(len(classes), 6, seed=3, classes=classes)
    index = stream.indices(0, 35)
    assert (np.sort(classes[index], axis=1) == [0, 0, 2, 2, 5, 5]).all()
    drawn = index.ravel()
    for name in (0, 2, 5):
        own = drawn[classes[drawn] == name]
        size = int((classes == name).sum())
        assert sorted(own[:size]) == np.flatnonzero(classes == name).tolist()
        assert len(own) < 2 * size or own[:size].tolist() != own[size : 2 * size].tolist()
    assert np.array_equal(stream.indices(20, 5), index[20:25])
    assert stream.epoch(25) == 3
    assert not np.array_equal(dataclasses.replace(stream, seed=4).indices(0, 35), index)


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_may_end_with_its_last_full_batch(shuffle: bool) -> None:
    stream = Batches(examples=10, size=4, seed=1, shuffle=shuffle, drop_last=True)
    drawn = stream.indices(0, 6).reshape(3, 8)  # two batches an epoch
    assert all(len(set(epoch)) == 8 for epoch in drawn.tolist())
    assert stream.epoch(6) == 3
    assert stream.steps(3) == 6
    np.testing.assert_array_equal(stream.indices(4, 2), drawn[2].reshape(2, 4))
    if shuffle:
        assert len({frozenset(epoch) for epoch in drawn.tolist()}) > 1  # others are left out in other epochs
