"""Attribute vectors: the difference of mean codes, and what examples become along it."""

from typing import Any

import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import from_arrays, load
from chainrule.explain import probes
from chainrule.explain.methods.code_space import attribute_vector
from chainrule.train import fit


def test_the_vector_is_a_difference_of_means():
    codes = np.random.default_rng(0).normal(size=(30, 4))
    y = np.arange(30) % 3
    np.testing.assert_allclose(
        attribute_vector(codes, y == 1), codes[y == 1].mean(axis=0) - codes[y != 1].mean(axis=0)
    )
    np.testing.assert_allclose(
        attribute_vector(codes, y == 1, y == 2), codes[y == 1].mean(axis=0) - codes[y == 2].mean(axis=0)
    )
    with pytest.raises(ArgumentError, match="0 examples have the attribute"):
        attribute_vector(codes, y == 7)


def two_clusters(labels: bool = False) -> Any:
    draw = np.random.default_rng(1)
    y = np.arange(240) % 2
    x = draw.normal(size=(240, 2)) + 4.0 * y[:, None]
    if labels:
        return from_arrays(x, np.column_stack([y, 1 - y]), target_as="labels")
    return from_arrays(x, np.where(y, "high", "low"))


@pytest.mark.parametrize("labels", [False, True])
def test_examples_and_samples_become_what_they_are_moved_towards(tmp_path, labels):
    data = two_clusters(labels)
    run = fit(models.build("realnvp", data, layers=2, width=8), data, steps=5, run=tmp_path / "flow")
    wanted = data.schema.classes[0] if labels else "high"
    found = probes.examine("attributes", run, attribute=wanted, samples=32).numbers
    held = found["share of held-out examples"]
    assert held[0] < 0.2 < 0.8 < held[-1]
    assert len(found["share of samples"]) == len(found["strength"])
    assert found["classifier_accuracy"] > 0.9


def test_images_are_shown_along_the_vector_and_words_that_are_no_class_are_refused(tmp_path):
    data = load("digits")
    model = models.build("realnvp", data, width=4, depth=1, scales=1)
    run = fit(model, data, steps=2, run=tmp_path / "flow")
    found = probes.examine("attributes", run, attribute="8", away_from="3", n=100, samples=4)
    sheet = next(picture for picture in found.pictures if picture.name == "attributes")
    assert len(sheet.images) == 8 * 9
    assert found.numbers["away_from"] == "3"
    with pytest.raises(ArgumentError, match="attribute=eight: the data know no such class"):
        probes.examine("attributes", run, attribute="eight")
    with pytest.raises(ArgumentError, match="another class than the attribute"):
        probes.examine("attributes", run, attribute="8", away_from="8")
    alone = from_arrays(np.random.default_rng(0).normal(size=(60, 3)))
    plain = fit(models.build("realnvp", alone, layers=2, width=4), alone, steps=2, run=tmp_path / "plain")
    with pytest.raises(CapabilityError, match="data with classes or labels"):
        probes.examine("attributes", plain)
