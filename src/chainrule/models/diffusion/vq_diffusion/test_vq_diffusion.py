"""Diffusion of codes beyond the promises every model keeps: its kernels, its bound, its first stage, its refusals."""

import itertools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import models
from chainrule.core.errors import CapabilityError
from chainrule.data import Batch, Data
from chainrule.models.diffusion.vq_diffusion import (
    CHAINS,
    AbsorbingChain,
    BoundedVQDiffusion,
    TokenChain,
    UniformChain,
    VQDiffusion,
)
from chainrule.models.protocol import Model

KEY = jax.random.key(0)
SMALL = {"width": 8, "depth": 1, "timesteps": 6}
STAGE = {"codes": 5, "code_size": 2, "slots": 3, "width": 8, "depth": 1, "prior_layers": 0, "prior_width": 4}
WORDS = 3


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(params=sorted(CHAINS))
def chain(request: pytest.FixtureRequest) -> TokenChain:
    return CHAINS[request.param](WORDS)


def step_matrix(chain: TokenChain, t: float, earlier: float) -> np.ndarray:
    """Q between two times from its definition: what was kept, and what pi puts in the place of the rest."""
    alpha = float(chain.kept(t)) / float(chain.kept(earlier))
    return alpha * np.eye(chain.states) + (1 - alpha) * np.asarray(chain.rest())[None]


def all_posteriors(chain: TokenChain, many_probs: np.ndarray, t: float, earlier: float) -> np.ndarray:
    """Of every x_t, rows, and each of the distributions of clean tokens, columns."""
    x = np.repeat(np.arange(chain.states)[:, None], len(many_probs), axis=1)
    probs = np.broadcast_to(many_probs[None], (*x.shape, chain.states))
    found = jax.jit(chain.posterior)(jnp.asarray(x), jnp.asarray(probs), jnp.asarray(t), jnp.asarray(earlier))
    return np.asarray(found)


def test_one_step_after_another_is_the_kernel_of_both(chain: TokenChain) -> None:
    times = np.linspace(0, 1, 6)
    product = np.eye(chain.states)
    for earlier, t in itertools.pairwise(times):
        product = product @ step_matrix(chain, t, earlier)
        kept, pi = float(chain.kept(t)), np.asarray(chain.rest())
        np.testing.assert_allclose(product, kept * np.eye(chain.states) + (1 - kept) * pi[None], atol=1e-6)
    np.testing.assert_allclose(product, np.broadcast_to(pi, product.shape), atol=1e-6)  # nothing is kept


def test_the_posterior_is_that_of_bayes_rule(chain: TokenChain) -> None:
    """Proportional to Q_t[:, x_t] Qbar_{t-1}[x_0, :], for every pair that can be."""
    t, earlier = 0.6, 0.4
    found = all_posteriors(chain, np.eye(chain.states, dtype=np.float32)[:WORDS], t, earlier)
    step, before = step_matrix(chain, t, earlier), step_matrix(chain, earlier, 0.0)
    for x in range(chain.states):
        for clean in range(WORDS):
            joint = step[:, x] * before[clean]
            if joint.sum() > 0:
                np.testing.assert_allclose(found[x, clean], joint / joint.sum(), atol=1e-6)


def test_unknown_tokens_have_the_mean_of_the_posteriors(chain: TokenChain) -> None:
    t, earlier, probs = 0.6, 0.4, np.zeros(chain.states, np.float32)
    probs[:WORDS] = [0.2, 0.5, 0.3]
    found = all_posteriors(chain, probs[None], t, earlier)[:, 0]
    single = all_posteriors(chain, np.eye(chain.states, dtype=np.float32), t, earlier)
    reached = step_matrix(chain, t, 0.0).T > 0
    for x in range(chain.states):
        possible = probs * reached[x] / (probs * reached[x]).sum()
        np.testing.assert_allclose(found[x], (possible[:, None] * single[x]).sum(axis=0), atol=1e-6)
        assert found[x].sum() == pytest.approx(1, abs=1e-5)


