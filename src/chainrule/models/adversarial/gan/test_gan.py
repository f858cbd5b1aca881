"""Penalties, conditions, packs, and training of two players; games themselves: tests/models/adversarial."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Film, Lines
from chainrule.data import Batch, Batches
from chainrule.data.generated.toys import modes_of
from chainrule.models.adversarial.networks import packed
from chainrule.models.adversarial.penalties import one_centred, scores_and_slopes, zero_centred
from chainrule.probability.samples import mode_coverage
from chainrule.report.gallery import groups
from chainrule.report.snapshots import pictures as along_the_way
from chainrule.train import fit, resume, snapshots
from chainrule.train.config import TrainConfig
from chainrule.train.step import Stepper

TOY = {"width": 8, "depth": 2, "latent": 3}
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def data() -> Any:
    return cr.data.load("ring", n=400)


def batch_of(data: Any, n: int = 16) -> Batch:
    return jax.tree.map(jnp.asarray, data.train.batch(np.arange(n)))


# ---------------------------------------------------------------------- penalties


def test_penalties_are_those_of_the_slopes_of_each_example(data: Any) -> None:
    model = cr.models.build("gan", data, **TOY)
    x = jnp.asarray(data.train.x[:6])
    scores, slopes, _ = eqx.filter_jit(scores_and_slopes)(model.discriminator, x, None)
    each = np.stack([jax.grad(lambda one: model.discriminator(one[None]).sum())(one) for one in x])
    np.testing.assert_allclose(slopes, each, atol=1e-5)
    sizes = np.linalg.norm(each, axis=1)
    np.testing.assert_allclose(zero_centred(slopes, 0.3, len(scores)), 0.15 * np.mean(sizes**2), rtol=1e-4)
    np.testing.assert_allclose(one_centred(slopes), np.mean((sizes - 1) ** 2), rtol=1e-4)
    np.testing.assert_allclose(one_centred(slopes, True), np.mean(np.maximum(sizes - 1, 0) ** 2), atol=1e-6)
    assert np.isfinite(np.asarray(jax.grad(lambda s: one_centred(s))(jnp.zeros((2, 3))))).all()


# ---------------------------------------------------------------------- two players


def test_neither_move_touches_the_other_player_or_its_state(data: Any) -> None:
    model = cr.models.build("gan", data, normalization="batch", spectral="layer", **TOY)
    discriminator, generator = model.parts()
    batch = batch_of(data)

    def arrays(tree: Any) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]

    def same(one: Any, other: Any) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(arrays(one), arrays(other), strict=True))

    after = eqx.filter_jit(discriminator.loss)(model, batch, KEY)[2]
    assert same(after.generator, model.generator)
    assert not same(after.discriminator, model.discriminator), "singular vectors did not move"
    after = eqx.filter_jit(generator.loss)(model, batch, KEY)[2]
    assert same(after.discriminator, model.discriminator)
    assert not same(after.generator, model.generator), "running averages did not move"


def test_no_gradient_of_the_discriminators_loss_reaches_the_generator(data: Any) -> None:
    model = cr.models.build("gan", data, **TOY)
    slope = eqx.filter_jit(eqx.filter_grad(lambda m: m.discriminator_move(batch_of(data), KEY)[0]))(model)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(slope.generator))


def test_real_and_generated_examples_may_go_through_together_where_examples_do_not_see_each_other(
    data: Any,
) -> None:
    model = cr.models.build("gan", data, **TOY)
    real, fake = jnp.asarray(data.train.x[:8]), jnp.asarray(data.train.x[8:16])
    judged = eqx.filter_jit(lambda m: m.judged(real, fake, None, slopes=True)[:3])(model)
    np.testing.assert_allclose(judged[0], model.discriminator(real), atol=1e-5)
    np.testing.assert_allclose(judged[1], model.discriminator(fake), atol=1e-5)


def test_several_moves_of_the_discriminator_see_as_many_batches(data: Any) -> None:
    model = cr.models.build("gan", data, n_critic=3, **TOY)
    assert [part.repeat for part in model.parts()] == [3, 1]
    config = TrainConfig.parse(batch=16)
    stepper = Stepper(model, config, data.train, lambda step: 1.0, resident=True, most=2)
    feeds = stepper.feed(stepper.batches, 0, 2)
    expected = Batches(len(data.train), 16, 0).indices(0, 6).reshape(2, 3, 16)
    np.testing.assert_array_equal(feeds[0], expected)


def test_a_run_that_was_stopped_goes_on_bit_for_bit(data: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"batch": 16, "save_every": 4, "eval_every": 4, "log_every": 2}
    build = {"n_critic": 3, "spectral": "layer", "normalization": "batch", **TOY}
    whole = fit(cr.models.build("gan", data, **build), data, run=tmp_path / "whole", steps=8, **settings)
    half = fit(
        cr.models.build("gan", data, **build),
        data,
        run=tmp_path / "half",
        steps=8,
        callbacks=[_stop_at(4)],
        **settings,
    )
    assert half.checkpoints[-1] == 4
    again = resume(tmp_path / "half")
    states = [jax.tree.leaves(run.model_at(8)) for run in (whole, again)]
    for one, other in zip(*states, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def _stop_at(step: int) -> Any:
    def stop(moment: Any) -> None:
        if moment.step == step:
            moment.stop("here")

    return stop


# ---------------------------------------------------------------------- what the discriminator is told


def test_packs_are_judged_together(data: Any) -> None:
    model = cr.models.build("gan", data, pack=2, minibatch_std=True, **TOY)
    x = jnp.asarray(data.train.x[:5])
    assert model.judge(x).shape == (2,)
    assert packed(x.reshape(5, 1, 1, 2), 2).shape == (2, 1, 1, 4)
    with pytest.raises(ArgumentError, match="fills no decision"):
        model.discriminator_move(batch_of(data, 1), KEY)
    with pytest.raises(ArgumentError, match="conditions of their own"):
        cr.models.build("gan", data, pack=2, conditional=True)


@pytest.mark.parametrize(("inject", "judging"), [("norm", "projection"), ("concatenate", "concatenate")])
def test_a_condition_reaches_both_players(data: Any, inject: str, judging: str) -> None:
    model = cr.models.build("gan", data, conditional=True, inject=inject, judging=judging, **TOY)
    z = model.noise(KEY, 3)
    one, other = model.generate(z, 0), model.generate(z, "90°")
    assert not np.allclose(one, other)
    x = jnp.asarray(data.train.x[:3])
    assert not np.allclose(model.judge(x, 0), model.judge(x, 3))
    assert model.sample(KEY, 4).shape == (4, 2)
    assert model.config.class_shares == pytest.approx((0.125,) * 8)
    with pytest.raises(ArgumentError, match="given a class or value"):
        model.generate(z)


def test_a_batch_of_one_is_refused_before_there_is_a_run(data: Any, tmp_path: Path) -> None:
    for pack, least in ((1, 2), (4, 4)):
        model = cr.models.build("gan", data, pack=pack, **TOY)
        with pytest.raises(ArgumentError, match=f"learns from sets of {least} examples or more"):
            fit(model, data, run=tmp_path / "run", steps=1, batch=1)
    assert not (tmp_path / "run").exists()


def test_conditions_that_are_not_there_are_asked_for() -> None:
    data = cr.data.load("checkerboard", n=100)
    with pytest.raises(CapabilityError, match="no classes or values") as error:
        cr.models.build("gan", data, conditional=True)
    assert "data.target=COLUMN" in str(error.value)
    for name in ("inject", "judging"):
        with pytest.raises(ArgumentError, match=f"{name}=concatenate: without conditions nothing reads it"):
            cr.models.build("gan", data, **{name: "concatenate"})
    with pytest.raises(ArgumentError, match="trained without classes"):
        cr.models.build("gan", data, **TOY).sample(KEY, 2, condition=1)


# ---------------------------------------------------------------------- examples


def test_noise_and_examples_of_another_shape_are_refused(data: Any) -> None:
    model = cr.models.build("gan", data, **TOY)
    with pytest.raises(ArgumentError, match=r"noise of shape \(3, 5\).*makes an example of 3 entries"):
        model.generate(jnp.zeros((3, 5)))
    for x in (jnp.zeros((3, 5)), jnp.zeros(2)):
        with pytest.raises(ArgumentError, match=r"examples of shape \(2,\)"):
            model.judge(x)


def test_games_without_labels_cannot_smooth_them(data: Any) -> None:
    with pytest.raises(ArgumentError, match="has no labels to smooth"):
        cr.models.build("gan", data, real_target=0.9)
    cr.models.build("gan", data, real_target=0.9, game="non-saturating", **TOY)


def test_rejection_needs_a_game_whose_scores_are_ratios(data: Any) -> None:
    with pytest.raises(CapabilityError, match="no density ratios"):
        cr.models.build("gan", data, game="hinge", **TOY).sample(KEY, 2, reject=True)
    model = cr.models.build("gan", data, **TOY)
    assert model.sample(KEY, 5, reject=True).shape == (5, 2)


def test_an_implicit_model_says_that_it_has_no_density(data: Any) -> None:
    with pytest.raises(CapabilityError, match="implicit") as error:
        cr.models.build("gan", data, **TOY).log_prob(jnp.zeros((1, 2)))
    assert "chainrule train spline-flow" in str(error.value)
    assert "chainrule score" in str(error.value)


def test_uniform_noise_has_the_variance_of_normal_noise(data: Any) -> None:
    z = np.asarray(cr.models.build("gan", data, base="uniform", **TOY).noise(KEY, 20_000))
    assert np.abs(z).max() <= 3**0.5
    assert z.var() == pytest.approx(1, abs=0.02)


# ---------------------------------------------------------------------- a whole run


def test_a_run_is_judged_by_distance_keeps_a_film_and_shows_its_game(data: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 12, "batch": 32, "eval_every": 4, "log_every": 2}
    run = fit(cr.models.build("gan", data, **TOY), data, run=tmp_path / "run", **settings)
    columns = run.metrics
    np.testing.assert_array_equal(
        columns["loss"][columns["split"] == "train"], run.curve("generator.distance")[1]
    )
    assert {"coverage", "precision"} <= columns.keys()
    assert {"discriminator.update_norm", "generator.grad_norm", "ema_distance"} <= columns.keys()
    kept = snapshots.kept(run.path, 10)
    assert kept is not None
    assert kept.steps.tolist() == [4, 8, 12]
    drawn = {picture.name: picture for group in groups(run) for picture in group.pictures}
    names = list(drawn)
    assert {"curve-loss", "scores", "moments", "film", "score-field", "modes", "slopes", "weights"} <= set(
        names
    )
    film, along = drawn["film"], drawn["modes-found"]
    assert isinstance(film, Film)
    assert isinstance(along, Lines)
    for label, share in zip(film.labels, along.series["modes, of 8"][1], strict=True):
        assert label.endswith(f": {round(8 * share)} of 8 modes")
    assert not any(name.startswith("curve-generator") for name in names), "losses of a game are no progress"
    assert run.score("val")["loss"].unit == "kernel distance"


def test_moments_at_which_examples_were_no_numbers_are_drawn_without_them(data: Any, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 3, "batch": 16, "eval_every": 1}
    run = fit(cr.models.build("gan", data, **TOY), data, run=tmp_path / "run", **settings)
    one = run.path / snapshots.FOLDER / "step-00000002.npy"
    np.save(one, np.full_like(np.load(one), np.inf))
    drawn = {picture.name: picture for picture in along_the_way(run)}
    film, along = drawn["film"], drawn["modes-found"]
    assert isinstance(film, Film)
    assert isinstance(along, Lines)
    assert [":" in label for label in film.labels] == [True, False, True]
    assert along.series["modes, of 8"][0].tolist() == [1, 3]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "modes"), [("ring", 8), ("grid", 25)])
def test_the_default_finds_every_mode(name: str, modes: int, tmp_path: Path) -> None:
    data = cr.data.load(name)
    run = fit(cr.models.build("gan", data), data, run=tmp_path / "run")
    known = modes_of(data.source)
    assert known is not None
    found = mode_coverage(run.sample(2500), known.centres, known.deviation)
    assert found.covered == modes
    assert found.high_quality >= 0.9


def test_noise_is_sized_for_the_game_and_the_data() -> None:
    ring, digits = (cr.data.load(name) for name in ("ring", "digits"))
    found = {
        name: [cr.models.build(name, data).config.latent for data in (ring, digits)]  # type: ignore[attr-defined]
        for name in ("gan", "f-gan", "wgan-gp")
    }
    assert found == {"gan": [2, 16], "f-gan": [2, 64], "wgan-gp": [2, 64]}
    assert cr.models.build("gan", ring, latent=8).config.latent == 8  # type: ignore[attr-defined]


def test_games_of_vectors_with_penalties_have_no_momentum_and_a_long_memory() -> None:
    entry = cr.models.entry("gan")
    ring, digits = (entry.training_for(cr.data.load(name).schema)["optimizer"] for name in ("ring", "digits"))
    assert (ring["lr"], ring["betas"]) == (3e-3, (0.0, 0.99))
    assert (digits["lr"], digits["betas"]) == (2e-3, (0.5, 0.9))
