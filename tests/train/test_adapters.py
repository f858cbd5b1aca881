"""Training with low-rank adapters: what moves, what stays to the bit, and adapters by themselves."""

import math
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.data import Data, Schema, load
from chainrule.nn import Conv, Linear, lora
from chainrule.train import Run, TrainConfig, checkpoints, fit, resume
from chainrule.train.adapters import Learnt
from chainrule.train.state import initial_state
from chainrule.train.step import Stepper
from tests.train.toys import blobs, leaves, train

FAST = {"batch": 16, "optimizer": {"name": "adamw", "lr": 0.05, "decay": 0.1}, "save_every": 4, "keep": 3}


@pytest.fixture(scope="module")
def data() -> Data:
    return blobs(48)


@pytest.fixture(scope="module")
def base(data: Data) -> Any:
    return models.build("mlp", data, width=4, depth=2, normalization="batch", dropout=0.5)


@pytest.fixture(scope="module")
def run(base: Any, data: Data, tmp_path_factory: pytest.TempPathFactory) -> Run:
    where = tmp_path_factory.mktemp("runs") / "tuned"
    return fit(
        base,
        data,
        run=where,
        steps=8,
        ema=0.5,
        lora={"rank": 2, "whole": ["head"]},
        origin={"run": "x"},
        **FAST,
    )


def test_all_but_adapters_and_whole_layers_stays_bit_for_bit_in_weights_and_averages(
    base: Any, run: Run
) -> None:
    before, plain = leaves(base), leaves(lora.merged(run.adapted_at(8), 0.0))
    moved = {name for name, array in plain.items() if not np.array_equal(array, before[name])}
    assert moved == {".head.weight", ".head.bias"}
    changed = {n for n, array in leaves(run.model_at(8)).items() if not np.array_equal(array, before[n])}
    assert changed == moved | {".blocks[0].linear.weight"}


def test_the_first_loss_is_that_of_the_base_which_drops_nothing(base: Any, run: Run, data: Data) -> None:
    _, seen, _ = train(base, data, 1, batch=48, lora={"rank": 2})
    batch = data.train.batch(np.arange(48))
    expected = -np.log(np.asarray(base.predict(jnp.asarray(batch.x)))[np.arange(48), batch.y]).mean()
    np.testing.assert_allclose(seen["loss"][0], expected, rtol=1e-5)
    for name, array in leaves(run.model_at(0)).items():
        np.testing.assert_array_equal(array, leaves(base)[name])


def test_an_optimiser_keeps_state_for_adapters_and_whole_layers_alone(base: Any, data: Data) -> None:
    *_, state = train(base, data, 1, optimizer={"name": "adam"}, lora={"rank": 3, "whole": ["head"]})
    moments = sorted(n.partition(".mu.")[2] for n in tree.names(state.optimizers) if ".mu." in n)
    assert moments == ["blocks.0.linear.weight.down", "blocks.0.linear.weight.up", "head.bias", "head.weight"]


def test_a_resumed_run_is_the_same_to_the_bit(base: Any, run: Run, data: Data, tmp_path: Path) -> None:
    settings = {"ema": 0.5, "lora": {"rank": 2, "whole": ["head"]}, **FAST}
    half = fit(base, data, run=tmp_path / "half", steps=8, minutes=1e-9, origin={"run": "x"}, **settings)
    assert half.status["step"] < 8
    again = resume(half, minutes=None)
    for name, array in leaves(again.model_at(8)).items():
        np.testing.assert_array_equal(array, leaves(run.model_at(8))[name])


def test_another_rank_is_refused_on_the_way(run: Run) -> None:
    with pytest.raises(ArgumentError, match=r"lora\.rank=3: tuned cannot change this on the way"):
        resume(run, steps=9, lora={"rank": 3})


def test_a_file_of_adapters_makes_the_base_what_the_run_is(
    base: Any, run: Run, data: Data, tmp_path: Path
) -> None:
    file = Learnt.by(run).write(tmp_path / "a" / "tuned.safetensors")
    assert sorted(safetensors.numpy.load_file(file)) == [
        "blocks.0.linear.weight.down",
        "blocks.0.linear.weight.up",
        "head.bias",
        "head.weight",
    ]
    plain = fit(base, data, run=tmp_path / "plain", steps=1, freeze=["blocks", "head.weight"], **FAST)
    for source in (file, run, run.path):
        found, wanted = plain.with_lora(source), run.model
        x = jnp.asarray(data.train.arrays["x"])
        np.testing.assert_allclose(found.model.predict(x), wanted.predict(x), atol=1e-6)  # type: ignore[attr-defined]
    both = plain.with_lora(file, run, strength=[0.25, 0.75]).model
    np.testing.assert_allclose(both.blocks[0].linear.weight, run.model.blocks[0].linear.weight, rtol=1e-5)  # type: ignore[attr-defined]
    nothing = plain.with_lora(file, strength=0).model
    np.testing.assert_array_equal(nothing.blocks[0].linear.weight, base.blocks[0].linear.weight)  # type: ignore[attr-defined]


