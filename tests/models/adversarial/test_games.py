"""Games as functions of scores, distances of samples, augmentation, rejection and alarms: what needs no training."""

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError
from chainrule.core.pictures import Lines
from chainrule.models.adversarial import diagnostics
from chainrule.models.adversarial.augmenting import CHANGES, changed
from chainrule.models.adversarial.distance import coverage_and_precision, kernel_distance, spread
from chainrule.models.adversarial.games import games, right_share
from chainrule.models.adversarial.gan.model import GANConfig
from chainrule.models.adversarial.rejection import accepted
from chainrule.models.protocol import HasDiagnostics

KEY = jax.random.key(0)

# ---------------------------------------------------------------------- games


def test_the_minimax_gradient_fades_where_the_discriminator_is_sure_and_the_other_does_not() -> None:
    scores = jnp.array([-8.0])
    slopes = {
        name: float(jax.grad(lambda a, game=games[name]: game.generator(a, a))(scores)[0])
        for name in ("minimax", "non-saturating")
    }
    assert abs(slopes["minimax"]) == pytest.approx(3.353501e-4, rel=1e-5)
    assert abs(slopes["non-saturating"]) == pytest.approx(0.9996646, rel=1e-6)
    assert slopes["non-saturating"] / slopes["minimax"] == pytest.approx(2980.958, rel=1e-4)


def test_every_game_is_the_formula_of_its_paper() -> None:
    real, fake = np.array([0.7, -1.2, 2.0]), np.array([-0.4, 0.9, -3.0])

    def softplus(x: np.ndarray) -> np.ndarray:
        return np.log1p(np.exp(x))

    expected = {
        "minimax": (softplus(-real) + softplus(fake), -softplus(fake)),
        "non-saturating": (softplus(-real) + softplus(fake), softplus(-fake)),
        "least-squares": ((real - 1) ** 2 / 2 + fake**2 / 2, (fake - 1) ** 2 / 2),
        "hinge": (np.maximum(0, 1 - real) + np.maximum(0, 1 + fake), -fake),
        "wasserstein": (fake - real, -fake),
        "relativistic": (softplus(fake - real), softplus(real - fake)),
    }
    assert set(expected) == set(games)
    for name, (judge, maker) in expected.items():
        game = games[name]
        found = game.discriminator(jnp.asarray(real), jnp.asarray(fake), 1.0)
        np.testing.assert_allclose(found, judge.mean(), rtol=1e-5)
        np.testing.assert_allclose(
            game.generator(jnp.asarray(real), jnp.asarray(fake)), maker.mean(), rtol=1e-5
        )


@pytest.mark.parametrize(("target", "expected"), [(1.0, (5 / 7, 3 / 5, 1 / 4)), (0.9, (9 / 14, 0.54, 0.225))])
def test_the_best_discriminator_is_the_share_of_the_data_times_the_target(
    target: float, expected: tuple[float, ...]
) -> None:
    p, q = np.array([0.5, 0.3, 0.2], np.float32), np.array([0.2, 0.2, 0.6], np.float32)

    def loss(scores: jax.Array) -> jax.Array:
        """Every outcome as often as it comes: a generated example that is surely told for one costs nothing."""
        own = games["non-saturating"].discriminator
        nothing = jnp.full(1, -1e3)
        real = jnp.stack([own(s[None], nothing, target) for s in scores])
        both = jnp.stack([own(s[None], s[None], target) for s in scores])
        return (jnp.asarray(p) * real + jnp.asarray(q) * (both - real)).sum()

    def step(_: int, scores: jax.Array) -> jax.Array:
        return scores - 4.0 * jax.grad(loss)(scores)

    scores = jax.jit(lambda: jax.lax.fori_loop(0, 400, step, jnp.zeros(3)))()
    np.testing.assert_allclose(jax.nn.sigmoid(scores), expected, atol=1e-4)
    np.testing.assert_allclose(target * p / (p + q), expected, atol=1e-6)


def test_pairs_are_right_where_the_real_example_has_the_higher_score() -> None:
    real, fake = jnp.array([1.0, -2.0]), jnp.array([0.0, -1.0])
    assert [float(s) for s in right_share(games["relativistic"], real, fake)] == [0.5, 0.5]
    assert [float(s) for s in right_share(games["minimax"], real, fake)] == [0.5, 0.5]
    # With a target of 0.9 the best discriminator gives 0.45 to what is as likely real as generated.
    near = jnp.log(jnp.array([0.46, 0.44]) / jnp.array([0.54, 0.56]))
    assert [float(s) for s in right_share(games["minimax"], near, near, 0.9)] == [0.5, 0.5]
    assert [float(s) for s in right_share(games["minimax"], near, near)] == [0.0, 1.0]


# ---------------------------------------------------------------------- distances


