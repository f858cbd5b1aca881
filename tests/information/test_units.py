"""Units of information: by name, or by the base of logarithms, as divergences of `cr.probability` take it."""

import inspect
import math

import numpy as np
import pytest

from chainrule import information
from chainrule.core.errors import ArgumentError

JOINT = np.array([[0.4, 0.1], [0.2, 0.3]])


@pytest.mark.parametrize("name", ["entropy", "mutual_information", "entropy_rate", "conditional_entropy"])
def test_a_base_is_another_word_for_a_unit(name: str) -> None:
    of = getattr(information, name)
    table = JOINT / JOINT.sum(axis=1, keepdims=True) if name == "entropy_rate" else JOINT
    assert of(table, base=2) == of(table, unit="bits") == of(table)
    assert of(table, base=math.e) == of(table, unit="nats")
    assert of(table, base=math.e) == pytest.approx(of(table) * math.log(2), rel=1e-12)


def test_results_say_the_unit_that_a_base_means() -> None:
    found = information.capacity([[0.9, 0.1], [0.1, 0.9]], base=math.e)
    assert "nats" in str(found)
    x = np.random.default_rng(0).normal(size=200)
    assert information.mutual_information_estimate(x, x + 1, base=math.e).unit == "nats"


def test_bases_that_are_none_and_contradictions_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"entropy\(base=10\): .* bits \(base=2\) or nats"):
        information.entropy([0.5, 0.5], base=10)
    with pytest.raises(ArgumentError, match="contradict"):
        information.entropy([0.5, 0.5], unit="nats", base=2)
    with pytest.raises(ArgumentError, match="contradict"):
        information.entropy([0.5, 0.5], "nats", base=2)
    assert information.entropy([0.5, 0.5], "bits", base=2) == 1


def test_every_public_function_with_a_unit_takes_a_base() -> None:
    functions = [getattr(information, name) for name in information.__all__]
    signatures = [inspect.signature(one) for one in functions if inspect.isfunction(one)]
    with_units = [one for one in signatures if "unit" in one.parameters]
    assert len(with_units) > 20
    assert all("base" in one.parameters for one in with_units)
