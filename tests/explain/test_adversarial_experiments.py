"""Experiments of the adversarial game: bounds that hold, best discriminators, log 2 at every gap; bounds of samples."""

import math
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import data, models, report
from chainrule.core.errors import ArgumentError, DataError
from chainrule.data.schema import Schema
from chainrule.explain import experiments, probes
from chainrule.explain.experiments.generator_gradients import ShiftingGenerator, measured
from chainrule.explain.methods.adversarial_pair import (
    AdversarialPair,
    DenseNetwork,
    discriminator_loss,
    generator_loss,
    play,
)
from chainrule.explain.methods.frozen_generator import FrozenGame, look, squared_jacobian
from chainrule.explain.probes.noise_space import NoiseSpaceSettings, noise_counts
from chainrule.probability.divergences import game
from chainrule.train import Run, fit


def test_on_a_line_the_discriminator_alone_nears_the_best_one() -> None:
    outcome = experiments.run("game-on-a-line", alone=400, rounds=0, draws=2000, lr=5e-3)
    untrained, alone, both = (outcome.numbers[name] for name in outcome.numbers)
    assert alone["off_best"] < 0.04 < untrained["off_best"]
    assert alone["mean"] == untrained["mean"] == both["mean"]
    assert len(outcome.pictures) == 3
    assert set(outcome.pictures[0].series) == {"data", "generated", "learned D(x)", "best D*(x)"}


@pytest.mark.slow
def test_on_a_line_the_game_ends_at_one_half() -> None:
    last = experiments.run("game-on-a-line").numbers["both trained"]
    assert last["off_half"] < 0.05
    assert last["mean"] == pytest.approx(1.0, abs=0.15)
    assert last["deviation"] == pytest.approx(1.5, abs=0.15)


def test_the_saturating_gradient_fades_below_its_bound_and_the_other_does_not() -> None:
    outcome = experiments.run("generator-gradients", steps=300, every=50, width=16, batch=64)
    numbers = outcome.numbers
    assert numbers["bound_holds"]
    assert numbers["saturating"][-1] < 0.2 * numbers["saturating"][0]
    assert numbers["non_saturating"][-1] > 1
    gaps = numbers["gaps"]
    np.testing.assert_allclose(gaps["jensen_shannon"][1:], math.log(2), rtol=1e-6)
    np.testing.assert_allclose(gaps["wasserstein"], gaps["gap"], atol=1e-6)
    assert all(report.draw(picture).startswith("<svg") for picture in outcome.pictures)


def test_gradients_are_those_of_the_formula() -> None:
    """-E[J^T grad D/(1 - D)] for G(z) = (theta, z), whose Jacobian is (1, 0)."""
    generator = ShiftingGenerator(jnp.asarray(0.7))
    network = DenseNetwork(2, 1, width=8, depth=2, key=jax.random.key(0))
    noise = np.random.default_rng(0).uniform(size=50).astype(np.float32)
    real = np.stack([np.zeros(50), noise], axis=1).astype(np.float32)

    @eqx.filter_jit
    def by_formula(network: DenseNetwork) -> tuple[jax.Array, jax.Array, jax.Array]:
        x = generator(jnp.asarray(noise))
        decisions = jax.nn.sigmoid(network(x)[:, 0])
        slopes = jax.grad(lambda x: jax.nn.sigmoid(network(x)[:, 0]).sum())(x)
        return (slopes[:, 0] / (1 - decisions)).mean(), (slopes[:, 0] / decisions).mean(), decisions

    saturating, other, decisions = by_formula(network)
    found = eqx.filter_jit(measured)(generator, network, jnp.asarray(real), jnp.asarray(noise))
    np.testing.assert_allclose(found[:2], [abs(float(saturating)), abs(float(other))], rtol=1e-4)
    assert float(found[2]) == pytest.approx(math.sqrt(float(game.gradient_bound(found[3]))), rel=1e-5)
    assert float(found[4]) == pytest.approx(float(decisions.mean()), rel=1e-5)


def test_a_player_who_waits_does_not_change() -> None:
    pair = AdversarialPair.start(2, 2, width=4, key=jax.random.key(0))

    def draw(key: jax.Array, n: int) -> jax.Array:
        return 1 + jax.random.normal(key, (n, 2))

    alone = play(pair, draw, jax.random.key(1), 3, generator_updates=0, batch=8)
    assert eqx.tree_equal(alone.generator, pair.generator)
    assert not eqx.tree_equal(alone.discriminator, pair.discriminator)
    follows = play(pair, draw, jax.random.key(1), 3, discriminator_updates=0, batch=8)
    assert eqx.tree_equal(follows.discriminator, pair.discriminator)
    assert not eqx.tree_equal(follows.generator, pair.generator)


