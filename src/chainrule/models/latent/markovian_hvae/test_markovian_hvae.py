"""The Markovian hierarchy where its answers are known: linear Gaussians, quadrature, chains of fixed noise."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from chainrule import models
from chainrule.core.errors import ChainruleError
from chainrule.data import Batch, Schema
from chainrule.models.latent.markovian_hvae import MarkovianHVAE
from chainrule.models.latent.markovian_hvae.diffusion import DiffusionChain

KEY = jax.random.key(0)
POINTS = Schema("points", (2,))


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def build(schema: Schema, **settings: Any) -> MarkovianHVAE:
    model = models.build("markovian-hvae", schema, **{"latents": (1, 1), "width": 8, **settings})
    assert isinstance(model, MarkovianHVAE)
    return model


def test_the_bound_of_linear_gaussians_with_the_exact_posterior_is_the_evidence() -> None:
    """z2 ~ N(0, I), z1 ~ N(A z2 + b, S), x ~ N(W z1 + c, s² I); W has orthogonal columns, so that q is diagonal."""
    noise = np.random.default_rng(0)
    s, a, b, c = 0.7, np.array([0.8, -1.5]), noise.normal(size=2), noise.normal(size=4)
    spread = np.array([0.4, 0.9])
    w = np.linalg.qr(noise.normal(size=(4, 2)))[0] * np.array([2.0, 0.5])
    x = noise.normal(size=(5, 4))
    of_z1 = a**2 + spread
    exact = multivariate_normal(w @ b + c, w @ np.diag(of_z1) @ w.T + s**2 * np.eye(4)).logpdf(x)
    variance = 1 / (1 / of_z1 + (w**2).sum(axis=0) / s**2)
    to_z1 = w * variance / s**2
    up_mean, up_bias = a / of_z1, -a * b / of_z1
    with jax.enable_x64(True):
        model = build(Schema("points", (4,)), latents=(2, 2), depth=0, scale="fixed", sigma=s)
        wide = jax.tree.map(
            lambda leaf: leaf.astype(jnp.float64) if eqx.is_inexact_array(leaf) else leaf, model
        )
        exactly = eqx.tree_at(
            lambda m: [
                *_linear(m.hierarchy.ups[0].network.network),
                *(m.hierarchy.ups[0].log_variance, *_linear(m.hierarchy.ups[1].network)),
                *(m.hierarchy.ups[1].log_variance, *_linear(m.hierarchy.downs[0].network)),
                *(m.hierarchy.downs[0].log_variance, *_linear(m.hierarchy.decoder.network)),
            ],
            wide,
            [
                jnp.asarray(value)
                for value in (
                    *(to_z1, b - (w @ b + c) @ to_z1, np.log(variance)),
                    *(np.diag(up_mean), up_bias, np.log(spread / of_z1)),
                    *(np.diag(a), b, np.log(spread), w.T, c),
                )
            ],
        )
        bound = np.asarray(eqx.filter_jit(exactly.elbo)(jnp.asarray(x), KEY))
        weights = np.asarray(eqx.filter_jit(exactly.log_weights)(Batch(jnp.asarray(x)), KEY, 3))
    np.testing.assert_allclose(bound, exact, rtol=0, atol=1e-10)
    np.testing.assert_allclose(weights, np.broadcast_to(exact, (3, 5)), rtol=0, atol=1e-10)


def _linear(network: Any) -> tuple[Any, Any]:
    return network.layers[0].weight, network.layers[0].bias


def test_importance_weights_give_the_evidence_of_quadrature_and_q_integrates_to_one() -> None:
    model = build(POINTS, activation="tanh", scale="fixed", sigma=1.0)
    model = jax.tree.map(lambda a: a / 2 if eqx.is_inexact_array(a) else a, model)  # q near p: even weights
    x = jnp.asarray([[0.5, -1.0]], jnp.float32)
    axis = np.linspace(-15, 15, 241)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)

    @eqx.filter_jit
    def on_the_grid(codes: jax.Array) -> tuple[jax.Array, jax.Array]:
        rows = jnp.repeat(x, len(codes), axis=0)
        path = model.hierarchy.path(rows, codes)
        log_joint = model.entry_log_likelihood(rows, path.parameters) + path.prior.log_prob(codes).sum(-1)
        return path.posterior.log_prob(codes).sum(-1), log_joint

    log_q, log_joint = (np.asarray(a, np.float64) for a in on_the_grid(jnp.asarray(grid, jnp.float32)))
    cell = (axis[1] - axis[0]) ** 2
    assert np.exp(log_q).sum() * cell == pytest.approx(1, abs=2e-3)
    evidence = np.log(np.exp(log_joint).sum() * cell)
    weights = np.asarray(eqx.filter_jit(model.log_weights)(Batch(x), KEY, 20_000), np.float64)[:, 0]
    ratio = np.exp(weights - evidence)
    assert ratio.mean() == pytest.approx(1, abs=5 * ratio.std() / np.sqrt(len(ratio)))
    assert ratio.std() / np.sqrt(len(ratio)) < 0.02


def test_of_a_chain_only_the_lowest_level_is_compared_with_other_examples() -> None:
    model = build(POINTS, latents=(2, 3))
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)), jnp.float32)

    @eqx.filter_jit
    def both() -> tuple[jax.Array, jax.Array]:
        codes = model.inferred(x, KEY).codes
        under = [
            model.hierarchy.path(x, jnp.broadcast_to(codes[i][None], codes.shape)).posterior for i in range(4)
        ]
        direct = jnp.stack(
            [q.log_prob(jnp.broadcast_to(codes[i][None], codes.shape)).sum(-1) for i, q in enumerate(under)]
        )
        return model.hierarchy.pairs(x, codes), direct

    pairs, direct = both()
    np.testing.assert_allclose(pairs, direct, rtol=1e-4)


# ---------------------------------------------------------------------- fixed noise


def test_fixed_noise_has_the_same_density_upwards_and_downwards() -> None:
    """q(z_1|x) prod q(z_t|z_{t-1}), from which codes are drawn, against q(z_T|x) prod q(z_{t-1}|z_t, x)."""
    model = build(POINTS, posterior="diffusion", timesteps=4, lam_max=5.0, depth=1)
    chain = model.hierarchy
    assert isinstance(chain, DiffusionChain)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 2)), jnp.float32)
    noise = jax.random.normal(KEY, (3, 8))
    path = eqx.filter_jit(chain.inferred)(x, noise)
    downwards = np.asarray(path.posterior.log_prob(path.codes), np.float64).sum(axis=-1)
    volume = 2 * (np.log(chain.levels.s[0]) + 0.5 * np.log(chain.levels.added).sum())
    upwards = -0.5 * (np.square(np.asarray(noise)) + np.log(2 * np.pi)).sum(axis=-1) - volume
    np.testing.assert_allclose(downwards, upwards, rtol=1e-4)
    np.testing.assert_allclose(np.square(chain.levels.a) + np.square(chain.levels.s), 1)


def test_samples_of_fixed_noise_share_the_top_levels_and_rates_have_the_words_of_diffusion() -> None:
    model = build(POINTS, posterior="diffusion", timesteps=4, lam_max=5.0, depth=1)
    same = np.asarray(model.sample(KEY, 3, levels_fixed=4, entries="mean"))
    assert np.ptp(same, axis=0).max() == 0
    assert np.ptp(np.asarray(model.sample(KEY, 3, levels_fixed=3, entries="mean")), axis=0).min() > 0
    _, parts = eqx.filter_jit(model.loss)(Batch(jnp.asarray(same)), KEY)
    assert {name for name in parts if name.startswith("rate_")} == {"rate_prior", "rate_diffusion"}
    assert float(parts["rate_prior"] + parts["rate_diffusion"]) == pytest.approx(
        float(parts["rate"]), rel=1e-5
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"posterior": "diffusion", "likelihood": "laplace"}, "leave likelihood out"),
        ({"posterior": "diffusion", "coarse": 2}, "leave coarse out"),
        ({"posterior": "diffusion", "depth": 0}, "use depth=2"),
        ({"posterior": "diffusion", "lam_max": 0.0, "lam_min": 0.0}, "the lowest level has the larger ratio"),
        ({"posterior": "diffusion", "lam_max": 19.0}, "lam_max=19"),
        ({"posterior": "diffusion", "body": "conv"}, "no rows and columns of pixels"),
        ({"coarse": 2}, "no rows and columns of pixels"),
        ({"latents": (0,)}, "every level has at least one entry"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ChainruleError) as found:
        build(POINTS, **settings)
    assert message in str(found.value)