def test_the_kernel_distance_is_that_of_a_loop() -> None:
    noise = np.random.default_rng(0)
    x, y = noise.normal(size=(7, 3)), noise.normal(size=(5, 3)) + 1

    def mean(of: Any, a: np.ndarray, b: np.ndarray, same: bool) -> float:
        pairs = [(u, v) for i, u in enumerate(a) for j, v in enumerate(b) if not (same and i == j)]
        return float(np.mean([of(np.linalg.norm(u - v)) for u, v in pairs]))

    scale = mean(np.square, x, x, True) ** 0.5
    expected = 0.0
    for share in (1.0, 0.25, 0.0625):
        kernel = lambda d, share=share: np.exp(-((d / (share * scale)) ** 2) / 2)  # noqa: E731
        own = mean(kernel, x, x, True) + mean(kernel, y, y, True)
        expected += (own / 2 - mean(kernel, x, y, False)) / 3
    np.testing.assert_allclose(kernel_distance(jnp.asarray(x), jnp.asarray(y)), expected, rtol=1e-4)
    np.testing.assert_allclose(spread(jnp.asarray(x)), scale, rtol=1e-4)


def test_coverage_tells_missing_modes_and_precision_tells_stray_points() -> None:
    noise = np.random.default_rng(0)
    real = np.repeat([[-5.0, 0.0], [5.0, 0.0]], 50, axis=0) + 0.1 * noise.normal(size=(100, 2))
    half = np.concatenate([real[:50], real[:50]])
    coverage, precision = coverage_and_precision(jnp.asarray(real), jnp.asarray(half))
    assert float(coverage) == pytest.approx(0.5)
    assert float(precision) == 1.0
    coverage, precision = coverage_and_precision(
        jnp.asarray(real), jnp.asarray(real + np.array([100.0, 0.0]))
    )
    assert float(coverage) == float(precision) == 0.0


# ---------------------------------------------------------------------- augmentation and rejection


def test_augmentation_keeps_shapes_and_lets_gradients_through() -> None:
    x = jax.random.uniform(KEY, (4, 8, 8, 3))
    for name in CHANGES:
        found = changed(x, (name,), KEY)
        assert found.shape == x.shape
        assert not np.allclose(found, x)
        slope = jax.grad(lambda x, name=name: jnp.square(changed(x, (name,), KEY)).sum())(x)
        assert np.asarray(slope).any()
    with pytest.raises(ArgumentError, match="only images are augmented"):
        cr.models.build("gan", cr.data.load("ring", n=100), changes=("cutout",))


def test_rejection_makes_draws_follow_the_ratio() -> None:
    class Fixed:
        game = games["non-saturating"]
        real_target = 0.9
        discriminator = dataclasses.make_dataclass("Context", [("pack", int)])(1)

    # Proposals are uniform on three values, and wanted in shares of 1 : 2 : 4. Smoothed labels bend the scores.
    share = 0.9 * jnp.array([1.0, 2.0, 4.0]) / (1 + jnp.array([1.0, 2.0, 4.0]))
    wanted = jnp.log(share) - jnp.log1p(-share)
    for name, scores in (("non-saturating", wanted), ("least-squares", share)):
        ratio = games[name].log_ratio
        assert ratio is not None
        np.testing.assert_allclose(ratio(scores, 0.9), np.log([1.0, 2.0, 4.0]), atol=1e-5)

    def draw(key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (3000,), 0, 3).astype(jnp.float32)

    found = np.asarray(accepted(Fixed(), draw, lambda x: wanted[x.astype(int)], KEY, 3000)).astype(int)
    np.testing.assert_allclose(np.bincount(found) / 3000, [1 / 7, 2 / 7, 4 / 7], atol=0.03)


# ---------------------------------------------------------------------- alarms


def history(**columns: tuple[str, list[float]]) -> dict[str, np.ndarray]:
    """Lines a hundred steps apart."""
    count = max(len(values) for _, values in columns.values())
    rows: dict[str, list[Any]] = {
        "step": [],
        "split": [],
        **{name.replace("__", "."): [] for name in columns},
    }
    for split in ("train", "val"):
        for i in range(count):
            rows["step"].append(100 * (i + 1))
            rows["split"].append(split)
            for name, (own, values) in columns.items():
                known = own == split and i < len(values)
                rows[name.replace("__", ".")].append(values[i] if known else np.nan)
    return {name: np.array(values) for name, values in rows.items()}


def named(game: str, **columns: tuple[str, list[float]]) -> list[str]:
    return [alarm.name for alarm in diagnostics.alarms(games[game], history(**columns), GANConfig())]


