import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.core.errors import ArgumentError, DataError
from chainrule.data import check, from_arrays, load
from chainrule.data.division import check_shares, complete, divide, sizes


@given(
    examples=st.integers(3, 300),
    classes=st.integers(1, 7),
    shares=st.tuples(st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0.05, 1)),
    seed=st.integers(0, 2**32),
)
def test_every_example_is_in_exactly_one_split_and_classes_keep_their_shares(
    examples: int, classes: int, shares: tuple[float, float, float], seed: int
) -> None:
    shares = tuple(share / sum(shares) for share in shares)
    labels = np.random.default_rng(seed).integers(0, classes, examples)
    parts = divide(examples, shares, seed, labels)
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(examples))
    assert [len(part) for part in parts] == sizes(examples, shares)
    assert min(len(part) for part in parts) >= 1
    for name in range(classes):
        members = np.sum(labels == name)
        for part in parts:
            assert abs(np.sum(labels[part] == name) - members * len(part) / examples) <= 2


def test_a_division_is_fixed_by_its_seed_for_ever() -> None:
    train, val, test = divide(20, (0.8, 0.1, 0.1), seed=7)
    assert (val.tolist(), test.tolist()) == ([3, 18], [1, 7])
    assert len(train) == 16
    assert divide(20, (0.8, 0.1, 0.1), seed=8)[1].tolist() != val.tolist()


def test_rare_classes_reach_training_first() -> None:
    labels = np.array([0] * 50 + [1, 1] + [2])
    for seed in range(20):
        train = divide(53, (0.8, 0.1, 0.1), seed, labels)[0]
        assert set(labels[train]) == {0, 1, 2}


def test_splits_of_the_digits_are_stratified_and_depend_on_the_seed() -> None:
    one, same, other = load("digits"), load("digits"), load("digits", seed=1)
    assert np.array_equal(one.val.arrays["x"], same.val.arrays["x"])
    assert not np.array_equal(one.val.arrays["x"], other.val.arrays["x"])
    assert one.hash == other.hash
    counts = np.stack([np.bincount(s.y, minlength=10) / len(s) for s in (one.train, one.val, one.test)])
    assert np.ptp(counts, axis=0).max() < 0.01


def test_an_official_division_is_kept_and_completed() -> None:
    parts = np.repeat([0, 2], [90, 10])
    train, val, test = complete(parts, (0.8, 0.1, 0.1), seed=0)
    assert test.tolist() == list(range(90, 100))
    assert (len(train), len(val)) == (80, 10)
    assert np.array_equal(np.sort(np.concatenate([train, val])), np.arange(90))
    everything = complete(np.repeat([0, 1, 2], [5, 3, 2]), (0.8, 0.1, 0.1), seed=0)
    assert [len(part) for part in everything] == [5, 3, 2]


@pytest.mark.parametrize("split", [(0.8, 0.2), (0.8, 0.3, 0.1), (1.0, 0.0, 0.0), (1.2, -0.1, -0.1)])
def test_shares_must_be_three_positive_numbers_that_add_up_to_one(split: tuple[float, ...]) -> None:
    with pytest.raises(ArgumentError, match="split must be three positive numbers that add up to 1"):
        load("moons", split=split)


def test_too_few_examples_are_refused() -> None:
    assert [len(part) for part in divide(3, (0.8, 0.1, 0.1), 0)] == [1, 1, 1]
    with pytest.raises(DataError, match="2 examples cannot be divided into 3 parts"):
        divide(2, (0.8, 0.1, 0.1), 0)


def test_a_training_split_of_one_class_is_refused() -> None:
    with pytest.raises(DataError, match="10 examples leave only one class for training"):
        load("xor", n=10, split=(0.1, 0.6, 0.3))


def test_shares_from_a_file_are_as_good_as_shares_from_code() -> None:
    assert check_shares([0.5, 0.25, 0.25]) == (0.5, 0.25, 0.25)
    for wrong in (0.8, "0.8,0.1,0.1", [0.8, 0.1, "0.1"], [0.8, 0.1, 0.1, "x"]):
        with pytest.raises(ArgumentError, match="three positive numbers"):
            check_shares(wrong)


def test_the_test_part_may_be_left_out() -> None:
    data = load("moons", split=(0.9, 0.1, 0))
    assert (len(data.train), len(data.val), len(data.test)) == (3600, 400, 0)
    assert data.describe().endswith("train 90 % / val 10 % / no test")
    assert data.examples("val") is data.val
    with pytest.raises(ArgumentError, match=r"the test split of moons has no examples\n.*split=val"):
        data.examples("test")
    assert load(**data.source).hash == data.hash == load("moons").hash
    given = complete(np.repeat([0, 2], [90, 10]), (0.9, 0.1, 0.0), seed=0)
    assert [len(part) for part in given] == [81, 9, 10]


@pytest.mark.parametrize("options", [{}, {"packing": True}, {"tokenizer": "word"}])
def test_texts_may_lack_a_test_part(options: dict[str, Any]) -> None:
    data = load("shakespeare", window=16, split=(0.9, 0.1, 0), **options)
    assert len(data.train) > len(data.val) > len(data.test) == 0


def test_a_class_that_training_lacks_is_refused() -> None:
    x = np.random.default_rng(0).normal(size=(30, 3))
    y = np.repeat([0, 1, 2], [15, 14, 1])
    with pytest.raises(
        DataError, match=r"class '2' \(1 example\) is in validation or test and not in training"
    ):
        from_arrays(x, y, split=(0.3, 0.5, 0.2))
    assert len(from_arrays(x, y, split=(0.6, 0.2, 0.2)).schema.classes) == 3


def test_a_check_finds_what_cannot_be_divided(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(30, 3))
    np.savez(tmp_path / "a.npz", x=x, y=np.repeat([0, 1, 2], [15, 14, 1]))
    assert check(tmp_path / "a.npz").ok
    found = check(tmp_path / "a.npz", split=(0.3, 0.5, 0.2)).problems[0]
    assert (found.kind, found.effect) == ("cannot be divided", "stop")
    assert "class '2' (1 example) is in validation or test" in found.items[0].detail


def test_a_class_of_the_official_test_set_alone_is_refused(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    file = tmp_path / "parts.npz"
    np.savez(file, x_train=x, y_train=np.arange(40) % 2, x_test=x[:6], y_test=np.arange(6) % 3)
    with pytest.raises(
        DataError, match=r"class '2' is in validation or test and not in training.*\n.*add training"
    ):
        load(file)
    assert [(group.kind, group.effect) for group in check(file).problems] == [
        ("class without training", "stop")
    ]


def test_what_is_held_out_is_said_where_it_is_not_the_test_split() -> None:
    whole, untested = load("digits"), load("digits", split=(0.9, 0.1, 0))
    assert whole.held_out() == (whole.test, [])
    part, said = untested.held_out()
    assert part is untested.val
    assert said == ["The examples are those of validation: digits has no test split."]


def test_data_are_printed_in_a_line() -> None:
    digits = load("digits")
    assert repr(digits).startswith("Data('digits': 1,797 images")
    assert re.fullmatch(
        r"Rows\([\d,]+ examples, x \w+ \(\d+, 8, 8, 1\), y \w+ \(\d+,\)\)", repr(digits.train)
    )
    text = load("shakespeare")
    assert all(len(repr(one)) < 200 for one in (text, text.train, text.val, digits.test))
    assert repr(text.train).startswith("Windows(")
