"""Games of f-divergences: bounds, generators, ratios, and what happens where a conjugate overflows."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, DivergedError
from chainrule.core.pictures import Lines
from chainrule.models.adversarial import diagnostics
from chainrule.models.adversarial.f_gan.model import BOUNDED, game_of
from chainrule.models.adversarial.games import games
from chainrule.probability.divergences import f_divergences, register
from chainrule.probability.divergences.named import SHORT_NAMES, named
from chainrule.train import fit

P, Q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
VALUES = {
    "kl": 0.3600624,
    "reverse-kl": 0.3948162,
    "pearson": 0.7666667,
    "neyman": 1.0133333,
    "hellinger": 0.1848262,
    "jeffreys": 0.7548786,
    "2-jsd": 2 * 0.0905658,
    "gan": -1.2051627,
    "total-variation": 0.4,
    "(u-1)^2/(u+1)": float(((P - Q) ** 2 / (P + Q)).sum()),
}


OWN = "(u-1)^2/(u+1)"


@pytest.mark.parametrize("name", [*SHORT_NAMES, OWN])
def test_a_critic_that_raises_the_bound_finds_divergence_and_ratio(name: str) -> None:
    game, divergence = game_of(name, False), named(name)
    p, q = jnp.asarray(P, jnp.float32), jnp.asarray(Q, jnp.float32)

    def bound(v: jax.Array) -> jax.Array:
        return (p * divergence.activation(v)).sum() - (q * divergence.conjugate_of_output(v)).sum()

    def step(_: int, v: jax.Array) -> jax.Array:
        return v + 0.2 * jax.grad(bound)(v)

    v = jax.jit(lambda: jax.lax.fori_loop(0, 4000, step, jnp.zeros(3)))()
    assert float(bound(v)) == pytest.approx(VALUES[name], abs=5e-3 if name == "total-variation" else 2e-4)
    one = -game.discriminator(v[:1], v[:1], 1.0)
    np.testing.assert_allclose(
        one, divergence.activation(v[0]) - divergence.conjugate_of_output(v[0]), rtol=1e-4
    )
    if name != "total-variation":  # whose best critic is the sign of p - q, and says no more
        assert game.log_ratio is not None
        np.testing.assert_allclose(game.log_ratio(v, 1.0), np.log(P / Q), atol=5e-3)
    else:
        assert game.log_ratio is None
    assert game.threshold is not None
    found = float(divergence.activation(jnp.asarray(game.threshold)))
    assert found == pytest.approx(divergence.threshold, abs=1e-6)


def test_the_row_of_the_original_game_is_that_game() -> None:
    real, fake = jnp.array([0.3, -1.0]), jnp.array([0.9, -2.0])
    for saturating, other in ((True, "minimax"), (False, "non-saturating")):
        ours, theirs = game_of("gan", saturating), games[other]
        np.testing.assert_allclose(
            ours.discriminator(real, fake, 1.0), theirs.discriminator(real, fake, 1.0), rtol=1e-5
        )
        np.testing.assert_allclose(ours.generator(real, fake), theirs.generator(real, fake), rtol=1e-5)


def test_a_divergence_of_your_own_is_trained_by_its_formula_and_opened_again(tmp_path: Path) -> None:
    data = cr.data.load("ring", n=200)
    model = cr.models.build("f-gan", data, divergence=OWN, width=8, depth=1)
    run = fit(model, data, run=tmp_path / "run", steps=4, batch=16)
    again = cr.Run.open(run.path).model
    assert again.game.name == OWN  # type: ignore[attr-defined]
    assert np.isfinite(np.asarray(again.sample(jax.random.key(0), 3))).all()  # type: ignore[attr-defined]


def test_a_divergence_that_was_registered_is_trained_by_its_name() -> None:
    name = "of a test of f-gan"
    if name not in f_divergences:
        register(name, lambda u: (u - 1) ** 2)
    data = cr.data.load("ring", n=200)
    model = cr.models.build("f-gan", data, divergence=name, width=8, depth=1)
    assert model.game.name == name  # type: ignore[attr-defined]


def test_the_bound_is_drawn_beside_that_of_equal_laws_with_what_has_to_be_said_of_it() -> None:
    lines = {
        "step": np.array([100, 200]),
        "split": np.array(["train", "train"]),
        "discriminator.game_loss": np.array([1.30, 1.38]),
    }
    drawn = {one.name: one for one in diagnostics.curves(game_of("gan", False), lines, [])}
    bound = drawn["bound"]
    assert isinstance(bound, Lines)
    np.testing.assert_array_equal(bound.series["by the critic"][1], [-1.30, -1.38])
    np.testing.assert_allclose(bound.series["equal laws"][1], -2 * np.log(2))
    assert "2 JSD - 2 log 2" in bound.caption
    assert "bound" not in {one.name for one in diagnostics.curves(games["minimax"], lines, [])}


def test_what_is_no_divergence_is_refused() -> None:
    data = cr.data.load("ring", n=200)
    for name, message in (
        ("helinger", r"divergence=helinger: no such f-divergence \(did you mean 'hellinger'\?\)"),
        ("-(u-1)^2", "convex"),
        ("u*log(u)+1", r"f\(1\) = 1"),
        ("(u-1)^2+v", "v"),
    ):
        with pytest.raises(ArgumentError, match=message):
            cr.models.build("f-gan", data, divergence=name, width=8, depth=1)


def test_a_conjugate_that_overflows_stops_the_run_with_a_bounded_one(tmp_path: Path) -> None:
    data = cr.data.load("ring", n=200)
    model = cr.models.build("f-gan", data, divergence="kl", width=8, depth=2, latent=2)
    wild = {"steps": 60, "batch": 16, "optimizer": {"name": "sgd", "lr": 100.0}}
    with pytest.raises(DivergedError, match=r"at step \d+") as error:
        fit(model, data, run=tmp_path / "run", **wild)
    assert "the conjugate of KL" in str(error.value)
    for name in BOUNDED:
        assert f"divergence={name}" in str(error.value)
    for name in ("2-jsd", "2 JSD", "Jensen-Shannon", "total variation", "GAN"):
        bounded = cr.models.build("f-gan", data, divergence=name, width=8, depth=1)
        assert not bounded.when_not_finite()  # type: ignore[attr-defined]
