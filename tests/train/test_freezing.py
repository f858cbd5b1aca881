"""Frozen layers: bit for bit as they were, without state of an optimiser, and in inference mode."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core import tree
from chainrule.core.errors import ArgumentError
from chainrule.data import Data
from tests.train.toys import blobs, leaves, rows, train

ADAM = {"name": "adamw", "lr": 0.01, "decay": 0.1}


@pytest.fixture(scope="module")
def data() -> Data:
    return blobs(48)


@pytest.fixture(scope="module")
def fresh(data: Data) -> Any:
    return models.build("mlp", data, width=4, depth=3, normalization="batch", dropout=0.5)


@pytest.fixture(scope="module")
def trained(fresh: Any, data: Data) -> tuple:
    return train(fresh, data, 8, optimizer=ADAM, freeze=["blocks.0", "*.bias"])


def test_frozen_layers_stay_bit_for_bit_and_the_others_move(fresh: Any, trained: tuple) -> None:
    before, after = leaves(fresh), leaves(trained[0])
    for name, array in after.items():
        frozen = name.startswith(".blocks[0]") or name.endswith(".bias")
        assert np.array_equal(array, before[name]) == frozen, name


def test_an_optimiser_keeps_nothing_for_what_is_frozen(trained: tuple) -> None:
    moments = [name for name in tree.names(trained[2].optimizers) if ".mu." in name]
    assert sorted(name.partition(".mu.")[2] for name in moments) == [
        "blocks.1.linear.weight",
        "blocks.1.norm.scale",
        "blocks.1.norm.shift",
        "head.weight",
    ]


def test_running_statistics_of_a_frozen_layer_stand_still_while_those_of_another_move(
    fresh: Any, trained: tuple
) -> None:
    for layer, still in ((0, True), (1, False)):
        before, after = (model.blocks[layer].norm.mean for model in (fresh, trained[0]))
        assert np.array_equal(before, after) == still


def test_a_frozen_layer_drops_nothing(fresh: Any, data: Data) -> None:
    _, seen, _ = train(fresh, data, 1, batch=48, freeze=["blocks"])
    batch = data.train.batch(np.arange(48))
    expected = -np.log(np.asarray(fresh.predict(jnp.asarray(batch.x)))[np.arange(48), batch.y]).mean()
    np.testing.assert_allclose(seen["loss"][0], expected, rtol=1e-5)


def test_frozen_blocks_of_a_residual_network_keep_their_running_statistics() -> None:
    """A network whose blocks are frozen is the one they were trained in: only its head learns."""
    x = np.random.default_rng(0).uniform(size=(16, 8, 8, 1)).astype(np.float32)
    images = rows(x, np.arange(16, dtype=np.int32) % 2, kind="image", target="class", classes=("a", "b"))
    fresh = models.build("resnet", images, depth=8, width=2)
    trained, seen, _ = train(fresh, images, 2, batch=16, freeze=["stem", "stages"])
    before, after = leaves(fresh), leaves(trained)
    moved = {name.split(".")[1] for name, array in after.items() if not np.array_equal(array, before[name])}
    assert moved == {"head"}
    expected = -np.log(np.asarray(fresh.predict(jnp.asarray(x)))[np.arange(16), np.arange(16) % 2]).mean()  # type: ignore[attr-defined]
    np.testing.assert_allclose(seen["loss"][0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("freeze", "message"),
    [
        (["blosk"], "freeze=blosk: no parameter has such a name"),
        (["blocks", "head"], "nothing is left to train"),
    ],
)
def test_patterns_that_cannot_be_meant_are_refused(
    fresh: Any, data: Data, freeze: list[str], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        train(fresh, data, 1, freeze=freeze)


def test_without_patterns_nothing_is_frozen(fresh: Any, data: Data) -> None:
    trained, _, state = train(fresh, data, 1, optimizer=ADAM)
    del trained
    parameters = {name.partition(".mu.")[2] for name in tree.names(state.optimizers) if ".mu." in name}
    moved = {name for name, leaf in tree.named_leaves(fresh) if isinstance(leaf, jax.Array)}
    assert parameters == {name for name in moved if not name.endswith((".mean", ".var"))}
