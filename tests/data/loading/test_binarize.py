"""Zeros and ones out of grey."""

from pathlib import Path

import jax
import numpy as np
import pytest

from chainrule.core.errors import DataError
from chainrule.data import check, load
from chainrule.data.splits import Subset

KEY = jax.random.key(1)


def test_digits_in_black_and_white_are_those_above_one_half() -> None:
    grey, black = load("digits"), load("binary-digits")
    assert black.schema.levels == 2
    assert black.scaling.factor == 1.0
    assert np.array_equal(black.train.x, (grey.train.x > 0.5).astype(np.float32))
    assert np.array_equal(black.test.y, grey.test.y)
    assert load("digits", binarize="threshold").hash == black.hash


def test_a_coin_is_decided_by_the_seed_and_has_the_mean_of_the_grey() -> None:
    grey = load("digits", seed=3)
    coin = load("digits", seed=3, binarize="stochastic")
    assert load(**coin.source).hash == coin.hash
    assert load("digits", seed=4, binarize="stochastic").hash != coin.hash
    assert set(np.unique(coin.train.x)) == {0.0, 1.0}
    # 92,000 coins: the standard error of their mean is below 0.0017
    assert abs(coin.train.x.mean() - grey.train.x.mean()) < 0.006
    assert (coin.train.x[grey.train.x == 0] == 0).all()
    assert (coin.train.x[grey.train.x == 1] == 1).all()


def test_bits_of_a_probability_are_its_code_length() -> None:
    data = load("binary-digits")
    nats = 64 * np.log(2.0)
    assert np.isclose(data.bits_per_dim(-nats), 1.0)


def test_tables_of_shares_become_bits_and_other_numbers_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "votes.npz", x=np.array([[0, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 0]] * 5, np.uint8))
    data = load(tmp_path / "votes.npz", binarize="threshold")
    assert (data.schema.kind, data.schema.levels) == ("table", 2)
    assert set(np.unique(data.train.x)) == {0.0, 1.0}
    np.savez(tmp_path / "sizes.npz", x=np.arange(30.0).reshape(10, 3))
    with pytest.raises(DataError, match="binarize takes values between 0 and 1; found values from 0 to 29"):
        load(tmp_path / "sizes.npz", binarize="threshold")
    assert not check(tmp_path / "sizes.npz", binarize="threshold").ok


def test_sequences_have_no_bits(tmp_path: Path) -> None:
    np.savez(tmp_path / "waves.npz", x=np.zeros((10, 5, 1)))
    with pytest.raises(DataError, match="sequence data have no zeros and ones"):
        load(tmp_path / "waves.npz", kind="sequence", binarize="threshold")


def test_dynamic_coins_are_thrown_anew_in_training_and_once_for_all_else() -> None:
    grey, once = load("digits", seed=3), load("digits", seed=3, binarize="stochastic")
    data = load("digits", seed=3, binarize="dynamic")
    assert data.schema.levels == 2
    assert data.hash != once.hash, "training sees other numbers"
    assert load(**data.source).hash == data.hash
    for split in ("train", "val", "test"):
        assert np.array_equal(data.split(split).x, once.split(split).x)
    few = np.arange(40)
    throw = jax.jit(lambda key: data.train.fresh(data.train.arrays, few, key).x)
    thrown = np.stack([np.asarray(throw(key)) for key in jax.random.split(jax.random.key(0), 100)])
    assert set(np.unique(thrown)) == {0.0, 1.0}
    assert not np.array_equal(thrown[0], thrown[1])
    np.testing.assert_allclose(thrown.mean(axis=0), grey.train.x[few], atol=0.25)  # five standard errors
    assert np.array_equal(Subset(data.train, few).fresh(data.train.arrays, few, KEY).x, throw(KEY))
    assert Subset(data.train, few).changes