def test_with_the_true_distribution_the_bound_is_the_entropy_and_the_walk_ends_at_the_data(
    chain: TokenChain,
) -> None:
    """A single token of known distribution: the reverse chain is exact, and all terms together cost what it must."""
    data = np.array([0.2, 0.5, 0.3])
    total, bound, marginal = 7, 0.0, np.asarray(chain.rest(), np.float64)
    divergence = jax.jit(chain.divergence)
    for number in range(total, 0, -1):
        t, earlier = number / total, (number - 1) / total
        reach = step_matrix(chain, t, 0.0)[:WORDS]  # clean, then noisy
        joint = data[:, None] * reach
        probs = np.zeros((chain.states, chain.states), np.float32)
        probs[:, :WORDS] = (joint / np.maximum(joint.sum(axis=0), 1e-30)).T
        x, clean = (
            part.astype(np.int32)
            for part in np.meshgrid(np.arange(chain.states), np.arange(WORDS), indexing="ij")
        )
        many_probs = np.repeat(probs[:, None], WORDS, axis=1)
        each = np.asarray(divergence(x, clean, many_probs, jnp.asarray(t), jnp.asarray(earlier)))
        bound += (joint.T * each).sum()
        back = np.stack(
            [all_posteriors(chain, probs[k][None], t, earlier)[k, 0] for k in range(chain.states)]
        )
        marginal = marginal @ back
    assert bound == pytest.approx(-(data * np.log(data)).sum(), rel=1e-4)
    np.testing.assert_allclose(marginal[:WORDS], data, atol=1e-5)


def test_down_to_the_data_the_divergence_is_the_cross_entropy(chain: TokenChain) -> None:
    probs = np.zeros((WORDS, chain.states), np.float32)
    probs[:, :WORDS] = [0.2, 0.5, 0.3]
    seen, clean = jnp.full(WORDS, chain.states - 1), jnp.arange(WORDS)
    found = jax.jit(chain.divergence)(seen, clean, jnp.asarray(probs), 0.5, 0.0)
    np.testing.assert_allclose(found, -np.log([0.2, 0.5, 0.3]), rtol=1e-5)


def test_second_derivatives_of_the_divergence_are_finite(chain: TokenChain) -> None:
    x = jnp.asarray(np.repeat(np.arange(chain.states), WORDS), jnp.int32)
    clean = jnp.asarray(np.tile(np.arange(WORDS), chain.states), jnp.int32)

    def total(logits: jax.Array) -> jax.Array:
        probs = jnp.pad(jax.nn.softmax(logits), (0, chain.states - WORDS))
        return chain.divergence(x, clean, jnp.broadcast_to(probs, (len(x), chain.states)), 0.6, 0.4).sum()

    assert np.isfinite(jax.jit(jax.hessian(total))(jnp.array([0.5, -1.0, 0.0]))).all()


def test_tokens_are_replaced_as_often_as_the_chain_says(chain: TokenChain) -> None:
    x = jnp.zeros((4000,), jnp.int32)
    found = np.asarray(jax.jit(chain.noised)(x, jnp.asarray(0.5), KEY))
    share = float(chain.kept(0.5))
    expected = share * np.eye(chain.states)[0] + (1 - share) * np.asarray(chain.rest())
    np.testing.assert_allclose(np.bincount(found, minlength=chain.states) / 4000, expected, atol=0.03)


def test_what_is_hidden_stays_hidden_and_what_is_seen_stays_seen() -> None:
    chain = AbsorbingChain(WORDS)
    probs = np.array([[0.2, 0.5, 0.3, 0.0]], np.float32)
    found = all_posteriors(chain, probs, 0.5, 0.25)[:, 0]
    np.testing.assert_allclose(found[:WORDS], np.eye(4)[:WORDS], atol=1e-6)
    np.testing.assert_allclose(found[WORDS], [0.1, 0.25, 0.15, 0.5], atol=1e-6)
    assert float(UniformChain(WORDS).kept(1.0)) == 0


# ---------------------------------------------------------------------- the model


@pytest.fixture(scope="module")
def moons() -> Data:
    return cr.data.load("moons")


@pytest.fixture(scope="module")
def stage(moons: Data) -> Model:
    return models.build("vq-vae", moons, **STAGE)


@pytest.fixture(scope="module")
def model(stage: Model, moons: Data) -> BoundedVQDiffusion:
    found = models.begin("vq-diffusion", stage, moons, **SMALL)
    assert isinstance(found, BoundedVQDiffusion)
    noise = np.random.default_rng(0)
    exit = found.network.exit
    moved = jnp.asarray(0.5 * noise.normal(size=exit.weight.shape), jnp.float32)
    return eqx.tree_at(lambda model: model.network.exit.weight, found, moved)


def batch_of(n: int = 6) -> Batch:
    x = np.random.default_rng(0).normal(size=(n, 2))
    return Batch(jnp.asarray(x, jnp.float32), jnp.asarray(np.arange(n) % 2))