def test_losses_are_those_of_the_game() -> None:
    pair = AdversarialPair.start(2, 2, width=4, key=jax.random.key(0))
    real, fake = np.random.default_rng(0).normal(size=(2, 9, 2)).astype(np.float32)
    on_real, on_fake = (
        np.asarray(jax.nn.sigmoid(pair.discriminator(jnp.asarray(x)))[:, 0]) for x in (real, fake)
    )
    value = np.log(on_real).mean() + np.log1p(-on_fake).mean()
    loss = discriminator_loss(pair.discriminator, jnp.asarray(real), jnp.asarray(fake))
    assert float(loss) == pytest.approx(-value, rel=1e-5)
    saturating = generator_loss(pair.discriminator, jnp.asarray(fake), saturating=True)
    assert float(saturating) == pytest.approx(np.log1p(-on_fake).mean(), rel=1e-5)


def test_slow_motion_moves_first_the_scores_and_then_the_points() -> None:
    outcome = experiments.run("adversarial-step", before=20, width=16, batch=32, points=50)
    first, judged, last = (picture.groups["generated"] for picture in outcome.pictures)
    np.testing.assert_array_equal(first, judged)
    assert np.abs(last - judged).max() > 1e-3
    fields = [picture.field for picture in outcome.pictures]
    assert np.abs(fields[1] - fields[0]).max() > 1e-4
    np.testing.assert_array_equal(fields[2], fields[1])
    numbers = outcome.numbers
    assert (
        numbers["the discriminator has learned"]["discriminator_loss"]
        < numbers["before"]["discriminator_loss"]
    )


def test_critics_stand_beside_the_best_ones_and_shifted_ones_say_so() -> None:
    outcome = experiments.run("critics", divergences=("GAN",), n=1000, steps=100, width=16)
    assert outcome.numbers["GAN"]["exact"] == pytest.approx(2 * 0.128175 - 2 * math.log(2), abs=1e-4)
    assert (
        outcome.numbers["GAN"]["bound"]
        < outcome.numbers["GAN"]["exact"] + 3 * outcome.numbers["GAN"]["error"]
    )
    assert any("2 JSD - 2 log 2" in sentence for sentence in outcome.findings)
    assert "2 JSD - 2 log 2" in outcome.pictures[0].caption
    own = experiments.run("critics", divergences=("(u-1)^2/(u+1)",), n=100, steps=5, width=4)
    assert own.pictures[0].name == "critics-u-1-2-u-1", "a name of a file"
    with pytest.raises(ArgumentError, match="divergence=jsd: no such f-divergence"):
        experiments.run("critics", divergences=("jsd",))


def test_data_of_ones_own_are_compared_in_their_units(tmp_path) -> None:
    """Scaled by their own means and deviations, two tables that are far apart would look alike."""
    random = np.random.default_rng(0)
    for name, shift in (("near", 0.0), ("far", 50.0)):
        rows = "\n".join(f"{a:.4f},{b:.4f}" for a, b in random.normal(size=(400, 2)) + shift)
        (tmp_path / f"{name}.csv").write_text(f"a,b\n{rows}\n")
    outcome = experiments.run(
        "divergence-bound",
        data=str(tmp_path / "near.csv"),
        against=str(tmp_path / "far.csv"),
        load={"target": "none"},
        divergence="total variation",
        steps=300,
        width=16,
    )
    assert outcome.numbers["bound"] > 0.8
    assert outcome.numbers["floor"] < 0.3
    assert report.draw(outcome.pictures[0]).startswith("<svg")


def test_texts_are_no_points() -> None:
    with pytest.raises(DataError, match="not tokens"):
        experiments.run("divergence-bound", data="shakespeare", against="shakespeare")


def test_samples_of_a_run_are_compared_with_held_out_examples(tmp_path) -> None:
    moons = data.load("moons", n=600)
    model = models.build("diffusion", moons, width=8, depth=1)
    run = fit(model, moons, run=tmp_path / "run", steps=5, batch=16)
    outcome = probes.examine("divergence", run, divergence="total-variation", steps=100, width=16)
    assert outcome.numbers["divergence"] == "total variation"
    assert "between held-out and training examples" in outcome.findings[0]
    assert outcome.numbers["floor"] <= outcome.numbers["bound"] + 3 * outcome.numbers["error"] + 0.2
    assert report.draw(outcome.pictures[0]).startswith("<svg")
    own = probes.examine("divergence", run, divergence="(u-1)^2/(u+1)", steps=10, width=4)
    assert own.numbers["divergence"] == "(u-1)^2/(u+1)"


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Run:
    points = data.load("ring", n=300)
    model = models.build("gan", points, width=16, depth=2)
    return fit(model, points, run=tmp_path_factory.mktemp("runs") / "ring", steps=20, batch=32)


