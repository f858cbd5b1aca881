"""Priors, codes on the sphere, decoders that see entries before an entry, and what keeps codes in use beside them."""

import itertools
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import logsumexp

from chainrule import models
from chainrule.core.errors import ArgumentError
from chainrule.data import Batch, Schema, load
from chainrule.models.latent.hyperspherical import HypersphericalPosterior
from chainrule.models.latent.posteriors import DiagonalPosterior, FullPosterior
from chainrule.models.latent.priors import MixturePrior, PseudoInputs
from chainrule.models.latent.vae import VAE, AggressiveVAE
from chainrule.models.protocol import parts_of
from chainrule.models.protocol.latents import IDLE
from chainrule.networks.masked_mlp import autoregressive_masks
from chainrule.train.scores.latents import collapsed
from chainrule.train.scoring import Metric

KEY = jax.random.key(0)
DRAW = np.random.default_rng(0)
BITS = Schema("table", (4,), levels=2)
X = jnp.asarray(list(itertools.product((0.0, 1.0), repeat=4)), jnp.float32)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def build(schema: Schema = BITS, **settings: Any) -> Any:
    return models.build("vae", schema, **{"latent": 2, "width": 8, "depth": 1, **settings})


def evidence(model: Any, points: np.ndarray, log_cells: np.ndarray) -> np.ndarray:
    """`log p(x)` of all 16 examples by quadrature over codes."""

    @eqx.filter_jit
    def terms(z: jax.Array) -> jax.Array:
        given = model.networks.given(None, len(X))
        several = jnp.broadcast_to(z[:, None], (len(z), len(X), z.shape[1]))
        return model.log_likelihood(X, several, given) + given.prior.log_prob(several)

    found = np.concatenate([np.asarray(terms(jnp.asarray(part))) for part in np.array_split(points, 20)])
    return logsumexp(found.astype(np.float64) + log_cells[:, None], axis=0)


def broad(model: Any, spread: float) -> Any:
    """With posteriors that cover the prior, so that importance weights have no heavy tail."""
    last = model.networks.encoder.network.layers[-1]
    bias = jnp.zeros_like(last.bias).at[2:4].set(spread)
    return eqx.tree_at(
        lambda m: (m.networks.encoder.network.layers[-1].weight, m.networks.encoder.network.layers[-1].bias),
        model,
        (0.1 * last.weight, bias),
    )


def square(edge: float, side: int) -> tuple[np.ndarray, np.ndarray]:
    axis = (np.arange(side) + 0.5) / side * 2 * edge - edge
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2).astype(np.float32)
    return grid, np.full(len(grid), 2 * np.log(2 * edge / side))


# ---------------------------------------------------------------------- priors


@pytest.mark.parametrize(
    "settings",
    [
        {"prior": "mixture", "prior_components": 3},
        {"prior": "vamp", "prior_components": 3},
        {"prior": "vamp", "prior_components": 2, "posterior": "full"},
        {"prior": "mixture", "prior_components": 3, "decoder": "autoregressive"},
    ],
    ids=str,
)
def test_importance_weights_under_a_learned_prior_estimate_the_likelihood_that_quadrature_gives(
    settings: Any,
) -> None:
    model = broad(build(**settings), 1.0)
    exact = evidence(model, *square(10.0, 100))
    assert np.exp(exact).sum() == pytest.approx(1, abs=2e-3)  # all 16 examples
    weights = np.asarray(eqx.filter_jit(model.log_weights)(Batch(X), KEY, 4000), np.float64)
    found = logsumexp(weights, axis=0) - np.log(4000)
    error = np.exp(weights - found[None]).std(axis=0) / np.sqrt(4000)
    assert (np.abs(found - exact) < 5 * error + 2e-3).all()
    bounds = np.asarray(
        eqx.filter_jit(eqx.filter_vmap(model.elbo, in_axes=(None, 0)))(X, jax.random.split(KEY, 200))
    )
    assert (bounds.mean(axis=0) < exact + 5 * bounds.std(axis=0) / np.sqrt(200)).all()
    assert model.rate_note == "log q - log p of codes"


