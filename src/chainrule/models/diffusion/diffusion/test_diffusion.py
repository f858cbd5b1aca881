"""The diffusion model beyond the promises every model keeps: its bound, its options, what it refuses, its pictures."""

import functools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Bars, Film, Images, Lines, Scatter
from chainrule.data import Batch, Schema
from chainrule.models.diffusion import schedules
from chainrule.models.diffusion.denoiser import Denoiser
from chainrule.models.diffusion.diffusion import Diffusion
from chainrule.models.diffusion.process import Level, noised
from tests.contracts import checks

DIGITS = Schema("image", (2, 2, 1), target="class", classes=("a", "b", "c"), levels=17)
PLAIN = Schema("table", (3,), target="none")
KEY = jax.random.key(0)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@functools.cache
def build(schema: Schema, **settings: Any) -> Diffusion:
    model = models.build("diffusion", schema, **{"width": 8, "depth": 1, **settings})
    assert isinstance(model, Diffusion)
    return model


def batch(schema: Schema, n: int = 8) -> Batch:
    noise = np.random.default_rng(0)
    x = noise.integers(0, 17, (n, *schema.shape)) / 16 if schema.levels else noise.normal(size=(n, 3))
    y = jnp.asarray(np.arange(n) % 3, jnp.int32) if schema.target == "class" else None
    return Batch(jnp.asarray(x, jnp.float32), y)


@pytest.mark.parametrize("target", ["eps", "v"])
def test_levels_that_no_sample_visits_count_no_more_than_the_first_that_one_does(target: str) -> None:
    model = build(PLAIN, target=target, weight="velocity")
    start = model.starting_noise()
    assert start is not None
    lams = jnp.array([-19.0, -12.0, -2 * math.log(start), 0.0, 5.0])
    found = np.asarray(eqx.filter_jit(model._weight)(lams, jnp.ones_like(lams)))
    wanted = {"eps": [1 + start**2] * 3 + [2, 1 + math.exp(-5)], "v": [1] * 5}[target]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_fresh_model_predicts_nothing_and_its_loss_is_the_size_of_the_target() -> None:
    model, examples = build(DIGITS), batch(DIGITS, 512)
    x0 = model.to_network_units(examples.x)
    losses = eqx.filter_jit(jax.vmap(lambda key: model.loss(examples, key)[0]))(jax.random.split(KEY, 20))
    level = model.schedule.level((np.arange(512, dtype=np.float32) + 0.5) / 512)
    signal, noise = float(jnp.square(x0).mean()), 1.0
    by_hand = float((jnp.square(level.a) * noise + jnp.square(level.s) * signal).mean())
    assert float(losses.mean()) == pytest.approx(by_hand, rel=0.02)


@pytest.mark.parametrize(
    "settings",
    [
        {"target": "x0", "weight": "min-snr", "noise": "linear", "conditional": False},
        {"target": "eps", "weight": "bound", "noise": "logsnr-linear"},
        {"target": "u", "noise": "rectified"},
    ],
)
def test_variants_keep_the_promises_of_the_loss(settings: dict) -> None:
    model, examples = build(DIGITS, **settings), batch(DIGITS)
    checks.check_jit(model, examples)
    checks.check_gradient(model, examples)


def test_the_weight_follows_the_target_unless_it_is_given() -> None:
    assert [build(DIGITS, target=t).config.weight for t in ("v", "eps", "x0")] == [
        "velocity",
        "simple",
        "velocity",
    ]
    assert build(DIGITS, target="eps", weight="velocity").config.weight == "velocity"
    with pytest.raises(ArgumentError, match="target"):
        build(DIGITS, target="epsilon")


def test_the_bound_of_a_model_that_knows_nothing_is_above_the_cost_of_uniform_levels() -> None:
    model, examples = build(DIGITS), batch(DIGITS, 256)
    bound = eqx.filter_jit(model.elbo)(examples.x, KEY)
    bits = -(np.asarray(bound) - 4 * math.log(16)) / (4 * math.log(2))
    assert bits.mean() > math.log2(17)
    terms = eqx.filter_jit(model.terms)(examples.x, KEY)
    assert float(jnp.abs(terms.prior).max()) < 1e-4
    assert float(terms.reconstruction.mean()) / 4 < 0.2


def test_a_perfectly_known_example_costs_nothing_but_its_reconstruction() -> None:
    model = build(PLAIN)
    x = jnp.zeros((4, 3))
    model = eqx.tree_at(lambda m: m.denoiser, model, _KnowsZero())
    terms = eqx.filter_jit(model.terms)(x, KEY)
    np.testing.assert_allclose(terms.diffusion, 0, atol=1e-4)


