"""The hierarchical variational auto-encoder: both ways of inference against quadrature, one level against `vae`."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, ChainruleError
from chainrule.data import Batch, Schema
from chainrule.models.latent.hvae import HVAE
from chainrule.models.latent.vae import VAE

KEY = jax.random.key(0)
POINTS = Schema("points", (2,))
IMAGES = Schema("image", (5, 5, 1), levels=17)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def build(schema: Schema, **settings: Any) -> HVAE:
    model = models.build("hvae", schema, **{"latents": (1, 1), "width": 8, **settings})
    assert isinstance(model, HVAE)
    return model


def moved(model: HVAE) -> HVAE:
    """The same with other numbers in every array, so that no layer is at its quiet beginning."""
    noise = np.random.default_rng(1)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    shift = jax.tree.map(lambda a: a + jnp.asarray(0.2 * noise.normal(size=a.shape), a.dtype), arrays)
    found: HVAE = eqx.combine(shift, rest)
    return found


def points(n: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).normal(size=(n, 2)), jnp.float32)


# ---------------------------------------------------------------------- densities


@pytest.mark.parametrize("inference", ["top-down", "bottom-up"])
def test_densities_integrate_and_importance_weights_give_the_evidence_of_quadrature(inference: str) -> None:
    model = moved(build(POINTS, inference=inference, scale="fixed", sigma=1.0))
    x = points(1)
    axis = np.linspace(-15, 15, 241)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)

    @eqx.filter_jit
    def on_the_grid(model: HVAE, codes: jax.Array) -> tuple[jax.Array, jax.Array]:
        path = model.hierarchy.path(model.seen(jnp.repeat(x, len(codes), axis=0)), codes)
        return path.posterior.log_prob(codes).sum(axis=-1), model.entry_log_likelihood(
            jnp.repeat(x, len(codes), axis=0), path.parameters
        ) + path.prior.log_prob(codes).sum(axis=-1)

    log_q, log_joint = (np.asarray(a, np.float64) for a in on_the_grid(model, jnp.asarray(grid, jnp.float32)))
    cell = (axis[1] - axis[0]) ** 2
    assert np.exp(log_q).sum() * cell == pytest.approx(1, abs=2e-3)
    evidence = np.log(np.exp(log_joint).sum() * cell)
    weights = np.asarray(eqx.filter_jit(model.log_weights)(Batch(x), KEY, 20_000), np.float64)[:, 0]
    ratio = np.exp(weights - evidence)
    assert ratio.mean() == pytest.approx(1, abs=5 * ratio.std() / np.sqrt(len(ratio)))
    assert ratio.std() / np.sqrt(len(ratio)) < 0.02
    # The bound, averaged over codes, is below the evidence by KL(q || p(z|x)) of the same grid.
    gap = (np.exp(log_q) * (log_q - log_joint + evidence)).sum() * cell
    rows = Batch(jnp.repeat(x, 20_000, axis=0))
    rate, distortion = (
        np.asarray(a, np.float64) for a in eqx.filter_jit(model.rate_and_distortion)(rows, KEY)
    )
    error = (rate + distortion).std() / np.sqrt(20_000)
    assert -(rate + distortion).mean() == pytest.approx(evidence - gap, abs=5 * error + 2e-3)


@pytest.mark.parametrize("inference", ["top-down", "bottom-up"])
@pytest.mark.parametrize("body", ["mlp", "conv"])
def test_the_density_of_drawn_codes_is_that_of_the_noise_behind_them(inference: str, body: str) -> None:
    settings = {"latents": (1, 2, 2), "body": body, "channels": (4, 4), "inference": inference}
    model = moved(build(IMAGES, **settings))
    x = jnp.asarray(np.random.default_rng(0).integers(0, 17, (3, 5, 5, 1)) / 16, jnp.float32)

    @eqx.filter_jit
    def both(model: HVAE) -> tuple[jax.Array, ...]:
        noise = jax.random.normal(KEY, (3, model.hierarchy.size))
        path = model.hierarchy.inferred(model.seen(x), noise)
        by_noise = -0.5 * (jnp.square(noise) + path.posterior.log_variance + np.log(2 * np.pi))
        again = model.hierarchy.path(model.seen(x), path.codes)
        decoded = model.hierarchy.entry_parameters(path.codes)
        pairs = model.hierarchy.pairs(model.seen(x), path.codes)
        return by_noise.sum(-1), again.posterior.log_prob(path.codes).sum(-1), pairs, path.parameters, decoded

    by_noise, density, pairs, parameters, decoded = both(model)
    np.testing.assert_allclose(density, by_noise, rtol=1e-3)
    np.testing.assert_allclose(np.diagonal(pairs), by_noise, rtol=1e-3)
    np.testing.assert_allclose(decoded, parameters, rtol=1e-4, atol=1e-4)


def test_one_level_is_the_bound_of_vae() -> None:
    vae = models.build("vae", POINTS, latent=2, width=8, depth=1)
    assert isinstance(vae, VAE)
    encoder, decoder = vae.networks.encoder.network, vae.networks.decoder.network  # type: ignore[union-attr]
    model = eqx.tree_at(
        lambda m: (
            *(m.hierarchy.entry, m.hierarchy.rungs[0].posterior, m.hierarchy.rungs[0].code),
            *(m.hierarchy.exit, m.family),
        ),
        build(POINTS, latents=(2,)),
        (*encoder.layers, *decoder.layers, vae.networks.output),
    )
    batch = Batch(points(16))
    for found, expected in zip(
        eqx.filter_jit(model.rate_and_distortion)(batch, KEY),
        eqx.filter_jit(vae.rate_and_distortion)(batch, KEY),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    own, other = (eqx.filter_jit(m.latent_use)(batch, KEY) for m in (model, vae))
    np.testing.assert_allclose(own.divergence, other.divergence, rtol=1e-4)
    np.testing.assert_allclose(own.spread, other.spread, rtol=1e-4)
    np.testing.assert_allclose(model.encode(batch.x), vae.encode(batch.x), rtol=1e-5)


# ---------------------------------------------------------------------- the loss


def test_the_loss_weighs_the_rate_of_all_levels_and_leaves_free_bits_out() -> None:
    model = moved(build(POINTS, latents=(2, 3, 1), beta=2.0, warmup=0.5))
    batch = Batch(points(8))
    loss = eqx.filter_jit(lambda p: model.loss_at(batch, KEY, p))
    for progress, weight in ((0.0, 0.0), (0.25, 1.0), (1.0, 2.0)):
        value, parts = loss(jnp.asarray(progress))
        assert float(value) == pytest.approx(float(parts["distortion"] + weight * parts["rate"]), rel=1e-5)
    levels = [parts[f"rate_z{level}"] for level in (1, 2, 3)]
    assert float(sum(levels)) == pytest.approx(float(parts["rate"]), rel=1e-5)
    rates = eqx.filter_jit(model.level_rates)(batch, KEY)
    rate, _ = eqx.filter_jit(model.rate_and_distortion)(batch, KEY)
    np.testing.assert_allclose(sum(rates.values()), rate, rtol=1e-4)
    free = build(POINTS, latents=(2, 3, 1), free_bits=50.0, warmup=0.0)
    value, parts = eqx.filter_jit(free.loss)(batch, KEY)
    assert float(value) == pytest.approx(float(parts["distortion"]) + 6 * 50.0, rel=1e-5)
    assert model.with_beta(4.0).config.beta == 4


def test_levels_that_are_ignored_have_no_active_entry() -> None:
    model = build(POINTS, latents=(2, 2))
    silent = jnp.zeros_like
    deaf = eqx.tree_at(
        lambda m: [rung.posterior.weight for rung in m.hierarchy.rungs],
        model,
        replace_fn=silent,
    )
    deaf = eqx.tree_at(lambda m: [rung.code.weight for rung in m.hierarchy.rungs], deaf, replace_fn=silent)
    use = eqx.filter_jit(deaf.latent_use)(Batch(points(32)), KEY)
    assert not np.asarray(use.active).any()
    assert float(np.abs(np.asarray(use.divergence)).max()) == 0
    assert float(use.sensitivity) == pytest.approx(0, abs=1e-6)
    assert int(use.compared) == 32


# ---------------------------------------------------------------------- codes and samples


def test_top_levels_that_are_fixed_are_shared_and_the_rest_is_drawn_anew() -> None:
    model = moved(build(POINTS, latents=(2, 2, 2)))
    drawn = {m: np.asarray(model.sample(KEY, 4, levels_fixed=m, entries="mean")) for m in (0, 2, 3)}
    assert np.ptp(drawn[3], axis=0).max() == pytest.approx(0, abs=1e-5)
    assert np.ptp(drawn[2], axis=0).min() > 1e-4
    cold = model.sample(KEY, 3, temperature=0.0, entries="mean")
    np.testing.assert_allclose(
        cold, np.repeat(model.decode(jnp.zeros((1, 2)), top=True), 3, axis=0), atol=1e-5
    )
    codes = model.encode(points(3))
    assert codes.shape == (3, 6)
    np.testing.assert_allclose(model.encode(points(3), top=True), codes[:, 4:], rtol=1e-6)
    with pytest.raises(ArgumentError, match="levels_fixed=4: all there are is 3"):
        model.sample(KEY, 2, levels_fixed=4)
    with pytest.raises(ArgumentError, match="levels_fixed=-1"):
        model.sample(KEY, 2, levels_fixed=-1)


def test_levels_of_a_convolutional_one_lie_at_several_resolutions() -> None:
    config = {"latents": (1, 2, 3), "body": "conv", "channels": (4, 8)}
    model = eqx.filter_eval_shape(lambda: build(IMAGES, **config))
    assert [rung.shape for rung in model.hierarchy.rungs] == [(5, 5, 1), (5, 5, 2), (3, 3, 3)]
    assert model.level_sizes == (25, 50, 27)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"body": "conv"}, "no rows and columns of pixels"),
        ({"coarse": 2}, "no rows and columns of pixels"),
        ({"latents": (2, 0)}, "every level has at least one entry"),
        ({"latents": ()}, "latents"),
        ({"likelihood": "categorical"}, "for data with levels"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ChainruleError) as found:
        build(POINTS, **settings)
    assert message in str(found.value)