def test_a_mixture_of_one_standard_gaussian_is_the_standard_prior() -> None:
    plain, mixed = build(), build(prior="mixture", prior_components=1)
    mixed = eqx.tree_at(lambda m: m.networks.mixture.parameters, mixed, jnp.zeros((1, 4)))
    z = DRAW.normal(size=(3, 16, 2)).astype(np.float32)
    one, other = (m.networks.given(None, 16).prior for m in (plain, mixed))
    np.testing.assert_allclose(one.log_prob(jnp.asarray(z)), other.log_prob(jnp.asarray(z)), rtol=1e-5)
    rates = [
        np.asarray(
            eqx.filter_jit(
                eqx.filter_vmap(lambda m, k: m.rate_and_distortion(Batch(X), k)[0], in_axes=(None, 0))
            )(m, jax.random.split(KEY, 2000))
        )
        for m in (plain, mixed)
    ]
    assert np.ptp(rates[0], axis=0).max() < 1e-5  # a closed form
    error = rates[1].std(axis=0) / np.sqrt(2000)
    assert (np.abs(rates[0][0] - rates[1].mean(axis=0)) < 5 * error).all()


@pytest.mark.parametrize("family", [DiagonalPosterior(3), FullPosterior(3)], ids=str)
def test_the_shares_of_entries_add_up_to_the_whole_and_draws_follow_the_mixture(family: Any) -> None:
    numbers = jnp.asarray(DRAW.normal(size=(4, family.parameter_count)), jnp.float32)
    prior = MixturePrior(family, numbers, jnp.asarray(DRAW.normal(size=4), jnp.float32))
    own = jnp.asarray(DRAW.normal(size=(5, family.parameter_count)), jnp.float32)
    z = jnp.asarray(DRAW.normal(size=(5, 3)), jnp.float32)
    each = prior.divergence(family, own, z)
    np.testing.assert_allclose(
        each.sum(axis=1), family.log_prob(own, z) - prior.log_prob(z), rtol=1e-4, atol=1e-5
    )
    drawn = np.asarray(prior.draw(KEY, 50_000))
    weights = np.asarray(jax.nn.softmax(prior.logits))
    np.testing.assert_allclose(drawn.mean(axis=0), weights @ np.asarray(numbers[:, :3]), atol=0.05)
    still = np.asarray(prior.draw(KEY, 50, 0.0))
    assert len(np.unique(still.round(4), axis=0)) <= 4


def test_pseudo_inputs_begin_at_examples_and_stay_between_zero_and_one() -> None:
    data = load("binary-digits")
    model = models.build("vae", data, latent=2, width=8, prior="vamp", prior_components=5)
    assert isinstance(model, VAE)
    mixture = model.networks.mixture
    assert isinstance(mixture, PseudoInputs)
    some = np.linspace(0, len(data.train) - 1, 5).astype(int)
    np.testing.assert_allclose(mixture.examples, np.clip(data.train.batch(some).x, 0.05, 0.95), atol=1e-5)
    points = PseudoInputs(3, (2,), False, KEY)
    np.testing.assert_allclose(points.at(jnp.full((3, 2), 7.0)).examples, 7.0)
    assert np.isfinite(np.asarray(model.sample(KEY, 3, temperature=0.5))).all()


# ---------------------------------------------------------------------- the sphere


