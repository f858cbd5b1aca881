"""Robustness: closed forms on linear classifiers, alarms where gradients lie, every setting against every other."""

import itertools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import data, models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Scatter
from chainrule.data.loading.in_memory import from_arrays
from chainrule.explain import probes
from chainrule.explain.methods.robustness import SUSPECTED, alarms
from chainrule.train import Run, fit

RNG = np.random.default_rng(0)
W = RNG.normal(size=6).astype(np.float32)
X = RNG.uniform(0.3, 0.7, size=(40, 6)).astype(np.float32)
BIAS = float(-np.median(X @ W))
Y = (X @ W + BIAS > 0).astype(np.int32)


def logistic(x: jax.Array) -> jax.Array:
    """Two classes, the logit of the second one linear."""
    z = x @ jnp.asarray(W) + BIAS
    return jnp.stack([jnp.zeros_like(z), z], axis=-1)


def logits(x: Any) -> np.ndarray:
    return np.asarray(x) @ W + BIAS


@pytest.mark.parametrize("attack", [cr.explain.fgsm, cr.explain.pgd])
def test_the_logit_of_logistic_regression_falls_by_eps_times_the_sum_of_weights_and_no_further(
    attack: Any,
) -> None:
    eps = 0.05
    sign = 2 * Y - 1
    found = np.asarray(attack(logistic, X, Y, eps))
    fall = eps * np.abs(W).sum()
    if attack is cr.explain.fgsm:
        np.testing.assert_allclose(sign * (logits(found) - logits(X)), -fall, rtol=1e-4)
    assert (sign * (logits(found) - logits(X)) >= -fall * (1 + 1e-4)).all()  # nobody can do better
    loss = -np.asarray(jax.nn.log_softmax(logistic(jnp.asarray(found))))[np.arange(len(Y)), Y]
    np.testing.assert_allclose(loss, np.log1p(np.exp(-sign * logits(X) + fall)), rtol=1e-3)


def test_without_classes_those_that_are_predicted_are_attacked() -> None:
    predicted = (logits(X) > 0).astype(np.int32)
    np.testing.assert_array_equal(
        cr.explain.fgsm(logistic, X, None, 0.1), cr.explain.fgsm(logistic, X, predicted, 0.1)
    )
    with pytest.raises(ArgumentError, match="towards which class"):
        cr.explain.fgsm(logistic, X, None, 0.1, targeted=True)


def test_fractions_are_numbers_where_no_range_is_known() -> None:
    np.testing.assert_array_equal(
        cr.explain.fgsm(logistic, X, Y, "8/255"), cr.explain.fgsm(logistic, X, Y, 8 / 255)
    )
    with pytest.raises(ArgumentError, match="a number or a fraction such as '8/255'"):
        cr.explain.fgsm(logistic, X, Y, "some")


def three(x: jax.Array) -> jax.Array:
    """Three classes by a curved function."""
    return jnp.stack(
        [jnp.sin(4 * x[:, 0]) + x[:, 1], x[:, 2] ** 2 - x[:, 3], jnp.cos(3 * x[:, 4]) * x[:, 5]], axis=-1
    )


GRID = [
    ("inf", "cross-entropy", False, 2),
    ("2", "margin", True, 1),
    *(
        pytest.param(*rest, marks=pytest.mark.slow)
        for rest in itertools.product(["inf", "2"], ["cross-entropy", "margin"], [False, True], [1, 2])
        if rest not in (("inf", "cross-entropy", False, 2), ("2", "margin", True, 1))
    ),
]


@pytest.mark.parametrize(("norm", "loss", "targeted", "restarts"), GRID)
def test_every_setting_meets_every_other(norm: str, loss: str, targeted: bool, restarts: int) -> None:
    y = np.asarray(three(jnp.asarray(X)).argmax(axis=-1))
    aim = (y + 1) % 3 if targeted else y
    common: dict[str, Any] = {"norm": norm, "loss": loss, "targeted": targeted, "bounds": (0.0, 1.0)}
    several: dict[str, Any] = {"restarts": restarts, **common}
    found = [
        cr.explain.fgsm(three, X, aim, 0.2, **common),
        cr.explain.pgd(three, X, aim, 0.2, 3, momentum=0.5, **several),
        cr.explain.auto_pgd(three, X, aim, 0.2, 3, **several),
        cr.explain.square_attack(three, X, aim, 0.2, 3, **several),
    ]
    for moved in map(np.asarray, found):
        change = moved - X
        size = np.abs(change).max(axis=1) if norm == "inf" else np.sqrt((change**2).sum(axis=1))
        assert (size <= 0.2 + 1e-5).all()
        assert moved.min() >= 0
        assert moved.max() <= 1


