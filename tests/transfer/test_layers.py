"""Layers judged by simple classifiers, copied to other tasks, and heads on features that are computed once."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Data
from chainrule.data.schema import Schema
from chainrule.explain.experiments import configure
from chainrule.nn.normalize import BatchNorm
from chainrule.train import TrainConfig, fit
from chainrule.transfer import (
    domain_statistics,
    fine_tune,
    judge_features,
    judge_layers,
    layer_features,
    layer_transfer,
    replace_head,
    split_classes,
    train_head,
)
from chainrule.transfer.features import LabelledFeatures, logistic_path
from chainrule.transfer.transferability import LayerStack, TaskExamples, _copied, _Fitting


@pytest.fixture(scope="module")
def digits() -> Data:
    return cr.data.load("digits")


def cloud(n: int, seed: int) -> LabelledFeatures:
    noise = np.random.default_rng(seed)
    y = np.arange(n) % 3
    centres = np.array([[2.0, 0, 0, 0], [0, 2.0, 0, 0], [0, 0, 2.0, 0]])
    return LabelledFeatures((centres[y] + noise.normal(size=(n, 4))).astype(np.float32), y)


def test_the_linear_classifier_is_that_of_scikit_learn(oracle: Any) -> None:
    linear = oracle("sklearn.linear_model")
    x, y = cloud(90, 0)
    penalties = np.array([1.0, 10.0])
    ours = np.asarray(logistic_path(jnp.asarray(x), jnp.asarray(y), 3, jnp.asarray(penalties, jnp.float32)))
    for penalty, found in zip(penalties, ours, strict=True):
        theirs = linear.LogisticRegression(C=1 / penalty, fit_intercept=False, tol=1e-8, max_iter=1000).fit(
            x, y
        )
        np.testing.assert_allclose(x @ found, x @ theirs.coef_.T, atol=2e-3)


def test_neighbours_vote_by_cosine_as_in_scikit_learn(oracle: Any) -> None:
    neighbours = oracle("sklearn.neighbors")
    train, test = cloud(90, 0), cloud(60, 1)
    found = judge_features(train, test, test, methods=("neighbours", "means"), k=7)
    theirs = neighbours.KNeighborsClassifier(7, metric="cosine", algorithm="brute").fit(*train)
    assert found["neighbours"].accuracy == pytest.approx(theirs.score(*test), abs=0.02)  # ties
    spread = train.x.std(axis=0) + 1e-6
    centres = neighbours.NearestCentroid().fit(train.x / spread, train.y)
    assert found["means"].accuracy == pytest.approx(centres.score(test.x / spread, test.y))


def test_features_without_validation_are_judged_and_those_that_do_not_fit_are_named() -> None:
    train, test = cloud(60, 0), cloud(30, 1)
    none = LabelledFeatures(np.zeros((0, 4), np.float32), np.zeros(0, int))
    assert judge_features(train, none, test, methods=("ridge",))["ridge"].accuracy > 0.5
    for parts, message in (
        ((train, none, none), r"\(test\): there are no examples"),
        ((train, none, LabelledFeatures(test.x[:, :3], test.y)), "3 features, train has 4"),
        ((LabelledFeatures(train.x, train.y - 1), none, test), r"\(train\): class -1"),
        ((LabelledFeatures(train.x, train.x[:, 0]), none, test), "type float32"),
        ((LabelledFeatures(train.x * np.inf, train.y), none, test), "not finite"),
    ):
        with pytest.raises(ArgumentError, match=message):
            judge_features(*parts)


def test_features_of_layers_are_what_enters_them(digits: Data) -> None:
    model: Any = cr.models.build("mlp", digits, width=8, depth=2, dropout=0.3)
    x = np.asarray(digits.test.x)[:5]
    found = layer_features(model, x)
    assert list(found) == ["input", "into head"]
    block = model.blocks[0].linear
    hidden = np.maximum(x.reshape(5, -1) @ np.asarray(block.weight) + np.asarray(block.bias), 0)
    np.testing.assert_allclose(found["into head"], hidden, atol=1e-5)


def test_layers_are_chosen_by_name(digits: Data) -> None:
    model = cr.models.build("mlp", digits, width=8, depth=2)
    found = judge_layers(model, digits, layers=["into head"], methods=("means",), examples=100)
    assert list(found.scores) == ["into head"]
    assert found.widths == {"into head": 8}
    with pytest.raises(ArgumentError, match="no such layer"):
        judge_layers(model, digits, layers=["into haed"], examples=50)


@pytest.mark.parametrize(
    ("name", "settings", "rounding"),
    [("mlp", {"width": 16}, 0.0), ("cnn", {"width": 4, "stages": 2, "blocks": 1}, 1e-6)],
)
def test_a_head_on_kept_features_is_that_of_the_frozen_network(
    name: str, settings: dict[str, Any], rounding: float, digits: Data
) -> None:
    """Bit for bit where both programs sum alike; means over an image may be summed in another order."""
    model: Any = cr.models.build(name, digits, **settings)
    once, again = (
        train_head(model, digits, steps=12, batch=32, cached=cached, optimizer={"name": "adamw", "lr": 1e-2})
        for cached in (True, False)
    )
    kept, recomputed, before = (dict(tree.named_leaves(m)) for m in (once, again, model))
    for path, one in kept.items():
        np.testing.assert_allclose(one, recomputed[path], rtol=0, atol=rounding, err_msg=path)
        assert np.array_equal(one, before[path]) != path.startswith("head"), path


def test_the_last_of_several_dense_layers_learns_alone(digits: Data) -> None:
    model: Any = cr.models.build("alexnet", digits, scale=1 / 64)
    found: Any = train_head(model, digits, steps=1, batch=8)
    for number, same in ((1, True), (2, False)):
        before, after = (one.head.layers[number].weight for one in (model, found))
        assert np.array_equal(before, after) == same


def test_a_head_for_other_classes_learns_first_and_all_layers_follow_slowly(tmp_path: Path) -> None:
    moons, rings = cr.data.load("moons", n=100), cr.data.load("rings", n=100)
    run = fit(cr.models.build("mlp", moons, width=4), moons, run=tmp_path / "moons", steps=2)
    found = fine_tune(run, rings, run=tmp_path / "rings", steps=8)
    assert found.config["model"]["from"] == {**run.origin, "fresh": ["head"], "head_first": 1000}
    usual = TrainConfig.parse(**models.entry("mlp").training_for(rings.schema)).optimizer.lr
    assert found.settings.optimizer.lr == pytest.approx(usual / 10)
    before, begun, after = run.model, found.model_at(0), found.model_at(8)
    blocks: list[Any] = [one.blocks[0].linear.weight for one in (before, begun, after)]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(blocks[0], blocks[1])
    assert not np.array_equal(blocks[1], blocks[2])
    fresh: Any = models.begin("mlp", before, rings)
    assert not np.array_equal(fresh.head.weight, begun.head.weight)  # type: ignore[attr-defined]
    with pytest.raises(ArgumentError, match="freeze says already what learns"):
        fine_tune(run, rings, run=tmp_path / "no", steps=8, head_steps=2, freeze=["blocks"])


def test_a_model_without_one_last_layer_is_refused(digits: Data) -> None:
    with pytest.raises(CapabilityError, match="does not end in one dense layer"):
        train_head(cr.models.build("dann", digits), digits, steps=1)


# ---------------------------------------------------------------------- layers copied to another task


def task(number: int, n: int = 800) -> TaskExamples:
    """Classes that are functions of the same first layer, of other layers behind it for each number."""
    first = np.random.default_rng(123).normal(size=(8, 24)) / np.sqrt(8)
    own = np.random.default_rng(1000 + number)
    second, last = own.normal(size=(24, 16)) / np.sqrt(6), own.normal(size=(16, 3))
    x = np.random.default_rng(number).normal(size=(2 * n, 8)).astype(np.float32)
    y = (np.tanh(np.tanh(2 * x @ first) @ second) @ last).argmax(axis=1)
    return TaskExamples(x[:n], y[:n], x[n:], y[n:])


@pytest.mark.slow
def test_only_what_tasks_share_transfers() -> None:
    found = layer_transfer(
        task(1), task(2), hidden=(48, 48, 48), seeds=4, steps=500, lr=3e-3, arms=("BnB", "AnB")
    )
    mean, error = found.mean(found.specificity)
    assert abs(mean[0]) < 3 * error[0] + 0.02
    assert mean[2] > mean[0] + 0.05
    assert mean[2] > mean[1]


@pytest.mark.slow
def test_copies_from_the_same_task_lose_nothing_when_they_are_trained_on() -> None:
    one = task(1)
    found = layer_transfer(
        one, one, hidden=(48, 48), seeds=4, steps=400, lr=3e-3, arms=("BnB", "AnB", "BnB+", "AnB+")
    )
    for gap in (found.base[None] - found.accuracy["AnB+"], found.accuracy["BnB+"] - found.accuracy["AnB+"]):
        mean, error = found.mean(gap)
        assert (np.abs(mean) < 3 * error + 0.03).all()


def test_kept_layers_stay_bit_for_bit_and_arms_share_a_program() -> None:
    a = task(1, 40)
    found = layer_transfer(a, a, hidden=(4,), seeds=2, steps=2, batch=8)
    assert {arm: values.shape for arm, values in found.accuracy.items()} == dict.fromkeys(
        ("BnB", "AnB", "BnB+", "AnB+", "random"), (1, 2)
    )
    np.testing.assert_allclose(found.co_adaptation, found.base[None] - found.accuracy["BnB"])
    with pytest.raises(ArgumentError, match="steps=0"):
        layer_transfer(a, a, hidden=(4,), steps=0)
    with pytest.raises(ArgumentError, match="1 to 1 layers can be copied") as caught:
        layer_transfer(a, a, hidden=(4,), layers=[2])
    chosen = caught.value.remedy.rpartition("layers=")[2].split(",")
    assert configure("layer-transfer", layers=chosen).layers == (1,)  # as the command line reads it


def test_classes_are_halved_or_named(digits: Data) -> None:
    a, b = split_classes(digits)
    assert sorted(np.unique(a.y)) == sorted(np.unique(b.y)) == [0, 1, 2, 3, 4]
    first, rest = split_classes(digits, ["7", "0"])
    assert (len(np.unique(first.y)), len(np.unique(rest.y))) == (2, 8)
    truth = np.asarray(digits.train.y)
    assert (first.y == 0).sum() == (truth == digits.schema.classes.index("7")).sum()
    with pytest.raises(ArgumentError, match="cannot be halved"):
        split_classes(cr.data.load("rings", n=60))
    with pytest.raises(ArgumentError, match="two different ones of 10 classes"):
        split_classes(digits, ["7", "7"])


def test_a_frozen_layer_of_the_study_moves_by_nothing() -> None:
    a = task(1, 40)
    start = LayerStack((8,), 3, (), (4,), jax.random.key(0))
    (end,), _ = _Fitting(a, a, 3, 8, 1e-2)([start], np.array([[0.0, 1.0]], np.float32), [0], 0)
    for number, same in ((0, True), (1, False)):
        assert np.array_equal(start.layers[number].weight, end.layers[number].weight) == same


def test_batch_normalisation_is_copied_with_its_layer_and_stands_still_with_it() -> None:
    a = task(1, 40)
    start, other = (
        LayerStack((8,), 3, (), (4, 4), jax.random.key(seed), normalised=True) for seed in range(2)
    )
    (end,), _ = _Fitting(a, a, 3, 8, 1e-2)([start], np.array([[0.0, 1.0, 1.0]], np.float32), [0], 0)
    for number, same in ((0, True), (1, False)):
        for name in ("mean", "var", "scale", "shift"):
            pair = [getattr(stack.norms[number], name) for stack in (start, end)]
            assert np.array_equal(*pair) == same, (number, name)
    mixed = _copied(other, end, 1)
    np.testing.assert_array_equal(mixed.norms[0].mean, end.norms[0].mean)
    np.testing.assert_array_equal(mixed.norms[1].var, other.norms[1].var)
    found = layer_transfer(a, a, hidden=(4,), seeds=1, steps=2, batch=8, arms=("AnB",), normalised=True)
    assert np.isfinite(found.accuracy["AnB"]).all()


def test_a_fresh_head_suits_other_classes_and_nothing_else_is_changed(digits: Data) -> None:
    model = cr.models.build("mlp", digits, width=8, seed=1)
    flowers = Schema("image", digits.schema.shape, "class", classes=("rose", "tulip"))
    found = replace_head(model, flowers)
    assert found.head.weight.shape == (8, 2)
    assert not np.asarray(found.head.bias).any()
    same = {name: array for name, array in tree.named_leaves(model) if not name.startswith("head")}
    for name, array in tree.named_leaves(found):
        if name in same:
            np.testing.assert_array_equal(array, same[name])
    network = eqx.nn.MLP(3, 2, 5, 1, key=jax.random.key(0))
    changed = replace_head(network, 7)
    np.testing.assert_array_equal(changed.layers[0].weight, network.layers[0].weight)
    assert changed(jnp.ones(3)).shape == (7,)
    with pytest.raises(ArgumentError, match="give the other data"):
        replace_head(model, 5)
    with pytest.raises(CapabilityError, match="no dense layer"):
        replace_head({"a": jnp.ones(2)}, 5)


def test_statistics_of_a_domain_are_those_of_its_activations_and_source_ones_stay(digits: Data) -> None:
    model = cr.models.build("cnn", digits, width=4, stages=1)
    x = np.asarray(digits.train.x[:48]) * 0.5 + 0.2
    found = domain_statistics(model, x, batch=16)
    name, first = next((n, m) for n, m in _norms(found) if n)
    before = model.stages[0][0].conv(jnp.asarray(x))
    np.testing.assert_allclose(first.mean, before.mean(axis=(0, 1, 2)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(first.var, before.var(axis=(0, 1, 2)), rtol=1e-3)
    assert not np.asarray(dict(_norms(model))[name].mean).any()
    with pytest.raises(CapabilityError, match="no batch normalisation"):
        domain_statistics(cr.models.build("mlp", digits, width=4), x)
    with pytest.raises(ArgumentError, match="model units"):
        domain_statistics(model, x[0])


def _norms(model: Any) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_leaves_with_path(model, is_leaf=lambda node: isinstance(node, BatchNorm))
    return [(tree.path_name(path), leaf) for path, leaf in leaves if isinstance(leaf, BatchNorm)]