def test_importance_weights_on_the_sphere_estimate_the_likelihood_that_quadrature_gives() -> None:
    model = broad(build(posterior="hyperspherical"), -1.0)
    turn = (np.arange(1000) + 0.5) / 1000 * 2 * np.pi
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    exact = evidence(model, circle, np.full(1000, np.log(2 * np.pi / 1000)))
    assert np.exp(exact).sum() == pytest.approx(1, abs=1e-4)
    weights = np.asarray(eqx.filter_jit(model.log_weights)(Batch(X), KEY, 400), np.float64)
    found = logsumexp(weights, axis=0) - np.log(400)
    error = np.exp(weights - found[None]).std(axis=0) / np.sqrt(400)
    assert (np.abs(found - exact) < 5 * error + 1e-3).all()
    rate, _ = eqx.filter_jit(model.rate_and_distortion)(Batch(X), KEY)
    assert (np.asarray(rate) > 0).all()
    assert model.rate_note == ""
    np.testing.assert_allclose(np.linalg.norm(model.encode(X), axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(model.encode(X, key=KEY), axis=1), 1, atol=1e-5)


def test_use_of_codes_on_the_sphere_is_told_in_units_of_the_prior() -> None:
    """All directions the same for all examples: nothing in use; opposite ones: one bit, and one entry of size 64."""
    posterior = HypersphericalPosterior(64)
    sharp = np.zeros((2, 65), np.float32)
    sharp[:, 3], sharp[:, 64] = (1, -1), 3.0
    moments = eqx.filter_jit(posterior.moments)(jnp.asarray(sharp), KEY)
    spread = np.asarray(moments.mean).var(axis=0)
    assert (spread > 0.01).tolist() == [i == 3 for i in range(64)]
    z = np.asarray(
        eqx.filter_jit(posterior.draw)(
            jnp.asarray(np.repeat(sharp[:1], 3000, axis=0)),
            jnp.asarray(DRAW.normal(size=(3000, 64)), jnp.float32),
        )
    )
    np.testing.assert_allclose(np.asarray(moments.mean)[0] / 8, z.mean(axis=0), atol=5 / np.sqrt(64 * 3000))
    np.testing.assert_allclose(np.exp(np.asarray(moments.log_variance)[0]) / 64, z.var(axis=0), rtol=0.12)
    model = build(posterior="hyperspherical", latent=3)
    use = eqx.filter_jit(model.latent_use)(Batch(X), KEY)
    assert float(use.divergence.sum()) == pytest.approx(
        float(use.information + use.marginal_divergence), rel=1e-5
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"posterior": "hyperspherical", "latent": 1}, "use latent=2"),
        ({"posterior": "hyperspherical", "prior": "vamp"}, "leave prior out"),
        ({"chunk": 2}, "add decoder=autoregressive"),
        ({"context_dropout": 0.5}, "add decoder=autoregressive"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as found:
        build(**settings)
    assert message in str(found.value)


def test_directions_have_no_temperature_and_no_learned_prior_given_a_class() -> None:
    with pytest.raises(ArgumentError, match="directions have no spread"):
        build(posterior="hyperspherical").sample(KEY, 2, temperature=0.5)
    classes = Schema("points", (2,), "class", classes=("a", "b"))
    with pytest.raises(ArgumentError, match="add prior=standard"):
        models.build("cvae", classes, posterior="hyperspherical")
    model = models.build("cvae", classes, posterior="hyperspherical", prior="standard", latent=2, width=8)
    assert np.isfinite(np.asarray(model.sample(KEY, 2, condition="a"))).all()  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- entries that see each other


def test_chunks_see_their_own_entries_and_masks_multiply_to_what_may_be_seen() -> None:
    for chunk in (None, 1, 3):
        masks = [np.asarray(mask, int) for mask in autoregressive_masks(7, [20, 30], 2, chunk)]
        reach = (masks[0] @ masks[1] @ masks[2] > 0)[:, ::2]
        before = np.tri(7, 7, -1, bool).T
        together = np.arange(7)[:, None] // (chunk or 7) == np.arange(7)[None] // (chunk or 7)
        np.testing.assert_array_equal(reach, before & together)


@pytest.mark.parametrize("settings", [{}, {"chunk": 2}, {"depth": 0}], ids=str)
def test_entries_given_the_code_and_those_before_are_a_distribution_that_draws_follow(settings: Any) -> None:
    model = build(**{"decoder": "autoregressive", **settings})
    loud = jax.tree.map(lambda a: 3 * a, eqx.filter(model.networks.context, eqx.is_inexact_array))
    model = eqx.tree_at(lambda m: m.networks.context, model, eqx.combine(loud, model.networks.context))
    given = model.networks.given(None, 16)
    z = jnp.broadcast_to(jnp.asarray([[0.7, -1.2]]), (16, 2))
    found = np.asarray(eqx.filter_jit(model.log_likelihood)(X, z, given), np.float64)
    assert np.exp(found).sum() == pytest.approx(1, abs=1e-5)
    many = 20_000
    draw = eqx.filter_jit(
        lambda k: model.networks.examples(jnp.repeat(z[:1], many, 0), model.networks.given(None, many), k)
    )
    drawn = np.asarray(draw(KEY)) @ np.asarray([8, 4, 2, 1])
    shares = np.bincount(drawn.astype(int), minlength=16) / many
    np.testing.assert_allclose(shares, np.exp(found), atol=5 * np.sqrt(0.25 / many))
    means = np.asarray(model.decode(z[:1]))
    assert ((means > 0) & (means < 1)).all()


def test_hidden_entries_tell_nothing_in_training_and_everything_afterwards() -> None:
    model = build(decoder="autoregressive", context_dropout=0.999)
    given, z = model.networks.given(None, 16), jnp.zeros((16, 2))
    hidden = model.log_likelihood(X, z, given, KEY)
    still = eqx.nn.inference_mode(model)
    blank = still.networks.entry_parameters(z, given, jnp.full_like(X, 0.5))
    np.testing.assert_allclose(hidden, model.entry_log_likelihood(X, blank), rtol=1e-4)
    np.testing.assert_allclose(still.log_likelihood(X, z, given, KEY), model.log_likelihood(X, z, given))
    each = np.asarray(model.context_nats(Batch(X), KEY))
    assert each.shape == (16,)
    assert build().context_nats(Batch(X), KEY) is None


# ---------------------------------------------------------------------- collapse and what helps


def chains(count: int, seed: int) -> np.ndarray:
    """Zeros and ones that change their mind with probability 0.2: all there is to know stands in the entry before."""
    flips = np.random.default_rng(seed).random((count, 8)) < np.where(np.arange(8) == 0, 0.5, 0.2)
    return (np.cumsum(flips, axis=1) % 2).astype(np.float32)


def trained(model: Any, x: jax.Array, steps: int) -> Any:
    parts, optimizer = parts_of(model), optax.adam(3e-3)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    states = [optimizer.init(eqx.filter(part.where(model), eqx.is_inexact_array)) for part in parts]

    def step(carry: Any, key: jax.Array) -> Any:
        arrays, states = carry[0], list(carry[1])
        for number, part in enumerate(parts):
            for again in range(part.repeat):
                k = jax.random.fold_in(jax.random.fold_in(key, number), again)
                batch = Batch(x[jax.random.randint(k, (128,), 0, len(x))])
                model = eqx.combine(arrays, rest)
                own, others = eqx.partition(part.where(model), eqx.is_inexact_array)

                def loss(
                    own: Any,
                    model: Any = model,
                    part: Any = part,
                    others: Any = others,
                    batch: Any = batch,
                    k: Any = k,
                ) -> Any:
                    return part.loss(eqx.tree_at(part.where, model, eqx.combine(own, others)), batch, k)[0]

                change, states[number] = optimizer.update(jax.grad(loss)(own), states[number])
                moved = eqx.combine(optax.apply_updates(own, change), others)
                arrays = eqx.filter(eqx.tree_at(part.where, model, moved), eqx.is_inexact_array)
        return (arrays, tuple(states)), None

    run = jax.jit(lambda a, s: jax.lax.scan(step, (a, s), jax.random.split(KEY, steps))[0][0])
    return eqx.nn.inference_mode(eqx.combine(run(arrays, tuple(states)), rest))


@pytest.mark.parametrize(
    ("remedy", "collapses"),
    [
        ({}, True),
        ({"free_bits": 0.25}, False),
        ({"context_dropout": 0.5}, False),
        ({"chunk": 2}, False),
        ({"decoder": "factorised"}, False),
    ],
    ids=str,
)
def test_a_decoder_that_sees_entries_before_does_without_codes_unless_something_is_done(
    remedy: Any, collapses: bool
) -> None:
    model = build(
        Schema("table", (8,), levels=2),
        **{"decoder": "autoregressive", "width": 32, "warmup": 0.0, "beta": 1.2, **remedy},
    )
    found = trained(model, jnp.asarray(chains(2048, 0)), 1500)
    held_out = Batch(jnp.asarray(chains(512, 1)))
    use = eqx.filter_jit(found.latent_use)(held_out, KEY)
    rate = float(use.divergence.sum())
    if not collapses:
        assert int(use.active.sum()) == 2
        assert rate > 0.3
        return
    assert rate < IDLE / 2, "centres may still vary a little, but say nothing"
    said = collapsed(
        {
            "active_units": Metric(float(use.active.sum())),
            "rate": Metric(rate),
            "context_nats": Metric(float(found.context_nats(held_out, KEY).mean())),
        }
    )
    assert said.startswith("collapsed: no entry of the code is in use")
    assert "decoder=autoregressive" in said
    assert "context_dropout=0.5" in said


def test_an_encoder_that_moves_more_often_is_a_part_of_its_own_with_the_same_loss() -> None:
    model = build(encoder_steps=3, decoder="autoregressive", prior="vamp", prior_components=2)
    assert isinstance(model, AggressiveVAE)
    assert isinstance(build(), VAE)
    inward, outward = parts_of(model)
    assert (inward.repeat, outward.repeat) == (3, 1)
    assert [part.counted for part in (inward, outward)] == [False, True]
    owned = [
        len(jax.tree.leaves(eqx.filter(part.where(model), eqx.is_inexact_array)))
        for part in (inward, outward)
    ]
    assert sum(owned) == len(jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))
    losses = [float(part.loss(model, Batch(X), KEY)[0]) for part in (inward, outward)]
    assert losses[0] == losses[1] == pytest.approx(float(model.loss(Batch(X), KEY)[0]))
