"""The classifier of noisy data beyond the promises every model keeps: what it learns, and whom it leads."""

from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Schema
from chainrule.models.diffusion.noisy_classifier import NoisyClassifier
from chainrule.models.diffusion.process import Level

CLASSES = Schema("points", (2,), target="class", classes=("left", "right"))
KEY = jax.random.key(0)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def test_it_sees_noisy_data_in_one_size_whatever_the_process() -> None:
    model = models.build("noisy-classifier", CLASSES, width=8, depth=1)
    assert isinstance(model, NoisyClassifier)
    x = jax.random.normal(KEY, (3, 2))
    level = Level(jnp.full(3, 0.6), jnp.full(3, 0.8))
    ours = model.logits(x, level)
    theirs = model.logits(10 * x, Level(10 * level.a, 10 * level.s))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.slow
def test_a_run_leads_another_to_a_class_by_its_name_or_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAINRULE_RUNS", str(tmp_path))
    data = cr.data.load("moons", n=60)
    tiny = {"width": 8, "depth": 1}
    judge = cr.fit(models.build("noisy-classifier", data, **tiny), data, steps=2, run="judge")
    run = cr.fit(models.build("diffusion", data, **tiny), data, steps=2, run="points")
    options = {"condition": "lower", "guidance": 2.0, "steps": 2}
    named, folder, model = (
        run.sample(3, classifier=c, **options) for c in ("judge", judge.path, judge.model)
    )
    assert np.array_equal(named, folder)
    assert np.array_equal(named, model)
    assert not np.array_equal(named, run.sample(3, **options))
    blobs = cr.data.from_arrays(np.zeros((60, 3)) + np.arange(60)[:, None], np.arange(60) % 2)
    other = cr.fit(models.build("noisy-classifier", blobs, **tiny), blobs, steps=1, run="other")
    with pytest.raises(ArgumentError, match="classifier=other: the kind of its data is table"):
        run.sample(3, classifier=other.path, **options)