@final
class _KnowsZero(Denoiser):
    """The denoiser of data that are zero."""

    target: str = eqx.field(static=True, default="eps")

    def predict(self, x: jax.Array, level: Level, condition: Any = None) -> jax.Array:
        del condition
        return x / level.s[:, None]


@pytest.mark.parametrize(
    "options",
    [
        {"sampler": "ddim", "steps": 3, "eta": 0.5},
        {"sampler": "ddpm", "steps": 3, "clip": "dynamic"},
        {"sampler": "sigma", "steps": 3, "mu": 0.2},
        {"sampler": "dpm-solver", "steps": 3, "spacing": "uniform-lam", "guidance": 3.0},
        {"sampler": "heun", "steps": 3, "spacing": "karras", "guidance": 0},
    ],
    ids=lambda options: options["sampler"],
)
def test_samples_have_the_shape_and_range_of_the_data_by_every_sampler(options: dict) -> None:
    out = build(DIGITS).sample(KEY, 5, condition=np.array([0, 1, 2, 0, 1]), **options)
    assert out.shape == (5, 2, 2, 1)
    assert ((out >= -1e-6) & (out <= 1 + 1e-6)).all()


def test_the_variance_of_a_step_is_learned_beside_the_estimate_and_used_by_ancestral_sampling() -> None:
    model, examples = build(DIGITS, variance="learned"), batch(DIGITS)
    slope = eqx.filter_jit(eqx.filter_grad(lambda m: m.loss(examples, KEY)[0]))
    plain = eqx.tree_at(lambda m: m.denoiser, build(DIGITS), model.denoiser.inner)
    for one, other in zip(
        jax.tree.leaves(slope(model).denoiser.inner), jax.tree.leaves(slope(plain).denoiser), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert any(float(jnp.abs(g).max()) > 0 for g in jax.tree.leaves(slope(model).denoiser.beside))
    options = {"condition": 0, "sampler": "ddpm", "steps": 3}
    small, learned = (model.sample(KEY, 3, variance=v, **options) for v in ("small", "learned"))
    assert not np.allclose(small, learned)


def test_many_samples_are_drawn_in_parts_with_noise_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from chainrule.models.diffusion import generative as module

    monkeypatch.setattr(module, "_BATCH", 4)
    out = np.asarray(build(PLAIN).sample(KEY, 10, steps=2))
    assert out.shape == (10, 3)
    assert len(np.unique(out[:, 0])) == 10


def test_classes_are_numbers_or_names_one_for_all_or_one_for_each() -> None:
    model = build(DIGITS)
    np.testing.assert_array_equal(model.conditions("b", 2), [1, 1])
    np.testing.assert_array_equal(model.conditions(["c", "a"], 2), [2, 0])
    np.testing.assert_array_equal(model.conditions(2, 2), [2, 2])


@pytest.mark.parametrize(
    ("settings", "options", "error", "message"),
    [
        ({}, {"condition": 3}, ArgumentError, "numbered 0 to 2"),
        ({}, {"condition": "bb"}, ArgumentError, "did you mean 'b'"),
        ({}, {"condition": [0, 1]}, ArgumentError, "one for each of 4"),
        ({"conditional": False}, {"guidance": 2.0}, CapabilityError, "leads towards a condition"),
        (
            {"condition_dropout": 0.0},
            {"guidance": 0},
            CapabilityError,
            "condition_dropout=0: it knows nothing",
        ),
        ({"class_shares": (0.5, 0.5)}, {}, ArgumentError, "class_shares=0.5,0.5: the data have 3 classes"),
        ({}, {"condition": 0, "guidance": -1.0}, ArgumentError, "guidance=-1.0"),
        ({}, {"sampler": "dim"}, ArgumentError, "did you mean 'ddim'"),
        ({}, {"steps": 0}, ArgumentError, "steps=0"),
        ({}, {"steps": 2000}, ArgumentError, "1000 levels"),
        ({"condition_dropout": 0.0}, {"condition": 0, "guidance": 2.0}, CapabilityError, "without dropping"),
        ({"conditional": False}, {"condition": 0}, CapabilityError, "without classes"),
    ],
    ids=range(12),
)
def test_what_cannot_be_drawn_is_refused(
    settings: dict, options: dict, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build(DIGITS, **settings).sample(KEY, 4, **options)


def test_walks_at_equal_cost_need_an_evaluation_and_a_sampler_that_exists() -> None:
    noise = jnp.zeros((1, 2, 2, 1))
    with pytest.raises(ArgumentError, match="evaluations=0"):
        build(DIGITS).walk(noise, "ddim", 0, KEY)
    with pytest.raises(ArgumentError, match="sampler must be"):
        build(DIGITS).walk(noise, "dim", 2, KEY)


def moved(model: Diffusion) -> Diffusion:
    """The model with arrays off their initial values: a fresh one predicts zero whatever it is asked."""
    noise = np.random.default_rng(0)
    arrays, rest = eqx.partition(model, eqx.is_array)
    shaken = jax.tree.map(lambda a: a + jnp.asarray(0.1 * noise.normal(size=a.shape), a.dtype), arrays)
    return eqx.combine(shaken, rest)


@pytest.mark.parametrize(("kind", "weight"), [("image", 2.0), ("points", 1.0)])
def test_guidance_is_on_by_default_for_images_only(kind: str, weight: float) -> None:
    shape = (2, 1, 1) if kind == "image" else (2,)
    model = moved(build(Schema(kind, shape, target="class", classes=("a", "b"))))
    drawn = model.sample(KEY, 3, condition=1, steps=2)
    assert np.array_equal(drawn, model.sample(KEY, 3, condition=1, steps=2, guidance=weight))
    assert not np.array_equal(drawn, model.sample(KEY, 3, condition=1, steps=2, guidance=3 - weight))


def test_classes_are_drawn_as_often_as_training_had_them_where_none_is_named() -> None:
    rare = build(DIGITS, class_shares=(3.0, 1.0, 0.0))
    drawn = np.bincount(rare.drawn_classes(KEY, 10_000), minlength=3) / 10_000
    np.testing.assert_allclose(drawn, [0.75, 0.25, 0.0], atol=0.02)
    np.testing.assert_allclose(build(DIGITS).config.shares(3), 1 / 3)
    data = cr.data.load("digits")
    counted = models.build("diffusion", data, width=8, depth=1).config.class_shares
    np.testing.assert_allclose(counted, np.bincount(data.train.y) / len(data.train), rtol=1e-5)


def test_only_where_nothing_shows_what_is_wanted_a_class_is_drawn() -> None:
    model = moved(build(DIGITS, class_shares=(0.0, 1.0, 0.0)))
    drawn = model.sample(KEY, 3, steps=2)
    assert np.array_equal(drawn, model.sample(KEY, 3, steps=2, condition=1))
    nothing = model.sample(KEY, 3, steps=2, guidance=0)
    assert not np.array_equal(drawn, nothing)
    # A known part, an example and a view say themselves what they are of: as the network without a class has it.
    for options in (
        {"inpaint": (np.zeros((2, 2, 1)), np.zeros((2, 2, 1), bool)), "method": "replace"},
        {"view": "rotate(180)"},
        {"start": np.zeros((1, 2, 2, 1)), "strength": 1.0},
    ):
        np.testing.assert_array_equal(
            model.sample(KEY, 3, steps=2, **options),
            model.sample(KEY, 3, steps=2, guidance=0, **options),
            err_msg=str(list(options)),
        )


def test_the_bound_of_an_example_with_a_class_counts_the_cost_of_the_class() -> None:
    model, examples = moved(build(DIGITS, class_shares=(0.7, 0.2, 0.1))), batch(DIGITS)
    found = eqx.filter_jit(model.bound)(examples, KEY)
    cost = -np.log(np.array([0.7, 0.2, 0.1]))[examples.y]
    np.testing.assert_allclose(found.parts["class"], cost, rtol=1e-6)
    np.testing.assert_allclose(found.elbo, found.given["class"] - cost, rtol=1e-5)
    without = eqx.filter_jit(model.elbo)(examples.x, KEY)
    np.testing.assert_allclose(found.given["no_class"], without, rtol=1e-5)
    unlabelled = eqx.filter_jit(model.bound)(Batch(examples.x, None), KEY)
    np.testing.assert_allclose(unlabelled.elbo, without, rtol=1e-5)


def test_a_model_that_never_did_without_its_conditions_is_drawn_with_those_of_examples() -> None:
    schema = Schema("table", (3,), target="value", target_shape=(1,))
    model = build(schema, condition_dropout=0.0)
    assert model.needs_condition
    with pytest.raises(CapabilityError, match="knows nothing of data without a condition"):
        model.sample(KEY, 2)
    assert not build(schema).needs_condition
    assert not build(DIGITS, condition_dropout=0.0).needs_condition
    assert build(DIGITS, condition_dropout=0.0).sample(KEY, 2, steps=2).shape == (2, 2, 2, 1)


def test_the_network_is_asked_for_the_class_and_for_none() -> None:
    model = moved(build(DIGITS, width=16))
    denoiser = model.denoiser
    predict = eqx.filter_jit(denoiser.predict)
    level = model.schedule.level(jnp.full((3,), 0.5))
    x = noised(jnp.ones((3, 2, 2, 1)), jnp.zeros((3, 2, 2, 1)), level)
    by_class = predict(x, level, jnp.arange(3))
    assert not np.allclose(by_class[0], by_class[1])
    nothing = predict(x, level, denoiser.null(jnp.arange(3)))
    np.testing.assert_allclose(nothing, predict(x, level), rtol=1e-6)


def test_pictures_suit_the_data() -> None:
    digits, moons = cr.data.load("digits"), cr.data.load("moons")
    found = build(digits.schema).pictures(digits, KEY)
    assert [type(picture) for picture in found] == [Images, Film, Images, Lines, Bars]
    assert found[0].images.shape == (20, 8, 8, 1)
    assert found[1].frames.shape == (26, 20, 8, 8, 1)
    samples, estimates = np.split(found[1].frames[-1], 2)
    np.testing.assert_allclose(samples, estimates, atol=1e-5)
    found = build(moons.schema).pictures(moons, KEY)
    assert [type(picture) for picture in found] == [Scatter, Lines]


def test_rectified_flow_is_the_squared_error_of_the_velocity_along_straight_paths() -> None:
    model, examples = moved(build(DIGITS, target="u", noise="rectified", conditional=False)), batch(DIGITS)
    x0 = model.to_network_units(examples.x)
    times, _ = schedules.drawn_times(model.schedule, 8, jax.random.split(KEY, 3)[0])
    level = model.schedule.level(times)
    np.testing.assert_allclose(level.a + level.s, 1, rtol=1e-6)
    eps = jax.random.normal(jax.random.split(KEY, 3)[1], x0.shape)
    said = eqx.filter_jit(model.denoiser.predict)(noised(x0, eps, level), level)
    by_hand = float(jnp.square(said - (eps - x0)).mean())
    assert float(eqx.filter_jit(model.loss)(examples, KEY)[0]) == pytest.approx(by_hand, rel=1e-4)


def test_a_schedule_of_ones_own_comes_as_numbers_or_from_a_file(tmp_path: Path) -> None:
    bars = np.linspace(0.999, 0.001, 40)
    (tmp_path / "bars.csv").write_text("\n".join(str(bar) for bar in bars))
    np.save(tmp_path / "sigmas.npy", np.sqrt(1 / bars - 1))
    settings = (
        {"table": bars.tolist()},
        {"table": str(tmp_path / "bars.csv")},
        {"table": [str(tmp_path / "sigmas.npy")], "table_of": "sigma"},  # as the command line gives it
    )
    for own in settings:
        model = models.build("diffusion", PLAIN, width=4, depth=1, **own)
        np.testing.assert_allclose(model.schedule.alpha_bar, bars, rtol=1e-9)
        assert model.sample(KEY, 2, steps=3).shape == (2, 3)
    with pytest.raises(ArgumentError, match="40 levels"):
        model.sample(KEY, 2, steps=41)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"table": [0.9, 0.95]}, "index 1 of the schedule"),
        ({"table": [0.5, 1.5]}, r"alpha_bar\[1\]=1.5"),
        ({"table": "nowhere.csv"}, "no such file"),
        ({"table": [0.5, 0.1, 0.2], "table_of": "sigma"}, "index 1 of the schedule"),
    ],
)
def test_tables_that_are_no_schedule_are_refused(own: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        models.build("diffusion", PLAIN, width=4, depth=1, **own)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"condition": 0}, "ddim in 50 steps, guidance 2"),
        ({"condition": 0, "guidance": 3.5, "sampler": "unipc", "steps": 8}, "unipc in 8 steps, guidance 3.5"),
        ({"inpaint": "known.npz"}, "ddim in 50 steps"),
    ],
)
def test_captions_say_how_samples_are_drawn(options: dict, said: str) -> None:
    assert build(DIGITS).sample_caption(**options) == said