def test_the_smallest_eps_is_the_distance_to_the_border() -> None:
    predicted = (logits(X) > 0).astype(np.int32)
    for norm, dual in (("inf", np.abs(W).sum()), ("2", np.linalg.norm(W))):
        found = cr.explain.smallest_eps(logistic, X, None, 1, 20, norm=norm, rounds=10)
        np.testing.assert_allclose(found.eps, np.abs(logits(X)) / dual, rtol=0.03, atol=0.002)
        assert ((logits(found.x) > 0) != predicted).all()
    wrong = cr.explain.smallest_eps(logistic, X, 1 - predicted, 4, 2)
    assert not np.asarray(wrong.eps).any()
    with pytest.raises(ArgumentError, match="range of the examples is not known"):
        cr.explain.smallest_eps(logistic, X, None)


def test_queries_alone_fool_a_function_of_numpy_and_gradients_refuse_it() -> None:
    def plain(x: Any) -> Any:
        z = np.asarray(x) @ W + BIAS
        return np.stack([np.zeros_like(z), z], axis=-1)

    predicted = (logits(X) > 0).astype(np.int32)
    found = cr.explain.square_attack(plain, X, None, 0.3, 100)
    fooled = (logits(found) > 0) != predicted
    reach = np.abs(logits(X)) < 0.2 * np.abs(W).sum()
    assert reach.any()
    assert fooled[reach].mean() > 0.9
    with pytest.raises(CapabilityError, match=r"not made of JAX operations(.|\n)*square_attack"):
        cr.explain.pgd(plain, X, None, 0.3)

    def called(x: jax.Array) -> jax.Array:
        return jax.pure_callback(plain, jax.ShapeDtypeStruct((len(x), 2), x.dtype), x)

    with pytest.raises(CapabilityError, match="calls functions on the host"):
        cr.explain.fgsm(called, X, None, 0.3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eps": -0.1}, "must not be negative"),
        ({"eps": 1.5, "bounds": (0.0, 1.0)}, "no change can be larger than 1"),
        ({"x": X[:, :, None] * np.nan}, "not finite"),
        ({"x": X + 1, "bounds": (0.0, 1.0)}, "entries lie between 0 and 1"),
        ({"x": X[0]}, "leading batch axis"),
        ({"y": Y[:3]}, "one class number for each example"),
        ({"y": Y + 5}, "numbered 0 to 1"),
        ({"f": lambda x: x @ jnp.asarray(W)}, r"\(batch, classes\)"),
        ({"norm": "3"}, 'norm must be "inf" or "2"'),
        ({"loss": "hinge"}, 'loss must be "cross-entropy" or "margin"'),
        ({"steps": 0}, "steps must be a whole number"),
        ({"momentum": 1.0}, "momentum is the share"),
        ({"step": -1.0}, "positive length"),
        ({"restarts": 2, "random_start": False}, "all starts would be the same"),
    ],
)
def test_what_means_nothing_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        cr.explain.pgd(**{"f": logistic, "x": X, "y": Y, "eps": 0.1, **change})


def test_a_regression_is_attacked_up_its_own_loss() -> None:
    examples = from_arrays(X, X @ W)
    model: Any = models.build("mlp", examples, width=4, depth=1)
    x, y = (np.asarray(part) for part in examples.test.batch(np.arange(4))[:2])
    moved = cr.explain.pgd(model, x, y, 0.3, 3)
    off = [float(np.square(np.asarray(model.predict(jnp.asarray(z))) - y).mean()) for z in (x, moved)]
    assert off[1] > off[0]
    with pytest.raises(ArgumentError, match="predicts no class"):
        cr.explain.smallest_eps(model, x, y, 1.0)


# ---------------------------------------------------------------------- reports and alarms


