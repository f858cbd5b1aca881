"""Adversarial training: what is learned is what the network errs on most within the bound."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.models.protocol import parts_of
from chainrule.train import fit
from chainrule.train.adversary import attacked, check
from chainrule.train.config import Adversary

DIGITS = data.load("digits")
MODEL: Any = models.build("mlp", DIGITS, width=8, dropout=0.0)


@pytest.mark.parametrize("settings", [{"steps": 1}, {"steps": 4, "norm": "2", "eps": 8.0, "share": 0.5}])
def test_a_share_of_the_batch_moves_up_the_loss_within_the_bound_in_raw_units(
    settings: dict[str, Any],
) -> None:
    settings = {"eps": 2.0, **settings}
    batch = jax.tree.map(jnp.asarray, DIGITS.train.batch(np.arange(10)))
    (part,) = parts_of(MODEL)
    config = Adversary(**settings)
    moved = jax.jit(lambda b: attacked(b, jax.random.key(0), config, DIGITS.train, MODEL, part))(batch)
    change = np.asarray(DIGITS.scaling.inverse(moved.x) - DIGITS.scaling.inverse(batch.x)).reshape(10, -1)
    size = np.abs(change).max(axis=1) if config.norm == "inf" else np.sqrt((change**2).sum(axis=1))
    count = round(10 * config.share)
    np.testing.assert_allclose(size[:count], config.eps, rtol=0.3)
    assert size.max() <= config.eps * (1 + 1e-5)
    assert not size[count:].any()
    assert moved.x.min() >= 0
    assert moved.x.max() <= 1
    key = jax.random.key(1)
    assert float(MODEL.loss(moved, key)[0]) > float(MODEL.loss(batch, key)[0])


def test_without_a_bound_batches_are_as_they_come() -> None:
    batch = DIGITS.train.batch(np.arange(3))
    assert attacked(batch, jax.random.key(0), Adversary(), DIGITS.train, MODEL, parts_of(MODEL)[0]) is batch


def test_training_sees_the_attacked_images(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 2, "batch": 16, "log_every": 1}
    first = [
        fit(MODEL, DIGITS, run=tmp_path / str(eps), adversary={"eps": eps}, **settings).metrics["loss"][0]
        for eps in (0.0, 2.0)
    ]
    assert first[1] > first[0]


def test_what_cannot_be_attacked_is_refused() -> None:
    with pytest.raises(ArgumentError, match="entries lie between 0 and 16"):
        check(Adversary(eps=17.0), DIGITS.train, MODEL)
    moons = data.load("moons", n=40)
    with pytest.raises(ArgumentError, match="points are not images"):
        check(Adversary(eps=0.1), moons.train, models.build("mlp", moons, width=4))
    with pytest.raises(CapabilityError, match="predicts no target"):
        check(
            Adversary(eps=1.0),
            DIGITS.train,
            models.build("made", data.load("digits", binarize="threshold"), width=4),
        )
