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
from chainrule.train.adversary import AttackedBatch, attacked, check, divergence
from chainrule.train.config import Adversary, TrainConfig
from chainrule.train.robust_accuracy import collapse

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
    moved = jax.jit(lambda b: attacked(b, jax.random.key(0), config, DIGITS.train, MODEL, part).moved)(batch)
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
    (part,) = parts_of(MODEL)
    assert attacked(batch, jax.random.key(0), Adversary(), DIGITS.train, MODEL, part).moved is batch


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
    text = data.load("shakespeare", window=8)
    reader = models.build("gpt", text, width=8, heads=1, layers=1)
    with pytest.raises((ArgumentError, CapabilityError), match=r"adversary\.eps"):
        check(Adversary(eps=0.1), text.train, reader)
    values = data.from_arrays(np.zeros((20, 3)), np.arange(20.0))
    with pytest.raises(ArgumentError, match=r"adversary\.trades=6: .* predicts no class"):
        check(Adversary(eps=0.1, trades=6), values.train, models.build("mlp", values, width=4))
    with pytest.raises(ArgumentError, match=r"adversary\.steps=7: nothing is attacked"):
        check(Adversary(steps=7), DIGITS.train, MODEL)
    with pytest.raises(ValueError, match="leave weight out"):
        Adversary(eps=0.1, trades=6, weight=0.5)
    with pytest.raises(CapabilityError, match="predicts no target"):
        check(
            Adversary(eps=1.0),
            DIGITS.train,
            models.build("made", data.load("digits", binarize="threshold"), width=4),
        )


def test_the_loss_is_that_of_attacked_examples_of_both_or_of_answers_that_stay() -> None:
    (part,) = parts_of(MODEL)
    batch = jax.tree.map(jnp.asarray, DIGITS.train.batch(np.arange(6)))
    key = jax.random.key(0)
    moved = batch._replace(x=1 - batch.x)
    both = AttackedBatch(batch, moved)
    clean, attacked_loss = (float(part.loss(MODEL, one, key)[0]) for one in (batch, moved))
    of = lambda **settings: float(both.loss(MODEL, part, key, Adversary(eps=1.0, **settings))[0])  # noqa: E731
    assert of() == pytest.approx(attacked_loss, rel=1e-6)
    assert of(weight=0.25) == pytest.approx(0.25 * attacked_loss + 0.75 * clean, rel=1e-5)
    p, q = (np.asarray(MODEL.predict(one.x), np.float64) for one in (batch, moved))
    apart = float((p * np.log(p / q)).sum(axis=1).mean())
    assert of(trades=3.0) == pytest.approx(clean + 3 * apart, rel=1e-4)


def test_trades_moves_examples_to_where_answers_differ_most() -> None:
    (part,) = parts_of(MODEL)
    batch = jax.tree.map(jnp.asarray, DIGITS.train.batch(np.arange(6)))
    settings = Adversary(eps=2.0, steps=3, trades=6.0)
    found = jax.jit(lambda b: attacked(b, jax.random.key(0), settings, DIGITS.train, MODEL, part).moved)(
        batch
    )
    noise = np.random.default_rng(0).choice([-2.0, 2.0], size=batch.x.shape) / 16
    apart = [
        np.asarray(divergence(MODEL.logits(batch.x), MODEL.logits(jnp.asarray(x, jnp.float32))))
        for x in (found.x, np.clip(np.asarray(batch.x) + noise, 0, 1))
    ]
    assert (apart[0] > apart[1]).all()


def test_points_and_rows_are_attacked_in_their_own_units(tmp_path: Path) -> None:
    moons = data.load("moons", n=60)
    run = fit(
        models.build("mlp", moons, width=4),
        moons,
        run=tmp_path / "moons",
        steps=2,
        batch=16,
        log_every=1,
        eval_every=2,
        best="robust_accuracy",
        adversary={"eps": 0.1, "steps": 2, "trades": 6},
    )
    assert {"divergence", "robust_accuracy"} <= set(run.metrics)
    assert "robust_accuracy" in run.status["best"]


def test_shares_of_a_range_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"eps='8/255': .*raw units.* 8 for 8/255"):
        TrainConfig.parse(adversary={"eps": "8/255"})


def history(robust: list[float], single: list[float]) -> dict[str, np.ndarray]:
    return {
        "step": np.arange(1, len(robust) + 1) * 100,
        "split": np.array(["val"] * len(robust)),
        "robust_accuracy": np.array(robust),
        "single_step_accuracy": np.array(single),
    }


def test_a_network_that_learns_one_step_only_is_noticed() -> None:
    one = Adversary(eps=1.0)
    fallen = history([0.3, 0.5, 0.1], [0.4, 0.6, 0.9])
    said = collapse(one, fallen)
    assert said.startswith(
        "catastrophic over-fitting: from step 200 to 300 accuracy under 10 steps fell from 50.0% to"
    )
    assert "adversary.steps=2" in said
    assert not collapse(Adversary(eps=1.0, steps=2), fallen)
    assert not collapse(one, history([0.3, 0.5, 0.4], [0.4, 0.6, 0.9]))  # a little less is no collapse
    assert not collapse(one, history([0.3, 0.5, 0.1], [0.4, 0.6, 0.2]))  # a network that forgets everything
    assert not collapse(one, {"step": np.arange(2), "split": np.array(["val"] * 2)})


def test_a_run_that_collapses_is_stopped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chainrule.train import robust_accuracy

    values = iter([(0.6, 0.6), (0.1, 0.9)])

    def measured(*_: Any) -> dict[str, float]:
        robust, single = next(values)
        return {"robust_accuracy": robust, "single_step_accuracy": single}

    monkeypatch.setattr(robust_accuracy, "measured", measured)
    settings: dict[str, Any] = {"steps": 8, "batch": 16, "log_every": 2, "eval_every": 2}
    run = fit(MODEL, DIGITS, run=tmp_path / "run", adversary={"eps": 2.0}, **settings)
    assert run.status["status"] == "done"
    assert run.status["step"] == 4
    assert "catastrophic over-fitting" in run.status["message"]