def hidden(x: jax.Array) -> jax.Array:
    """The same decisions as `logistic`, behind steps that have no slope."""
    return logistic(jnp.round(x * 40) / 40)


def saturated(x: jax.Array) -> jax.Array:
    """The same decisions, with logits so large that the loss has no slope."""
    return 1e4 * logistic(x)


def test_sound_gradients_raise_no_alarm_and_lying_ones_do() -> None:
    y = (logits(X) > 0).astype(np.int32)
    settings: dict[str, Any] = {"steps": 10, "queries": 60, "bounds": (0.0, 1.0)}
    sound = cr.explain.robustness(logistic, X, y, (0, 0.05, 0.1, "1/5"), **settings)
    assert not sound.masked
    assert not sound.findings()
    assert sound.accuracy["one step"][0] == 1
    assert sound.unlimited == 0
    for curve in sound.accuracy.values():
        assert (np.diff(curve) <= 0.026).all()
    expected = [(np.abs(logits(X)) > eps * np.abs(W).sum()).mean() for eps in (0, 0.05, 0.1, 0.2)]
    np.testing.assert_allclose(sound.accuracy["one step"], expected, atol=1e-6)
    for lying in (hidden, saturated):
        report = cr.explain.robustness(lying, X, y, (0, 0.1, 0.2), **settings)
        assert report.masked
        assert report.repeated
        assert report.findings()[0] == f"{SUSPECTED[0].upper()}{SUSPECTED[1:]}."
        assert SUSPECTED[1:] in str(report)
        assert "loss=margin" in report.findings()[-1]
    climbed = cr.explain.robustness(hidden, X, y, (0, 0.1, 0.2), loss="margin", **settings)
    assert climbed.masked
    assert climbed.advice == ""


@pytest.mark.parametrize(
    ("curves", "unlimited", "words"),
    [
        ({"one step": 0.2, "many steps": 0.5}, 0.0, "many steps are weaker than a single one"),
        ({"black box": 0.2, "many steps": 0.5}, 0.0, "by queries alone is stronger"),
        ({"noise": 0.2, "one step": 0.5}, 0.0, "random noise is stronger than a step"),
        ({"noise": 0.2, "many steps": 0.5}, 0.0, "random noise is stronger than many steps"),
        ({"one step": 0.5, "many steps": 0.2}, 0.3, "With every change allowed accuracy is still 30.0%"),
    ],
)
def test_each_sign_of_masking_has_its_sentence(
    curves: dict[str, float], unlimited: float, words: str
) -> None:
    (found,) = alarms([0.1], {name: np.array([value]) for name, value in curves.items()}, 1000, unlimited)
    assert words in found
    close = {name: np.array([0.2 + 0.009 * (value > 0.2)]) for name, value in curves.items()}
    assert alarms([0.1], close, 1000, 0.009) == []  # within chance


def test_examples_made_against_one_network_are_judged_by_another() -> None:
    y = (logits(X) > 0).astype(np.int32)
    away = lambda x: jnp.flip(logistic(x), axis=-1) * jnp.asarray([[1.0, 1.0]])  # noqa: E731
    found = cr.explain.transfer_attack([logistic, lambda x: 2 * logistic(x)], X, y, 0.1, 5)
    np.testing.assert_allclose(found.clean, 1)
    np.testing.assert_allclose(found.accuracy, found.accuracy[0, 0])  # the same borders, the same examples
    opposite = cr.explain.transfer_attack([logistic, away], X, y, 0.1, 5)
    assert opposite.clean[1] == 0
    with pytest.raises(ArgumentError, match="at least two"):
        cr.explain.transfer_attack([logistic], X, y, 0.1)


# ---------------------------------------------------------------------- the probe on points and tables


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("robustness")
    draw = np.random.default_rng(1)
    rows = draw.normal(size=(200, 3)) * np.array([1.0, 100.0, 0.0])
    table = from_arrays(rows, np.array(["low", "high"])[(rows[:, 0] + rows[:, 1] / 100 > 0).astype(int)])
    found = {}
    for name, examples in (("moons", data.load("moons", n=200)), ("table", table)):
        model = models.build("mlp", examples, width=8, depth=1, dropout=0.0)
        settings: dict[str, Any] = {
            "steps": 150,
            "batch": 32,
            "eval_every": 150,
            "save_every": 150,
            "log_every": 50,
        }
        found[name] = fit(model, examples, run=folder / name, optimizer={"lr": 0.02}, **settings)
    return found


