"""Fine-tuning: rates by layer, layers that begin later, anchors, teachers; each against its formula."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Batch, Data, Schema
from chainrule.train import fisher_diagonal, fit, freezing, resume
from chainrule.train.config import Distillation, TrainConfig
from chainrule.train.layer_rates import layer_of, layers
from chainrule.train.objectives import categorical_divergence, taught, trained_parts
from chainrule.train.teaching import teacher_of
from tests.train.toys import blobs, rows, train

SGD = {"name": "sgd", "lr": 0.1}
SMALL = {"width": 4, "depth": 3, "dropout": 0.0}


@pytest.fixture(scope="module")
def data() -> Data:
    return blobs(64, sizes=(16, 0))


@pytest.fixture(scope="module")
def fresh(data: Data) -> Any:
    return models.build("mlp", data, **SMALL)


def moves(before: Any, after: Any) -> dict[str, np.ndarray]:
    old = dict(tree.named_leaves(eqx.filter(before, eqx.is_inexact_array)))
    return {
        name: np.asarray(leaf) - np.asarray(old[name])
        for name, leaf in tree.named_leaves(eqx.filter(after, eqx.is_inexact_array))
    }


def test_each_layer_moves_by_its_share_of_the_one_above(fresh: Any, data: Data) -> None:
    plain, decayed = (
        moves(fresh, train(fresh, data, 1, optimizer=SGD, layer_decay=factor)[0]) for factor in (1.0, 0.5)
    )
    assert layers(fresh) == ["blocks.0", "blocks.1", "head"]
    for name, change in plain.items():
        factor = {"blocks.0": 0.25, "blocks.1": 0.5, "head": 1.0}[".".join(name.split(".")[:-2]) or "head"]
        np.testing.assert_allclose(decayed[name], factor * change, rtol=1e-4, atol=1e-7, err_msg=name)


def test_layers_begin_one_after_another_from_the_top(fresh: Any, data: Data) -> None:
    """48 examples in batches of 16: an epoch is three steps."""
    settings = {"batch": 16, "optimizer": {"name": "adamw", "lr": 0.01, "decay": 0.1}, "unfreeze": 1.0}
    moving = [
        {
            name.rpartition(".")[0]
            for name, change in moves(fresh, train(fresh, data, n, **settings)[0]).items()
            if change.any()
        }
        for n in (3, 6, 7)
    ]
    assert moving == [
        {"head"},
        {"head", "blocks.1.linear"},
        {"head", "blocks.1.linear", "blocks.0.linear"},
    ]


def test_running_averages_of_a_layer_whose_time_has_not_come_stand_still() -> None:
    x = np.random.default_rng(0).uniform(size=(16, 8, 8, 1)).astype(np.float32)
    images = rows(x, np.arange(16, dtype=np.int32) % 2, kind="image", target="class", classes=("a", "b"))
    fresh = models.build("cnn", images, width=2, stages=1, blocks=1)
    for steps, expected in ((1, {"head"}), (2, {"head", layers(fresh)[-2]})):
        after = train(fresh, images, steps, batch=16, unfreeze=1.0, optimizer=SGD)[0]
        moving = {layer_of(name) for name, change in moves(fresh, after).items() if change.any()}
        assert moving == expected


def test_an_anchor_pulls_back_by_its_strength_times_the_distance(
    fresh: Any, data: Data, tmp_path: Path
) -> None:
    settings = {
        "steps": 2,
        "batch": 48,
        "optimizer": SGD,
        "schedule": {"name": "constant"},
        "eval_every": 1,
        "keep": 9,
    }
    free = fit(fresh, data, run=tmp_path / "free", **settings, save_every=1)
    held = fit(fresh, data, run=tmp_path / "held", **settings, save_every=1, anchor={"strength": 2.0})
    first, second, anchored = free.model_at(1), free.model_at(2), held.model_at(2)
    for name, change in moves(second, anchored).items():
        away = np.asarray(dict(tree.named_leaves(first))[name]) - np.asarray(
            dict(tree.named_leaves(fresh))[name]
        )
        np.testing.assert_allclose(change, -0.1 * 2.0 * away, atol=1e-6, err_msg=name)
    again = resume(held, steps=3)
    penalty = again.metrics["anchor_penalty"]
    assert np.isfinite(penalty[-2:]).any()


def test_fisher_information_of_a_linear_classifier_is_known(data: Data) -> None:
    """For logits xᵀW the diagonal is E x_i² p_j (1 - p_j); drawn classes give it on average."""
    model = models.build("mlp", data, depth=1, width=4, dropout=0.0)
    x = np.asarray(data.train.x)
    p = np.asarray(model.predict(jnp.asarray(x)))  # type: ignore[attr-defined]
    expected = (np.square(x)[:, :, None] * (p * (1 - p))[:, None, :]).mean(axis=0)
    found = np.mean([fisher_diagonal(model, data, seed=seed).head.weight for seed in range(60)], axis=0)
    np.testing.assert_allclose(found, expected, rtol=0.25, atol=0.02)


def test_fresh_layers_are_free_and_fisher_needs_a_start(fresh: Any, data: Data, tmp_path: Path) -> None:
    settings = {"steps": 1, "batch": 48, "anchor": {"strength": 1.0, "by": "fisher"}}
    with pytest.raises(ArgumentError, match="nothing says how much each parameter counts"):
        fit(fresh, data, run=tmp_path / "none", **settings)
    with pytest.raises(ArgumentError, match=r"anchor\.by=fisher: nothing is held"):
        fit(fresh, data, run=tmp_path / "idle", steps=1, batch=48, anchor={"by": "fisher"})
    origin = {"run": "elsewhere", "step": 1, "fresh": ["head"]}
    importance = fisher_diagonal(fresh, data)
    run = fit(fresh, data, run=tmp_path / "some", origin=origin, importance=importance, **settings)
    stored = load_file(run.path / "anchor.safetensors")
    assert not stored["importance.head.weight"].any()
    np.testing.assert_allclose(
        stored["importance.blocks.0.linear.weight"], importance.blocks[0].linear.weight, rtol=1e-6
    )


def test_a_teacher_is_learned_by_the_softened_divergence(fresh: Any, data: Data) -> None:
    teacher = models.build("mlp", data, seed=5, **SMALL)
    batch = Batch(*(jnp.asarray(a) for a in data.train.batch(np.arange(8))[:2]))
    settings = Distillation(teacher="t", temperature=3.0, weight=0.25)
    loss, _, _ = taught(teacher, settings)(fresh, batch, jax.random.key(0))
    p, q = (jax.nn.softmax(model.logits(batch.x) / 3) for model in (teacher, fresh))  # type: ignore[attr-defined]
    kl = np.asarray((p * jnp.log(p / q)).sum(axis=1).mean())
    own = float(fresh.loss(batch, jax.random.key(0))[0])
    assert float(loss) == pytest.approx(0.75 * own + 0.25 * 9 * kl, rel=1e-4)
    same = jnp.asarray([[1.0, 2.0]])
    assert float(categorical_divergence(same, same + 3)[0]) == pytest.approx(0, abs=1e-6)


def test_a_run_learns_from_the_run_that_is_named(fresh: Any, data: Data, tmp_path: Path) -> None:
    teacher = fit(fresh, data, run=tmp_path / "teacher", steps=1, batch=16)
    config = TrainConfig.parse(distill={"teacher": str(teacher.path)})
    with pytest.raises(ArgumentError, match=r"distill\.weight=0\.5: there is no teacher"):
        teacher_of(TrainConfig.parse(distill={"weight": 0.5}), data)
    found = teacher_of(config, data)
    np.testing.assert_array_equal(found.head.weight, teacher.model.head.weight)  # type: ignore[union-attr, attr-defined]


def test_a_model_with_a_loss_of_its_own_has_no_teacher(data: Data) -> None:
    vib = models.build("vib", data, width=4, depth=1, latent=2)
    with pytest.raises(CapabilityError, match="a loss of its own"):
        trained_parts(vib, TrainConfig(), data.train, vib)


def test_what_learns_and_what_stays_is_counted_layer_by_layer(fresh: Any) -> None:
    assert freezing.learning(fresh, TrainConfig()) == []
    rows = freezing.learning(fresh, TrainConfig(freeze=("blocks",)))
    assert rows == [("blocks.0", 0, 12), ("blocks.1", 0, 20), ("head", 10, 0)]


def test_a_residual_network_of_18_layers_with_a_new_head_learns_5130_parameters() -> None:
    schema = Schema("image", (64, 64, 3), target="class", classes=tuple("0123456789"), levels=256)
    model = models.build("resnet", schema, depth=18)
    tops = {name.split(".")[0] for name in tree.names(eqx.filter(model, eqx.is_inexact_array))} - {"head"}
    rows = freezing.learning(model, TrainConfig(freeze=tuple(tops)))
    assert sum(learn + stay for _, learn, stay in rows) == 11_181_642
    assert sum(learn for _, learn, _ in rows) == 5130
