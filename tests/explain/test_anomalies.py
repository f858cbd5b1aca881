import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, RunError
from chainrule.data import from_arrays, load
from chainrule.explain.probes import anomalies
from chainrule.train import fit


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    data = load("binary-digits")
    return fit(
        models.build("made", data, width=32), data, steps=60, run=tmp_path_factory.mktemp("runs") / "made"
    ), data


def test_examples_that_are_not_data_are_told_apart_by_their_likelihood(run):
    found = anomalies.examine(*run, anomalies.AnomaliesSettings(n=60))
    assert set(found.numbers) == {"shuffled", "mixed", "blank", "most_unusual"}
    assert found.numbers["shuffled"]["surprisal"] > 0.9
    trained, data = run
    x = np.asarray(data.test.batch(np.unique(np.linspace(0, len(data.test) - 1, 60).astype(int))).x)
    cost = -np.asarray(trained.model.log_prob(jnp.asarray(x)))
    assert found.numbers["most_unusual"] == np.argsort(-cost)[:10].tolist()


def test_altered_examples_keep_what_they_should(run):
    x = np.asarray(run[1].test.x)[:20]
    altered = anomalies._altered(x, 0)
    np.testing.assert_array_equal(altered["shuffled"].sum(axis=(1, 2, 3)), x.sum(axis=(1, 2, 3)))
    np.testing.assert_array_equal(altered["mixed"].sum(axis=0), x.sum(axis=0))
    assert np.unique(altered["blank"]).size == 1


def test_an_example_that_is_too_likely_is_atypical():
    typical = np.array([10.0, 11.0, 9.0])
    assert anomalies._area(np.array([1.0, 2.0]), typical) == 0.0
    assert anomalies._area(abs(np.array([1.0, 2.0]) - 10), abs(typical - 10)) == 1.0


def test_a_background_model_gives_likelihood_ratios(run, tmp_path):
    """Against itself every ratio is zero; against a model of other units it is that of the original data."""
    trained, data = run
    same = anomalies.examine(trained, data, anomalies.AnomaliesSettings(n=20, against=str(trained.path)))
    assert same.numbers["shuffled"]["likelihood_ratio"] == 0.5
    ratio = next(picture for picture in same.pictures if picture.name == "likelihood-ratio")
    assert all(np.isfinite(y).all() for _, y in ratio.series.values())
    noisy = from_arrays(1 - np.asarray(data.train.x).astype(np.uint8), levels=2, kind="image")
    other = fit(models.build("made", noisy, width=16), noisy, steps=30, run=tmp_path / "background")
    found = anomalies.examine(trained, data, anomalies.AnomaliesSettings(n=40, against=str(other.path)))
    assert set(found.numbers["mixed"]) == {"nats", "surprisal", "atypicality", "likelihood_ratio"}
    assert "by likelihood ratio" in found.findings[0]


def test_a_background_of_other_examples_is_refused(run, tmp_path):
    trained, data = run
    moons = load("moons", n=50)
    other = fit(models.build("realnvp", moons, layers=2, width=4), moons, steps=2, run=tmp_path / "moons")
    with pytest.raises(ArgumentError, match="give a run on examples of the same shape"):
        anomalies.examine(trained, data, anomalies.AnomaliesSettings(n=20, against=str(other.path)))
    with pytest.raises(RunError, match="there is no run 'nobody'"):
        anomalies.examine(trained, data, anomalies.AnomaliesSettings(n=20, against="nobody"))