QUICK: dict[str, Any] = {"examples": 20, "steps": 4, "queries": 5, "smallest": 5, "automatic": 3}


def test_shares_measure_every_column_by_its_own_range(runs: dict[str, Run]) -> None:
    outcome = probes.examine("attack", runs["table"], shares=("0", "1/5"), **QUICK)
    found = outcome.numbers
    assert found["eps"] == [0, 0.2]
    assert found["accuracy, many steps"][1] < found["accuracy, many steps"][0]
    assert any("20.0% of the range of its column" in line for line in outcome.findings)
    changed: Any = next(picture for picture in outcome.pictures if picture.name == "attack-columns")
    moved = {row[0]: abs(row[2]) for row in changed.rows}
    assert moved["column 2"] == 0  # a column that never changes stays
    assert moved["column 1"] > 20 * moved["column 0"] > 0


def test_eps_is_in_raw_units_for_every_column_alike(runs: dict[str, Run]) -> None:
    outcome = probes.examine("attack", runs["table"], eps=(0.5,), norm="2", target="high", **QUICK)
    assert outcome.numbers["eps"] == [0.0, 0.5]
    assert outcome.numbers["range"][1] > 100
    assert "taken for the target, own steps" in outcome.numbers
    with pytest.raises(ArgumentError, match="no change can be larger"):
        probes.examine("attack", runs["table"], eps=(1e4,), **QUICK)


def test_the_plane_shows_paths_across_the_border(runs: dict[str, Run]) -> None:
    outcome = probes.examine("attack", runs["moons"], shares=(0.0, 0.3), **QUICK)
    drawn = next(picture for picture in outcome.pictures if picture.name == "attack-map")
    assert isinstance(drawn, Scatter)
    assert drawn.arrows is not None
    starts, steps = drawn.arrows
    assert len(starts) == len(steps) == 6 * QUICK["steps"]
    model: Any = runs["moons"].model
    scaling = runs["moons"].scaling
    ends = (starts + steps).reshape(QUICK["steps"], 6, 2)
    path = [
        np.asarray(model.predict(jnp.asarray(scaling.apply(p.astype(np.float32)))))
        for p in (starts[:6], ends[-1])
    ]
    assert (path[0].argmax(axis=1) != path[1].argmax(axis=1)).any()
    assert outcome.numbers["smallest eps"]["eps"]


def test_fractions_are_shares_of_the_range_and_an_eps_below_one_level_is_remarked(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    x = draw.integers(0, 256, size=(60, 2, 2, 1), dtype=np.uint8)
    examples = from_arrays(x, np.array(["dark", "bright"])[(x.mean(axis=(1, 2, 3)) > 128).astype(int)])
    run = fit(
        models.build("mlp", examples, width=4), examples, run=tmp_path / "run", steps=2, batch=8, log_every=2
    )
    outcome = probes.examine("attack", run, eps=(8 / 255,), **QUICK)
    assert any("less than one of 256 levels" in line and "shares=0.0314" in line for line in outcome.findings)
    written, levels = (probes.examine("attack", run, eps=eps, **QUICK) for eps in (("8/255",), (8, 0)))
    assert written.numbers == levels.numbers  # in whatever order sizes are given
    raw, y = x[:4].astype(np.float32), np.zeros(4, np.int32)
    np.testing.assert_array_equal(cr.explain.fgsm(run, raw, y, "8/255"), cr.explain.fgsm(run, raw, y, 8.0))
    with pytest.raises(ArgumentError, match="give all of them so, or none"):
        probes.examine("attack", run, eps=("8/255", 8))


def test_settings_that_exclude_each_other_are_refused(runs: dict[str, Run]) -> None:
    with pytest.raises(ArgumentError, match="all starts are the same"):
        probes.examine("attack", runs["moons"], random_start=False, restarts=2)
    with pytest.raises(ArgumentError, match="sigma says already"):
        probes.examine("certificate", runs["moons"], sigma=(1.0,), shares=(0.2,))
