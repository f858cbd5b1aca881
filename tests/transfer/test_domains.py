"""Domain pairs: equal halves, labels that stay away from training, and what is refused."""

import warnings
from typing import Any

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleWarning, DataError
from chainrule.data import Data, from_arrays, load
from chainrule.transfer import DomainPair


@pytest.fixture(scope="module")
def source() -> Data:
    return load("moons", n=200)


@pytest.fixture(scope="module")
def target() -> Data:
    return load("rotated-moons", n=60, seed=1)


def named(classes: list[str], seed: int = 0, features: int = 3) -> Data:
    rng = np.random.default_rng(seed)
    y = np.array(classes * 20)
    return from_arrays(rng.normal(size=(len(y), features)), y, name=f"data {seed}")


def test_batches_are_equal_halves_and_the_smaller_domain_comes_again(source: Data, target: Data) -> None:
    pair = DomainPair(source, target)
    first, second = pair.batches(32, seed=3).indices(0, 10)
    assert first.shape == second.shape == (10, 16)
    assert len(np.unique(first)) == len(first.ravel()) == len(source.train)
    # 160 draws from 48 rows: each comes three or four times.
    assert set(np.bincount(second.ravel(), minlength=len(target.train)).tolist()) == {3, 4}
    batch = next(pair.loader(32))
    assert batch.domains.tolist() == [0] * 16 + [1] * 16
    assert batch.source.y is not None


@pytest.mark.parametrize("labels", ["none", "eval"])
def test_withheld_labels_are_gone_and_asking_for_them_raises(source: Data, target: Data, labels: str) -> None:
    pair = DomainPair(source, target, target_labels=labels)
    for split in (pair.target.train, pair.target.val, pair.target.test):
        assert "y" not in split.arrays
        assert split.batch([0]).y is None
        assert split.gather(target.train.arrays, np.array([0])).y is None
        with pytest.raises(CapabilityError, match="withheld: they are there to judge by"):
            _ = split.y
    assert next(pair.loader(8)).target.y is None
    assert pair.few is None


def test_labels_for_evaluation_judge_and_do_nothing_else(source: Data, target: Data) -> None:
    pair = DomainPair(source, target, target_labels="eval")
    truth = np.asarray(target.test.y)
    perfect = pair.evaluate(truth)
    assert (perfect.value, perfect.error, perfect.examples) == (1.0, 0.0, len(truth))
    assert pair.evaluate(np.eye(2)[1 - truth]).value == 0.0
    with pytest.raises(ArgumentError, match="5 predictions for 6 target examples of test"):
        pair.evaluate(np.zeros(5))
    with pytest.raises(ArgumentError, match='split must be "train", "val" or "test"'):
        pair.evaluate(truth, "tests")
    with pytest.raises(ArgumentError, match="predicted holds 2"):
        pair.evaluate(truth + 1)
    with pytest.raises(ArgumentError, match="the source has 2 classes"):
        pair.evaluate(np.ones((6, 3)))
    with pytest.raises(CapabilityError, match="no labels to judge by"):
        DomainPair(source, target).evaluate(truth)


def test_a_few_labels_may_be_learnt_from_and_their_rows_leave_the_rest(source: Data, target: Data) -> None:
    pair = DomainPair(source, target, target_labels="few", few=3)
    assert pair.few is not None
    assert np.bincount(pair.few.y).tolist() == [3, 3]
    assert len(pair.few) + len(pair.target.train) == len(target.train)
    rest = {tuple(row) for row in np.asarray(pair.target.train.x).tolist()}
    assert rest.isdisjoint(map(tuple, np.asarray(pair.few.x).tolist()))
    assert pair.evaluate(np.zeros(len(pair.target.train)), "train").examples == len(pair.target.train)


def test_a_table_is_put_into_the_units_and_the_order_of_the_source() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal([5.0, -3.0, 0.0], [2.0, 1.0, 9.0], size=(80, 3))
    y = np.arange(80) % 2
    first, second = from_arrays(x, y), from_arrays(3 * x + 7, y, seed=1)
    pair = DomainPair(first, second, target_labels="eval")
    raw = first.scaling.inverse(np.asarray(pair.target.train.x, np.float64))
    np.testing.assert_allclose(raw, second.scaling.inverse(np.asarray(second.train.x, np.float64)), rtol=1e-4)
    assert abs(float(np.asarray(pair.target.train.x)[:, 0].mean())) > 3


def test_classes_that_differ_by_case_or_order_need_to_be_mapped() -> None:
    first, second = named(["cat", "dog"]), named(["Dog", "Cat"], seed=1)
    with pytest.raises(DataError, match=r"case or order only\n.*Cat → cat, Dog → dog.*label_map="):
        DomainPair(first, second, target_labels="eval")
    pair = DomainPair(first, second, target_labels="eval", label_map="names")
    assert pair.shared_task
    truth = np.asarray(second.test.y)  # "Cat" is 0 in both after sorting
    assert pair.evaluate(truth).value == 1.0
    turned = DomainPair(first, second, target_labels="eval", label_map={"Cat": "dog", "Dog": "cat"})
    assert turned.evaluate(truth).value == 0.0


def test_other_classes_are_no_shared_task() -> None:
    pair = DomainPair(named(["cat", "dog"]), named(["bird", "fish"], seed=1))
    assert not pair.shared_task
    with pytest.raises(CapabilityError, match="dann assumes one task: the source has the classes cat, dog"):
        pair.require_shared_task("dann")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_labels": "all"}, 'target_labels must be "none", "few" or "eval"'),
        ({"label_map": {"upper": "above", "lower": "lower"}}, "'above', which is no class of the source"),
        ({"label_map": {"upper": "upper"}}, "target class 'lower' is not in it"),
        ({"few": 0, "target_labels": "few"}, "few must be a whole number of at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    source: Data, target: Data, change: dict[str, Any], message: str
) -> None:
    with pytest.raises((ArgumentError, DataError), match=message):
        DomainPair(source, target, **change)


def test_half_a_batch_must_fit_the_smaller_domain(source: Data, target: Data) -> None:
    with pytest.raises(ArgumentError, match=r"48 training examples, half a batch is 64\n.*use size=96"):
        DomainPair(source, target).batches(128)
    with pytest.raises(ArgumentError, match="halves of a batch are equal"):
        DomainPair(source, target).batches(33)


def test_some_examples_of_the_target_stay_without_labels(source: Data, target: Data) -> None:
    with pytest.raises(ArgumentError, match=r"few=1000\): .* has 48 training examples, all"):
        DomainPair(source, target, target_labels="few", few=1000)


def test_inputs_of_other_shapes_need_two_networks(source: Data) -> None:
    other = named(["upper", "lower"])
    with pytest.raises(
        DataError, match=r"holds points of 2, data 0 .* of 3: one network.*\n.*extractors=\"separate\""
    ):
        DomainPair(source, other)
    DomainPair(source, load("digits"), extractors="separate")


def test_the_same_examples_as_both_domains_are_worth_a_warning(source: Data) -> None:
    with pytest.warns(ChainruleWarning, match="the same examples"):
        DomainPair(source, load("moons", n=200))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DomainPair(source, load("moons", n=200, seed=1))


def test_labels_that_are_not_there_cannot_judge(source: Data) -> None:
    bare = from_arrays(np.random.default_rng(0).normal(size=(40, 2)))
    with pytest.raises(DataError, match="has no labels"):
        DomainPair(source, bare, target_labels="eval")
    assert DomainPair(source, bare).shared_task