def test_the_gradient_of_a_trained_generator_fades_as_its_discriminator_learns_alone(ring: Run) -> None:
    outcome = probes.examine("frozen-generator", ring, steps=400, every=100, batch=64, n=64, lr=1e-2)
    numbers = outcome.numbers
    assert numbers["bound_holds"]
    assert numbers["saturating"][-1] < numbers["non_saturating"][-1]
    assert len(numbers["saturating"]) == len(numbers["bound"]) == 5
    assert all(report.draw(picture).startswith("<svg") for picture in outcome.pictures)


def test_jacobians_of_a_generator_are_those_of_its_parameters() -> None:
    """G(z) = W z with |dG/dW|² = 2 |z|² for two outputs; with many outputs, random directions estimate the same."""
    for outputs, error in ((2, 1e-5), (100, 0.2)):
        weights = jnp.ones((outputs, 3))
        noise = jax.random.normal(jax.random.key(0), (40, 3))
        frozen = FrozenGame(lambda w, z: z @ w.T, lambda d, x: x[:, 0], lambda key, n: jnp.zeros((n, 3)))
        found = squared_jacobian(frozen, weights, noise, jax.random.key(1))
        expected = outputs * jnp.square(noise).sum(axis=1).mean()
        np.testing.assert_allclose(found, expected, rtol=error)


def test_the_bound_on_the_saturating_gradient_holds_where_a_discriminator_is_nearly_perfect() -> None:
    """D = sigmoid(-s x) of generated points at 4 + theta and real ones at -4: flat around both, sure of both."""
    frozen = FrozenGame(
        lambda g, z: g[None] + 0.1 * z, lambda s, x: -s * x[:, 0], lambda key, n: jnp.zeros((n, 1))
    )
    noise = jax.random.normal(jax.random.key(0), (50, 1))
    real = -4.0 + 0.1 * noise
    found = look(frozen, jnp.full((1,), 4.0), jnp.asarray(2.0), real, noise, jnp.ones(()))
    d = jax.nn.sigmoid(-2 * (4 + 0.1 * noise))
    np.testing.assert_allclose(found.saturating, (2 * d).mean(), rtol=1e-4)
    np.testing.assert_allclose(found.non_saturating, (2 * (1 - d)).mean(), rtol=1e-4)
    assert found.saturating < found.bound < 1e-2


def test_decisions_about_packs_and_conditions_are_not_taken_apart(tmp_path: Path) -> None:
    points = data.load("ring", n=200)
    model = models.build("gan", points, width=8, depth=1, pack=2)
    run = fit(model, points, run=tmp_path / "packed", steps=2, batch=16)
    with pytest.raises(ArgumentError, match=r"several examples at once \(pack\)\n.*pack=1"):
        probes.examine("frozen-generator", run, steps=2, every=1, batch=4, n=4)
    moons = data.load("moons")
    given = models.build("gan", moons, width=8, depth=1, conditional=True)
    assert not probes.get("frozen-generator").applies(given, moons.schema)


def test_noise_of_models_by_labels_is_walked_under_conditions_of_their_shape(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(80, 2)).astype(np.float32)
    points = data.from_arrays(x, (x > 0).astype(np.uint8))
    model = models.build("gan", points, width=8, depth=1, conditional=True)
    run = fit(model, points, run=tmp_path / "labelled", steps=2, batch=16)
    outcome = probes.examine("noise-space", run, n=3, starts=2, steps=2)
    assert {picture.name for picture in outcome.pictures} == {"residuals", "traversals", "great-circles"}


def test_tensors_of_both_players_are_told_apart_by_name(ring: Run) -> None:
    found = probes.examine("gradients", ring).numbers
    weights = {name.split(".")[0] for name in found}
    assert weights == {"discriminator", "generator"}
    assert len(found) == sum(eqx.is_inexact_array(leaf) for leaf in jax.tree.leaves(ring.model))


def test_the_test_by_kernels_sees_samples_between_narrow_modes(ring: Run) -> None:
    outcome = probes.examine("generation", ring, permutations=50)
    assert outcome.numbers["kernel_test_p_value"] < 0.05


def test_inversion_takes_as_many_examples_and_starts_as_their_size_allows(ring: Run) -> None:
    digits, photos = (Schema("image", shape, levels=256) for shape in ((8, 8, 1), (64, 64, 3)))
    usual = NoiseSpaceSettings()
    assert [noise_counts(usual, one) for one in (ring.schema, digits, photos)] == [(64, 16), (64, 16), (8, 4)]
    assert noise_counts(NoiseSpaceSettings(n=100, starts=1), photos) == (100, 1)
    outcome = probes.examine("noise-space", ring, n=3, starts=2, steps=2)
    assert outcome.table is not None
    assert "the best of 2 starts" in outcome.table.caption