def test_a_run_uses_its_own_adapters_as_strongly_as_it_is_told(base: Any, run: Run) -> None:
    none, half, one = (run.with_lora(strength=s).model.blocks[0].linear.weight for s in (0, 0.5, 1))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(none, base.blocks[0].linear.weight)
    np.testing.assert_allclose(half, (none + one) / 2, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gpt", {}),
        ("gpt", {"scan": True}),
        ("vit", {}),
        ("diffusion", {"denoiser": "unet", "width": 4, "depth": 1}),
        ("diffusion", {"denoiser": "dit", "width": 8, "depth": 1}),
    ],
)
def test_other_networks_get_rank_times_inputs_plus_outputs_numbers(name: str, settings: dict) -> None:
    """Counted from the shapes of their matrices, by a program of the training step that is traced, not compiled."""
    entry = models.entry(name)
    data = load("digits" if settings and name == "diffusion" else entry.toy_data)
    model = models.build(name, data, **{**entry.toy, **settings})
    config = TrainConfig.parse(steps=1, batch=4, lora={"rank": 3})
    stepper = Stepper(model, config, data.train, lambda step: 1.0, resident=True, most=1)
    state = initial_state(model, config)
    new, *_ = jax.eval_shape(
        stepper.steps, stepper.key, state, stepper.resident, stepper.feed(stepper.batches, 0, 1), 1
    )
    assert checkpoints.table(new) == checkpoints.table(state)
    layers = [
        node.weight.shape
        for node in jax.tree.leaves(model, is_leaf=lambda node: isinstance(node, Linear | Conv))
        if isinstance(node, Linear | Conv)
    ]
    stacked = [len(shape) == 3 for shape in layers]  # images have kernels of four axes
    expected = sum(
        3 * (shape[0] * (shape[1] + shape[2]) if many else math.prod(shape[:-1]) + shape[-1])
        for shape, many in zip(layers, stacked, strict=True)
    )
    whole = eqx.combine(state.model, stepper.static)
    assert tree.size(eqx.filter(whole, stepper.trainable)) == expected > 0
    assert tree.size(eqx.filter(state.optimizers, eqx.is_inexact_array)) == 2 * expected


def test_half_precision_trains_adapters_too(base: Any, data: Data) -> None:
    *_, state = train(base, data, 2, precision="bfloat16", lora={"rank": 1})
    assert np.abs(np.asarray(state.model.blocks[0].linear.weight.up)).max() > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"rank": 2, "layers": ["blokcs"]},
            "lora.layers=blokcs: no dense(.|\\n)*can be adapted: blocks.0.linear, head",
        ),
        (
            {"rank": 2, "whole": ["haed"]},
            "lora.whole=haed: no parameter has such a name .did you mean 'head'",
        ),
        ({"rank": -1}, "lora.rank"),
    ],
)
def test_a_mistake_is_told(base: Any, data: Data, settings: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        train(base, data, 1, lora=settings)


def test_what_does_not_fit_is_told(run: Run, data: Data, tmp_path: Path) -> None:
    file = Learnt.by(run).write(tmp_path / "tuned.safetensors")
    wide = models.build("mlp", data, width=5, depth=2)
    with pytest.raises(
        ArgumentError, match=r"blocks.0.linear.weight.up is \(2, 4\) in it and \(2, 5\) in the model"
    ):
        Learnt.read(file).onto(wide, 1.0)
    with pytest.raises(ArgumentError, match="holds adapters of a mlp, this is a cnn"):
        Learnt.read(file).onto(models.build("cnn", _images(), width=2), 1.0)
    with pytest.raises(ArgumentError, match="2 strengths for 1 adapters"):
        run.with_lora(file, strength=[1.0, 2.0])
    with pytest.raises(ArgumentError, match="a strength is a number"):
        run.with_lora(strength=float("nan"))
    with pytest.raises(DataError, match="there is no such file"):
        run.with_lora("nowhere.safetensors")
    with pytest.raises(DataError, match="holds low-rank adapters, which are no model by themselves"):
        models.reopen(file, data)


def test_a_run_without_adapters_is_told_how_to_get_some(base: Any, data: Data, tmp_path: Path) -> None:
    plain = fit(base, data, run=tmp_path / "plain", steps=1, **FAST)
    with pytest.raises(CapabilityError, match="plain was trained without adapters"):
        plain.with_lora(plain)
    with pytest.raises(ArgumentError, match=r"lora_strength=0\.5: plain was trained without adapters"):
        plain.with_lora(strength=0.5)


def _images() -> Schema:
    return Schema("image", (8, 8, 1), target="class", classes=("a", "b"))
