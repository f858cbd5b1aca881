"""Two domains in one training set: equal halves, hidden targets, common units, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, ChainruleWarning, DataError
from chainrule.data import Data, Rows, Scaling, Schema, from_arrays, with_target
from chainrule.data.domains import few_of, in_units, pooled, training_split


def domain(
    name: str, n: int, *, classes: tuple[str, ...] = ("a", "b"), scale: float = 1.0, shift: float = 0.0
) -> Data:
    """Points whose first coordinate is their number, standardised as data sources do it."""
    x = np.stack([np.arange(n), np.arange(n) % 2], axis=1).astype(np.float32)
    scaling = Scaling(shift, scale)
    y = (np.arange(n) % 2).astype(np.int32)
    rows = Rows({"x": scaling.apply(x), "y": y})
    schema = Schema("points", (2,), target="class", classes=classes)
    return Data(name, schema, rows, rows, rows, scaling, None, name, {})


def test_every_example_comes_beside_one_of_the_other_domain_and_the_smaller_is_cycled() -> None:
    for first, second in ((12, 5), (5, 12)):
        split = training_split(with_target(domain("s", first), domain("t", second)))
        assert len(split) == 12
        batch = split.batch(np.arange(12))
        own = np.bincount(batch.x[:, 0].astype(int), minlength=first)
        beside = np.bincount(batch.y.x[:, 0].astype(int), minlength=second)
        assert max(np.ptp(own), np.ptp(beside)) <= 1
        np.testing.assert_array_equal(batch.y.y, batch.x[:, 1])


def test_targets_of_the_other_domain_are_not_in_what_training_sees() -> None:
    pair = with_target(domain("s", 6), domain("t", 8))
    split = training_split(pair)
    assert sorted(split.arrays) == ["other.known", "other.order", "other.x", "x", "y"]
    assert (split.batch(np.arange(8)).y.known == -1).all()
    assert len(pair.val) == 6


def test_few_targets_are_given_for_as_many_of_each_class() -> None:
    pair = with_target(domain("s", 6), domain("t", 8), labels=4)
    split = training_split(pair)
    known = split.arrays["other.known"]
    assert sorted(known[known >= 0].tolist()) == [0, 0, 1, 1]
    assert len(few_of(domain("t", 9).train, 3)) == 3


def test_the_other_domain_is_brought_to_the_units_and_class_numbers_of_the_first() -> None:
    source = domain("s", 6, scale=2.0, shift=1.0)
    target = domain("t", 6, classes=("b", "a"), scale=0.5, shift=-3.0)
    other = with_target(source, target).other
    assert other is not None
    np.testing.assert_allclose(other.train.x, source.train.x, rtol=1e-6)
    np.testing.assert_array_equal(other.train.y, 1 - np.asarray(target.train.y))
    np.testing.assert_allclose(in_units(target, source).train.x, source.train.x, rtol=1e-6)


def test_several_domains_are_pooled_in_the_units_of_the_first() -> None:
    both = pooled([domain("s", 4), domain("t", 3, scale=4.0)])
    np.testing.assert_allclose(both.train.x[:, 0], [0, 1, 2, 3, 0, 1, 2], atol=1e-6)
    assert both.name == "s + t"


@pytest.mark.parametrize(
    ("change", "labels", "error", "message"),
    [
        ({"shape": (3,)}, 0, DataError, "one network reads both"),
        ({"classes": ("A", "B")}, 0, DataError, "differ in their spelling only: A = a, B = b"),
        ({"classes": ("a", "c")}, 0, DataError, "t has classes that s has not: c"),
        ({}, 9, ArgumentError, "t has 4 training examples"),
        ({}, -1, ArgumentError, "0 or more"),
    ],
)
def test_domains_that_do_not_fit_are_refused(
    change: dict[str, Any], labels: int, error: type[Exception], message: str
) -> None:
    target = domain("t", 4)
    target = replace(target, schema=replace(target.schema, **change))
    with pytest.raises(error, match=message):
        with_target(domain("s", 4), target, labels=labels)


def images(name: str, channels: int, levels: int = 256) -> Data:
    x = np.random.default_rng(channels).integers(0, levels, (40, 4, 4, channels), dtype=np.uint8)
    return from_arrays(x, np.array(["a", "b"])[np.arange(40) % 2], name=name, levels=levels)


@pytest.mark.parametrize("channels", [(1, 3), (3, 1)])
def test_grey_images_go_beside_images_in_colour(channels: tuple[int, int]) -> None:
    source, target = (images(f"{n} channels", n) for n in channels)
    pair = with_target(source, target)
    assert pair.schema.shape == (4, 4, 3)
    batch = training_split(pair).batch(np.arange(5))
    assert batch.x.shape == batch.y.x.shape == (5, 4, 4, 3)
    grey, given = (batch.x, source) if channels[0] == 1 else (pair.other.train.x[:5], target)  # type: ignore[union-attr]
    np.testing.assert_array_equal(np.asarray(grey), np.repeat(np.asarray(given.train.x[:5]), 3, axis=-1))


def test_remedies_name_what_differs() -> None:
    with pytest.raises(DataError, match="one network reads both") as caught:
        with_target(images("s", 1), images("t", 1, levels=17))
    assert caught.value.remedy == "take both in 256 levels"
    with pytest.raises(DataError, match="one network reads both") as caught:
        with_target(images("s", 1), domain("t", 8))
    assert caught.value.remedy == "take two sources of one kind"


def test_the_same_examples_twice_are_remarked() -> None:
    same = images("s", 1)
    with pytest.warns(ChainruleWarning, match="nothing to transfer"):
        with_target(same, same)


def test_a_third_domain_is_refused() -> None:
    pair = with_target(domain("s", 4), domain("t", 4))
    with pytest.raises(ArgumentError, match="another domain beside it already"):
        with_target(pair, domain("u", 4))


def test_columns_are_matched_by_name() -> None:
    x = np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
    source = from_arrays(x, kind="table")
    turned = from_arrays(2 * x[:, ::-1], kind="table")
    columns = source.schema.columns or ("age", "height")
    source = replace(source, schema=replace(source.schema, columns=columns))
    turned = replace(turned, schema=replace(turned.schema, columns=columns[::-1]))
    found = in_units(turned, source)
    assert found.schema.columns == columns
    np.testing.assert_allclose(
        found.scaling.inverse(found.train.x), 2 * source.scaling.inverse(source.train.x), rtol=1e-5
    )
    lacking = replace(turned, schema=replace(turned.schema, columns=("age", "weight")))
    with pytest.raises(DataError, match="differ"):
        with_target(source, lacking)
