"""Adaptation beside its baselines, choices without targets, unseen domains, and networks that tasks share."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.data import Data
from chainrule.data.withheld import withheld
from chainrule.nn import Linear
from chainrule.transfer import (
    AdaptationReport,
    TaskWeights,
    adaptation_report,
    choose,
    inserted,
    leave_one_out,
    removed,
    soft_sharing,
    tied,
    widened,
)


@pytest.fixture(scope="module")
def pair() -> Data:
    return cr.data.with_target(cr.data.load("moons", n=100), cr.data.load("rotated-moons", n=100, seed=1))


def report(method: list[float], source: list[float]) -> AdaptationReport:
    return AdaptationReport({"method": np.array(method), "source only": np.array(source)}, {}, 0)


def test_the_gain_is_a_paired_interval_in_words() -> None:
    method, source = [0.80, 0.84, 0.82, 0.83], [0.86, 0.87, 0.85, 0.86]
    found = report(method, source)
    change = 100 * (np.array(method) - np.array(source))
    low, high = stats.t.interval(0.95, 3, change.mean(), stats.sem(change))
    assert found.is_negative
    assert found.verdict == f"negative transfer: {change.mean():.1f} points ± {(high - low) / 2:.1f}"
    assert report(source, method).verdict.startswith("gain: +")
    assert report([0.5, 0.7], [0.6, 0.6]).verdict.startswith("no gain beyond chance")
    assert "one seed" in report([0.5], [0.6]).verdict


def test_with_one_seed_the_interval_is_that_of_the_examples() -> None:
    draw = np.random.default_rng(0)
    source = draw.random(400) < 0.8
    method = source & (draw.random(400) < 0.9)
    found = replace(report([method.mean()], [source.mean()]), right={"method": method, "source only": source})
    lost = (source & ~method).mean()
    half = stats.t.ppf(0.975, 399) * np.sqrt(lost * (1 - lost) / 399)
    assert found.gain == pytest.approx((-lost, half))
    assert found.verdict == f"negative transfer: {-100 * lost:.1f} points ± {100 * half:.1f}, one seed"


@pytest.mark.slow
def test_a_trained_model_stands_for_the_method(pair: Data) -> None:
    settings = {"layers": (4,), "discriminator": (4,)}
    model = cr.models.build("dann", pair, seed=5, **settings)
    found = adaptation_report(
        pair, seeds=1, few=0, seed=5, settings=settings, trained=model, steps=3, batch=16
    )
    assert pair.other is not None
    right = np.asarray(model.predict(jnp.asarray(pair.other.test.x))).argmax(axis=1) == pair.other.test.y  # type: ignore[attr-defined]
    np.testing.assert_array_equal(found.right["method"], right)
    assert found.accuracy["method"].tolist() == [right.mean()]
    assert list(found.right) == ["source only", "method", "oracle"]
    again = adaptation_report(pair, seeds=2, few=0, seed=4, settings=settings, steps=3, batch=16)
    np.testing.assert_allclose(again.accuracy["oracle"][1], found.accuracy["oracle"][0])


@pytest.mark.slow
def test_a_model_of_one_domain_is_refused_with_those_that_adapt(pair: Data) -> None:
    with pytest.raises(ArgumentError, match=r"model='mlp'.*adapts to no other\n.*models that do: dann"):
        adaptation_report(pair, model="mlp")
    model = cr.models.build("mlp", pair.schema, width=4)
    with pytest.raises(ArgumentError, match=r"seeds=2.*is one seed"):
        adaptation_report(pair, seeds=2, trained=model)


def test_all_baselines_are_run(pair: Data) -> None:
    found = adaptation_report(
        pair, seeds=2, few=4, settings={"layers": (4,), "discriminator": (4,)}, steps=3, batch=16
    )
    assert list(found.accuracy) == ["source only", "few target labels", "method", "oracle"]
    assert all(values.shape == (2,) for values in found.accuracy.values())
    with pytest.raises(ArgumentError, match="no other domain"):
        adaptation_report(cr.data.load("moons", n=50))
    with pytest.raises(ArgumentError, match="few=81\\): rotated-moons has 80 training examples"):
        adaptation_report(pair, few=81)


def test_choices_rest_on_no_targets_of_the_other_domain(pair: Data) -> None:
    candidates = [cr.models.build("mlp", pair.schema, width=4, seed=seed) for seed in range(2)]
    assert pair.other is not None
    hidden = replace(pair, other=withheld(pair.other))
    for method in ("source", "weighted", "reverse"):
        found = choose(candidates, hidden, method, steps=3, batch=16, settings={"width": 4})
        assert found.best == int(np.argmin(found.errors))
    wrong = np.mean(np.asarray(candidates[0].predict(jnp.asarray(pair.val.x))).argmax(axis=1) != pair.val.y)  # type: ignore[attr-defined]
    assert choose(candidates, pair, "source").errors[0] == pytest.approx(wrong)


def test_every_domain_is_left_out_once() -> None:
    domains = [cr.data.load("rotated-moons", n=60, angle=angle) for angle in (0, 20, 40)]
    found = leave_one_out(domains, seeds=2, settings={"width": 4}, steps=2, batch=16)
    assert found.shape == (3, 2)


def test_tied_layers_are_one() -> None:
    keys = jax.random.split(jax.random.key(0), 2)
    both = {"a": Linear(2, 2, key=keys[0]), "b": Linear(2, 2, key=keys[1])}
    grads = jax.grad(lambda both: (tied(both, "a", ["b"])["b"](jnp.ones((1, 2))) ** 2).sum())(both)
    assert np.asarray(grads["a"].weight).any()
    assert not np.asarray(grads["b"].weight).any()
    with pytest.raises(ArgumentError, match="no array has the name"):
        tied(both, "a", ["c"])


def test_learned_weights_settle_at_the_logarithm_of_each_loss() -> None:
    weights, losses = TaskWeights(2), [jnp.asarray(0.5), jnp.asarray(3.0)]
    for _ in range(400):
        slope = jax.grad(lambda weights: weights(losses))(weights)
        weights = jax.tree.map(lambda w, s: w - 0.1 * s, weights, slope)
    np.testing.assert_allclose(weights.log_noise, np.log([0.5, 3.0]), atol=1e-3)


def test_wider_and_deeper_networks_compute_the_same() -> None:
    keys = jax.random.split(jax.random.key(1), 3)
    first, second = Linear(3, 4, key=keys[0]), Linear(4, 2, key=keys[1])
    x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)), jnp.float32)
    wide = widened(first, second, 9, keys[2])
    expected = second(jax.nn.relu(first(x)))
    np.testing.assert_allclose(wide[1](jax.nn.relu(wide[0](x))), expected, atol=1e-5)
    deeper = second(jax.nn.relu(inserted(4)(jax.nn.relu(first(x)))))
    np.testing.assert_array_equal(deeper, expected)
    with pytest.raises(ArgumentError, match="units between them"):
        widened(first, second, 2, keys[2])
    np.testing.assert_allclose(removed(first, second)(x), second(first(x)), atol=1e-5)
    plain = Linear(3, 4, bias=False, key=keys[0])
    np.testing.assert_allclose(removed(plain, second)(x), second(plain(x)), atol=1e-5)
    for change in (lambda: widened(second, first, 9, keys[2]), lambda: removed(second, first)):
        with pytest.raises(ArgumentError, match="gives 2 numbers, the second reads 3"):
            change()


def test_networks_that_share_are_of_one_structure() -> None:
    assert float(soft_sharing([{"a": jnp.zeros(2)}, {"a": jnp.ones(2)}])) == 1
    for other in ({"a": jnp.zeros(3)}, {"b": jnp.zeros(2)}):
        with pytest.raises(ArgumentError, match="share between networks of one structure"):
            soft_sharing([{"a": jnp.zeros(2)}, other])
    with pytest.raises(ArgumentError, match="tasks=0"):
        TaskWeights(0)