def test_alarms_are_raised_for_what_they_are_about_and_name_remedies() -> None:
    right = {
        "discriminator__real_accuracy": ("train", [1.0] * 6),
        "discriminator__fake_accuracy": ("train", [1.0] * 6),
    }
    assert named("non-saturating", **right) == ["discriminator perfect"]
    assert named("wasserstein", **right) == []
    assert (
        named("non-saturating", **{**right, "discriminator__fake_accuracy": ("train", [1.0] * 5 + [0.9])})
        == []
    )
    assert named("minimax", generator__grad_norm=("train", [1e-7] * 3)) == ["generator without gradient"]
    assert named("minimax", generator__grad_norm=("train", [1e-7, 1e-7, 1e-3])) == []
    assert named("minimax", coverage=("val", [0.9, 0.4, 0.3, 0.2])) == ["collapse"]
    assert named("minimax", generator__spread=("train", [0.05] * 3)) == ["collapse"]
    assert named("minimax", coverage=("val", [0.2, 0.4, 0.9])) == []
    begun = {"coverage": ("val", [0.1, 0.2, 0.3, 0.3]), "precision": ("val", [0.0, 0.1, 0.2, 0.2])}
    assert named("minimax", **begun, loss=("val", [0.4, 0.3, 0.2, 0.1])) == []
    assert named("minimax", **begun, loss=("val", [0.1, 0.3, 0.2, 0.1])) == ["off the data"]
    few = {**begun, "precision": ("val", [0.9] * 4)}
    assert named("minimax", **few, loss=("val", [0.4, 0.3, 0.2, 0.1])) == ["collapse"]
    large = {
        "discriminator__real_high": ("train", [200.0] * 3),
        "discriminator__fake_low": ("train", [-3.0] * 3),
    }
    assert named("hinge", **large) == []
    assert named("minimax", **large) == ["scores diverging"]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("gan", {}),
        ("gan", {"game": "minimax", "pack": 2, "minibatch_std": True}),
        ("gan", {"game": "non-saturating", "r1": 1.0, "r2": 1.0, "spectral": "layer"}),
        ("gan", {"r1": 5.0, "conditional": True}),
        ("gan", {"pack": 2, "minibatch_std": True}),
        ("wgan", {}),
        ("wgan-gp", {}),
        ("f-gan", {}),
        ("dcgan", {}),
    ],
)
def test_remedies_are_settings_that_a_model_takes_and_does_not_have_yet(
    name: str, given: dict[str, Any]
) -> None:
    kind = cr.models.entry(name).config
    config = kind(**given)
    lines = history(
        discriminator__real_accuracy=("train", [1.0] * 6),
        discriminator__fake_accuracy=("train", [1.0] * 6),
        discriminator__real_high=("train", [200.0] * 3),
        discriminator__fake_low=("train", [-3.0] * 3),
        generator__grad_norm=("train", [1e-9] * 3),
        generator__lr=("train", [5e-5] * 6),
        discriminator__lr=("train", [2e-5] * 6),
        coverage=("val", [0.1] * 3),
    )
    found = diagnostics.alarms(games["minimax"], lines, config)
    assert len(found) == 4
    for alarm in found:
        own, _, another = alarm.text.partition("chainrule train gan")
        assert bool(another) == (name != "gan"), alarm.text
        asked = dict(re.findall(r"(\w[\w.]*)=([\w.-]+\w)", own))
        assert asked or another, alarm.text
        assert alarm.text.count("=") >= 2, alarm.text
        assert "What helps: ," not in alarm.text
        rates = {"optimizer.lr": 5e-5, "parts.discriminator.lr": 2e-5}
        for setting, value in asked.items():
            if setting in rates:
                assert float(value) < rates[setting]
                continue
            changed = kind.model_validate({**config.model_dump(), setting: value})
            assert getattr(changed, setting) != getattr(config, setting), alarm.text


def test_alarms_are_marked_where_they_were_raised_though_all_is_well_at_the_end() -> None:
    model = cr.models.build("gan", cr.data.load("ring", n=100), width=4, depth=1)
    assert isinstance(model, HasDiagnostics)
    lines = history(
        coverage=("val", [0.1] * 4 + [0.9] * 3),
        **{
            f"discriminator__{who}_{mark}": ("train", [float(i)] * 7)
            for who in ("real", "fake")
            for i, mark in enumerate(("low", "middle", "high"))
        },
    )
    assert model.alarms(lines) == []
    assert [(alarm.name, alarm.step) for alarm in model.alarms_along(lines)] == [("collapse", 300)]
    (scores,) = (one for one in model.curves(lines) if one.name == "scores")
    assert isinstance(scores, Lines)
    assert list(scores.marks) == [(300.0, "collapse")]


def test_the_gap_of_a_critic_is_drawn_as_not_calibrated_with_clipped_shares_or_slopes_beside_it() -> None:
    lines = history(
        discriminator__gap=("train", [0.3, 0.2]),
        discriminator__clipped_share=("train", [0.5, 0.6]),
        discriminator__slope_mean=("train", [0.9, 1.1]),
    )
    drawn = {picture.name: picture.title for picture in diagnostics.curves(games["wasserstein"], lines, [])}
    assert drawn.keys() == {"gap", "clipped", "slope-lengths"}
    assert "not calibrated" in drawn["gap"]
    assert not diagnostics.curves(games["relativistic"], lines, [])
