"""Typical sets: known sizes, enumeration, numbers of members and back, and draws."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule import information as I
from chainrule.core.errors import ArgumentError


@pytest.mark.parametrize(
    ("n", "fewest", "most", "probability", "bits"),
    [(100, 7, 13, 0.758968, 0.528859), (1000, 69, 131, 0.999060, 0.555667)],
)
def test_a_biased_coin_has_its_known_typical_set(n, fewest, most, probability, bits) -> None:
    found = I.typical_set([0.9, 0.1], n, 0.1)
    assert found.entropy == pytest.approx(0.468996, abs=1e-6)
    assert sorted(found.types[:, 1].tolist()) == list(range(fewest, most + 1))
    assert found.probability == pytest.approx(probability, abs=1e-6)
    assert found.log2_size / n == pytest.approx(bits, abs=1e-6)
    assert found.lower_bound <= found.log2_size <= found.bound


@pytest.mark.parametrize("p", [(0.6, 0.3, 0.1), (0.5, 0.0, 0.5), (0.7, 0.3), (1.0,)])
def test_sets_are_what_going_through_all_sequences_finds(p) -> None:
    n, eps = 6, 0.25
    found = I.typical_set(p, n, eps)
    entropy = I.entropy(p)
    members, mass = [], 0.0
    for sequence in itertools.product(range(len(p)), repeat=n):
        chance = np.prod([p[k] for k in sequence])
        if chance > 0 and abs(-np.log2(chance) / n - entropy) <= eps + 1e-12:
            members.append(sequence)
            mass += chance
        assert (np.array(sequence) in found) == (bool(members) and members[-1] == sequence)
    assert found.size == len(members)
    assert found.probability == pytest.approx(mass)
    numbers = [found.rank(np.array(member)) for member in members]
    assert sorted(numbers) == list(range(found.size))
    for number, member in zip(numbers, members, strict=True):
        assert tuple(found.unrank(number)) == member


@given(st.integers(0, 10**6))
def test_a_number_of_any_length_comes_back(seed: int) -> None:
    found = I.typical_set([0.8, 0.15, 0.05], 60, 0.2)
    number = int(np.random.default_rng(seed).integers(2**62)) * 2**40 % found.size
    assert found.rank(found.unrank(number)) == number


def test_draws_are_members_and_all_of_them_are_drawn() -> None:
    found = I.typical_set([0.75, 0.25], 4, 0.1)
    drawn = found.sample(jax.random.key(0), 100)
    assert drawn.shape == (100, 4)
    assert {found.rank(one) for one in drawn} == set(range(found.size))


def test_random_sequences_become_typical() -> None:
    p = np.array([0.6, 0.3, 0.1])
    sequence = np.random.default_rng(0).choice(3, 500, p=p)
    found = I.typical_set(p, 500, 0.15)
    assert sequence in found
    assert found.rate(sequence) == pytest.approx(I.entropy(p), abs=0.15)


def test_a_set_is_shown_without_its_long_numbers() -> None:
    assert (
        len(
            repr(I.typical_set([0.9, 0.1], 300, 0.1)).replace(
                str(I.typical_set([0.9, 0.1], 300, 0.1).size), ""
            )
        )
        < 200
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: I.typical_set([0.9, 0.2], 10, 0.1), "0.1 above 1"),
        (lambda: I.typical_set([0.9, 0.1], 0, 0.1), "whole number of at least 1"),
        (lambda: I.typical_set([0.9, 0.1], 10, 0), "positive number of bits"),
        (lambda: I.typical_set(np.full(30, 1 / 30), 100, 0.1), "type classes, more than"),
        (lambda: I.typical_set([0.9, 0.1], 100, 0.1).rank(np.ones(100, int)), "is not typical"),
        (lambda: I.typical_set([0.9, 0.1], 100, 0.1).rank([0, 1]), "needs 100 whole numbers"),
        (lambda: I.typical_set([0.9, 0.1], 2, 2).rank([0, 2]), "numbered 0 to 1"),
        (lambda: I.typical_set([0.9, 0.1], 2, 0.01).sample(jax.random.key(0)), "the set is empty"),
        (lambda: I.typical_set([0.5, 0.5], 2, 0.1).unrank(4), "4 members are numbered from 0"),
    ],
)
def test_what_cannot_be_is_said(call, message) -> None:
    with pytest.raises(ArgumentError, match=message):
        call()