def test_a_trained_first_stage_is_held_and_nothing_moves_it(stage: Model, model: BoundedVQDiffusion) -> None:
    assert eqx.tree_equal(stage, model.body)
    assert model.config.frozen
    assert [id(part) for part in model.state()] == [id(model.body)]

    @eqx.filter_jit
    def slope(model: BoundedVQDiffusion) -> BoundedVQDiffusion:
        return eqx.filter_grad(lambda model: model.loss(batch_of(), KEY)[0])(model)

    found = slope(model)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(found.body))
    assert any(np.any(leaf) for leaf in jax.tree.leaves(found.network))


def test_the_bound_is_that_of_the_first_stage_with_another_prior(
    stage: Model, model: BoundedVQDiffusion
) -> None:
    @eqx.filter_jit
    def both(model: BoundedVQDiffusion, stage: Model) -> tuple:
        for_stage, for_codes = jax.random.split(KEY)
        own = stage.bound(Batch(batch_of().x), for_stage)
        given = own.elbo + own.parts["codes"]  # log p(x | c)
        return given - model.code_nats(model.tokens(batch_of().x), for_codes), model.bound(batch_of(), KEY)

    by_hand, found = both(model, stage)
    np.testing.assert_allclose(found.elbo, by_hand, rtol=1e-5)
    assert set(found.parts) == {"codes"}
    assert set(found.given) == {"condition"}


def test_a_fresh_network_finds_all_codes_equally_likely(stage: Model, moons: Data) -> None:
    """Its bound by the absorbing chain is that of three codes of five words, up to the draw of what is hidden."""
    fresh = models.begin("vq-diffusion", stage, moons, **{**SMALL, "timesteps": 1})
    nats = eqx.filter_jit(lambda model: model.code_nats(model.tokens(batch_of().x), KEY))(fresh)
    np.testing.assert_allclose(nats, 3 * np.log(5), rtol=1e-4)


@pytest.mark.parametrize("kernel", sorted(CHAINS))
def test_samples_follow_options(kernel: str, stage: Model, moons: Data) -> None:
    model = models.begin("vq-diffusion", stage, moons, **SMALL, kernel=kernel)
    drawn = model.sample(KEY, 4, condition=1, steps=3, guidance=2.0, temperature=0.8)
    assert drawn.shape == (4, 2)
    # Every sample is the decoding of some grid of codes.
    grids = np.stack(np.meshgrid(*(3 * [np.arange(5)]), indexing="ij"), axis=-1).reshape(-1, 3)
    every = np.asarray(eqx.filter_jit(stage.decode_indices)(jnp.asarray(grids)))
    assert (np.abs(np.asarray(drawn)[:, None] - every[None]).max(axis=-1).min(axis=1) < 1e-4).all()


def test_scores_state_the_ceiling_and_bits_of_codes(model: BoundedVQDiffusion) -> None:
    found = eqx.filter_jit(lambda model: model.scores(batch_of(), KEY))(model)
    assert set(found) == {"reconstruction_ceiling", "bits_per_code", "bits_per_code_given_y"}
    assert found["bits_per_code"].unit == "bound, of codes and not of the data"


def test_a_first_stage_without_a_codebook_is_refused_with_what_to_train(moons: Data) -> None:
    vae = models.build("vae", moons, latent=2, width=8, depth=1)
    with pytest.raises(
        CapabilityError, match="chainrule train vq-vae, then chainrule train vq-diffusion from=RUN"
    ):
        models.begin("vq-diffusion", vae, moons, **SMALL)


def test_guidance_needs_conditions_that_were_dropped(stage: Model, moons: Data) -> None:
    model = models.begin("vq-diffusion", stage, moons, **SMALL, condition_dropout=0.0)
    with pytest.raises(CapabilityError, match="use guidance=1"):
        model.sample(KEY, 1, condition=0, guidance=2.0)
    with pytest.raises(CapabilityError, match="name one"):
        model.sample(KEY, 1)


def test_codes_judged_with_noise_between_levels_give_no_bound() -> None:
    """The codes of x and of x with noise may differ: no bound is better than a wrong one."""
    x = np.random.default_rng(0).integers(0, 5, (40, 2))
    data = cr.data.from_arrays(x, kind="points", levels=5)
    body = {**STAGE, "likelihood": "gaussian"}
    assert isinstance(models.build("vq-diffusion", data, body=body, **SMALL), VQDiffusion)
    assert isinstance(models.build("vq-diffusion", data, body=STAGE, **SMALL), BoundedVQDiffusion)
