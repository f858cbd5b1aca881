"""Latent diffusion beyond the promises every model keeps: its first stage, its scaling, its bound, what it refuses."""

import functools
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.core.pictures import Scatter
from chainrule.data import Batch, Data, Schema
from chainrule.models.diffusion.denoisers.learned import NetworkDenoiser
from chainrule.models.diffusion.latent_diffusion import BoundedLatentDiffusion, LatentDiffusion, UnitCodes
from chainrule.models.diffusion.latent_diffusion.first_stage import check_first_stage
from chainrule.models.protocol import CanDecode, CanEncode, HasCodebook, Model
from chainrule.networks.unet import UNet
from chainrule.nn.spectral import STFT, mel_spectrogram, power

KEY = jax.random.key(0)
SMALL = {"width": 8, "depth": 1}
STAGE = {"latent": 3, "width": 8, "depth": 1}


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def moons() -> Data:
    return cr.data.load("moons")


def moved(model: Model, size: float = 0.2) -> Model:
    """As if trained: a fresh network says the same of everything."""
    noise = np.random.default_rng(0)
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    arrays = jax.tree.map(
        lambda a: jnp.asarray(np.asarray(a) + size * noise.normal(size=a.shape), a.dtype), arrays
    )
    return eqx.combine(arrays, rest)


@pytest.fixture(scope="module")
def stage(moons: Data) -> Model:
    return moved(models.build("vae", moons, **STAGE))


@pytest.fixture(scope="module")
def model(stage: Model, moons: Data) -> BoundedLatentDiffusion:
    found = models.begin("latent-diffusion", stage, moons, **SMALL)
    assert isinstance(found, BoundedLatentDiffusion)
    return found


def test_a_trained_first_stage_is_held_as_it_is(stage: Model, model: BoundedLatentDiffusion) -> None:
    assert eqx.tree_equal(stage, model.body)
    assert model.config.frozen
    assert model.config.code_shape == (3,)
    assert model.config.body["name"] == "vae"


def test_codes_have_unit_deviation_by_numbers_that_the_model_stores(
    stage: Model, model: BoundedLatentDiffusion, moons: Data
) -> None:
    x = jnp.asarray(moons.train.batch(np.arange(len(moons.train))).x)
    codes = np.asarray(eqx.filter_jit(stage.draw_code)(Batch(x), KEY).code)
    unit = np.asarray(model.unit.scaled(jnp.asarray(codes)))
    np.testing.assert_allclose(unit.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(unit.std(axis=0), 1, atol=0.1)
    back = model.unit.unscaled(jnp.asarray(unit))
    np.testing.assert_allclose(back, codes, atol=1e-4)
    names = [name for name, _ in cr.core.tree.named_leaves(eqx.filter(model, eqx.is_array))]
    assert {"unit.mean", "unit.variance"} <= set(names)


def test_an_entry_that_never_changes_is_not_blown_up() -> None:
    unit = UnitCodes.of(jnp.array([[1.0, 5.0], [3.0, 5.0]]))
    assert np.isfinite(unit.scaled(jnp.array([[2.0, 5.0]]))).all()
    np.testing.assert_allclose(unit.deviation, [1, 1e-3])


def test_running_moments_come_to_those_of_the_codes() -> None:
    draw, unit = np.random.default_rng(0), UnitCodes(jnp.zeros(2), jnp.ones(2))
    advance = jax.jit(UnitCodes.moved)
    for _ in range(800):
        unit = advance(unit, draw.normal([3.0, -1.0], [2.0, 0.1], (32, 2)).astype(np.float32))
    np.testing.assert_allclose(unit.mean, [3, -1], atol=0.2)
    np.testing.assert_allclose(unit.deviation, [2, 0.1], rtol=0.1)


def test_training_moves_diffusion_and_nothing_of_a_frozen_first_stage(model: BoundedLatentDiffusion) -> None:
    batch = Batch(jnp.asarray(np.random.default_rng(0).normal(size=(8, 2)), jnp.float32), jnp.zeros(8, int))

    @eqx.filter_jit
    def slope(model: BoundedLatentDiffusion) -> BoundedLatentDiffusion:
        return eqx.filter_grad(lambda model: model.loss(batch, KEY)[0])(model)

    found = slope(model)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(found.body))
    assert any(np.any(leaf) for leaf in jax.tree.leaves(found.diffusion))
    assert [id(part) for part in model.state()] == [id(model.unit), id(model.body)]


def test_a_first_stage_that_is_not_frozen_learns_from_its_own_loss_alone(moons: Data) -> None:
    model = models.build("latent-diffusion", moons, body=STAGE, **SMALL)
    assert not model.config.frozen
    batch = jax.tree.map(jnp.asarray, moons.train.batch(np.arange(16)))

    @eqx.filter_jit
    def both(model: LatentDiffusion) -> tuple:
        def stage_alone(body: Model) -> jax.Array:
            return body.loss(batch, jax.random.split(KEY, 3)[2])[0] / 2

        return (
            eqx.filter_grad(lambda model: model.loss(batch, KEY)[0])(model).body,
            eqx.filter_grad(stage_alone)(model.body),
            model.loss_and_state(batch, KEY)[2].unit,
        )

    with_diffusion, alone, unit = both(model)
    for one, other in zip(*map(jax.tree.leaves, (with_diffusion, alone)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert not np.allclose(unit.mean, model.unit.mean)


def test_the_bound_is_that_of_the_first_stage_with_another_prior(
    stage: Model, model: BoundedLatentDiffusion
) -> None:
    """By its definition: log p(x|z) + log p(z) - log q(z|x), from the same codes."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2)), jnp.float32)
    y = jnp.array([0, 1] * 3)

    @eqx.filter_jit
    def both(model: BoundedLatentDiffusion, stage: Model) -> tuple:
        for_codes, for_bound = jax.random.split(KEY)
        drawn = stage.draw_code(Batch(x), for_codes)
        unit = (drawn.code - model.unit.mean[None]) / model.unit.deviation[None]
        prior = model.diffusion.bound(Batch(unit, y), for_bound).elbo - jnp.log(model.unit.deviation).sum()
        return drawn.log_likelihood + prior - drawn.log_posterior, model.bound(Batch(x, y), KEY)

    by_hand, found = both(model, stage)
    np.testing.assert_allclose(found.elbo, by_hand, rtol=1e-4, atol=1e-3)
    assert set(found.parts) == {"latent"}
    assert set(found.given) == {"class", "no_class"}


def test_a_code_and_its_densities_are_those_of_the_importance_weights(stage: Model) -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)), jnp.float32)

    @eqx.filter_jit
    def both(stage: Model) -> tuple:
        drawn = stage.draw_code(Batch(x), KEY)
        log_prior = jax.scipy.stats.norm.logpdf(drawn.code).sum(axis=-1)
        weights = stage.log_weights(Batch(x), KEY, 1)[0]
        return drawn.log_likelihood + log_prior - drawn.log_posterior, weights

    ours, theirs = both(stage)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_samples_are_decoded_draws_of_diffusion(model: BoundedLatentDiffusion) -> None:
    codes = model.diffusion.sample(KEY, 5, condition=1, steps=3)
    np.testing.assert_allclose(model.sample(KEY, 5, condition=1, steps=3), model.decode(codes), rtol=1e-5)
    assert model.sample_caption(condition=0, steps=3) == "codes by ddim in 3 steps, guidance 1"


def test_scores_state_the_ceiling_and_say_that_latent_nats_are_none_of_the_data(
    model: BoundedLatentDiffusion,
) -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(6, 2)), jnp.float32)
    found = eqx.filter_jit(lambda model: model.scores(Batch(x, jnp.zeros(6, int)), KEY))(model)
    left = np.square(np.asarray(model.decode(model.encode(x))) - np.asarray(x)).mean(axis=1)
    np.testing.assert_allclose(found["reconstruction_ceiling"].values, left, rtol=1e-3, atol=1e-4)
    assert found["latent_bound"].unit == "nats of a code of 3 numbers, no likelihood of the data"


def test_pictures_show_the_ceiling_and_the_codes(model: BoundedLatentDiffusion, moons: Data) -> None:
    found = {picture.name: picture for picture in model.pictures(moons, KEY)}
    assert set(found) == {"ceiling", "codes", "error-by-level"}
    ceiling = found["ceiling"]
    assert isinstance(ceiling, Scatter)
    assert set(ceiling.groups) == {"held out", "rebuilt", "new"}


def test_another_shape_of_codes_is_refused_with_both_shapes(stage: Model, moons: Data) -> None:
    with pytest.raises(ArgumentError, match=r"code_shape=\(3,\): the codes .* have the shape \(4,\)"):
        models.begin("latent-diffusion", stage, moons, body={"latent": 4}, **SMALL)


def test_data_of_another_shape_are_refused_before_anything_is_copied(stage: Model) -> None:
    other = Schema("points", (3,), target="class", classes=("a", "b"))
    with pytest.raises(ArgumentError, match=r"knows examples of shape \(2,\); these have \(3,\)"):
        models.begin("latent-diffusion", stage, other, **SMALL)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vq-vae", "chainrule train vq-diffusion from=RUN"),
        ("mlp", "chainrule train vae, or autoencoder"),
        ("cvae", "only beside a condition"),
    ],
)
def test_what_is_no_first_stage_is_refused_with_what_is(name: str, message: str, moons: Data) -> None:
    body = {"name": name, **models.entry(name).toy}
    with pytest.raises(CapabilityError, match=message):
        models.build("latent-diffusion", moons, body=body, **SMALL)


def test_a_first_stage_with_a_training_of_its_own_comes_trained(moons: Data) -> None:
    with pytest.raises(CapabilityError, match="chainrule train pca, then chainrule train latent-diffusion"):
        models.build("latent-diffusion", moons, body={"name": "pca", "latent": 1}, **SMALL)
    pca = models.build("pca", moons, latent=1)
    begun = models.begin("latent-diffusion", pca, moons, **SMALL)
    assert isinstance(begun, LatentDiffusion)  # no density of codes, no bound


def test_a_classifier_of_examples_does_not_lead_codes(model: BoundedLatentDiffusion) -> None:
    with pytest.raises(CapabilityError, match="guidance=2"):
        model.sample(KEY, 1, classifier="some-run", condition=0)


def test_another_diffusion_of_the_same_codes_takes_the_first_stage_over(
    model: BoundedLatentDiffusion, moons: Data
) -> None:
    again = models.begin("latent-diffusion", model, moons, width=4, depth=1)
    assert eqx.tree_equal(again.body, model.body)
    assert again.config.width == 4


def test_every_model_that_encodes_and_decodes_alone_is_a_first_stage() -> None:
    """Whatever its family; shapes are worked out, nothing is computed."""
    schema, fit = Schema("points", (2,), target="class", classes=("a", "b")), []
    for name in models.names():
        entry = models.entry(name)
        if models.family(name) not in ("latent", "flow") or entry.toy_data != "moons":
            continue
        body = eqx.filter_eval_shape(functools.partial(models.build, name, schema, **entry.toy))
        encodes = isinstance(body, CanEncode) and isinstance(body, CanDecode)
        if not encodes or isinstance(body, HasCodebook) or getattr(body, "conditional", False):
            continue
        check_first_stage(body, name)
        fit.append(name)
    assert {"vae", "iwae", "autoencoder", "hvae"} <= set(fit)


# ---------------------------------------------------------------------- codes that are maps

MAPS = {"latent": 32, "body": "grid", "channels": (4, 4)}


@pytest.fixture(scope="module")
def digits() -> Data:
    """Images of the shape of digits; there is nothing to learn from them."""
    noise = np.random.default_rng(0)
    return cr.data.from_arrays(
        noise.integers(0, 17, (60, 8, 8, 1)), noise.integers(0, 3, 60), kind="image", levels=17
    )


@pytest.fixture(scope="module")
def of_maps(digits: Data) -> BoundedLatentDiffusion:
    found = models.begin(
        "latent-diffusion", moved(models.build("vae", digits, **MAPS), 0.05), digits, **SMALL
    )
    assert isinstance(found, BoundedLatentDiffusion)
    return found


def test_codes_that_are_maps_are_diffused_as_maps(of_maps: BoundedLatentDiffusion, digits: Data) -> None:
    assert of_maps.config.code_shape == of_maps.code_map == of_maps.diffusion.schema.shape == (4, 4, 2)
    assert isinstance(of_maps.diffusion.denoiser, NetworkDenoiser)
    assert isinstance(of_maps.diffusion.denoiser.body, UNet)
    x = jnp.asarray(digits.val.x[:3])
    seen = eqx.filter_jit(lambda model: model.arranged(model.encode(x)))(of_maps)
    assert seen.shape == (3, 4, 4, 2)
    drawn = of_maps.sample(KEY, 2, condition=1, steps=2)
    assert drawn.shape == (2, 8, 8, 1)


def test_the_cells_of_a_map_have_the_same_moments(of_maps: BoundedLatentDiffusion) -> None:
    mean, deviation = (np.asarray(row).reshape(16, 2) for row in (of_maps.unit.mean, of_maps.unit.deviation))
    assert np.ptp(mean, axis=0).max() == np.ptp(deviation, axis=0).max() == 0
    codes = np.random.default_rng(0).normal([3.0, -1.0], [2.0, 0.5], (50, 4, 2)).reshape(50, 8)
    unit = UnitCodes.of(jnp.asarray(codes), 2)
    np.testing.assert_allclose(unit.mean, np.tile(codes.reshape(-1, 2).mean(axis=0), 4), rtol=1e-5)
    np.testing.assert_allclose(unit.variance, np.tile(codes.reshape(-1, 2).var(axis=0), 4), rtol=1e-5)
    assert UnitCodes.moved(unit, jnp.asarray(codes)).channels == 2


def test_the_bound_of_maps_is_that_of_the_same_entries(of_maps: BoundedLatentDiffusion, digits: Data) -> None:
    x, y = jnp.asarray(digits.val.x[:3]), jnp.asarray(digits.val.y[:3])

    @eqx.filter_jit
    def both(model: BoundedLatentDiffusion) -> tuple:
        for_codes, for_bound = jax.random.split(KEY)
        drawn = model.body.draw_code(Batch(x), for_codes)  # type: ignore[attr-defined]
        unit = (drawn.code - model.unit.mean[None]) / model.unit.deviation[None]
        prior = model.diffusion.bound(Batch(unit.reshape(3, 4, 4, 2), y), for_bound).elbo
        by_hand = drawn.log_likelihood + prior - jnp.log(model.unit.deviation).sum() - drawn.log_posterior
        return by_hand, model.bound(Batch(x, y), KEY).elbo

    np.testing.assert_allclose(*both(of_maps), rtol=1e-4)


def test_maps_of_another_shape_are_refused_with_both_shapes(
    of_maps: BoundedLatentDiffusion, digits: Data
) -> None:
    with pytest.raises(
        ArgumentError, match=r"code_shape=\(4, 4, 2\): the codes .* have the shape \(8, 8, 2\)"
    ):
        models.begin("latent-diffusion", of_maps, digits, body={"channels": (4,), "latent": 128}, **SMALL)


@pytest.mark.slow
def test_spectrograms_are_images_of_unequal_sides() -> None:
    """Logarithms of mel bands between 0 and 1: 12 frames of 20 bands, whose codes are a map of 10 x 6 cells."""
    pitch = np.random.default_rng(0).uniform(300, 900, (40, 1))
    waves = np.sin(2 * np.pi * pitch * np.arange(1664) / 4000).astype(np.float32)
    found = power(STFT(256, hop=128, centred=False)(jnp.asarray(waves)))
    bands = np.log(np.asarray(mel_spectrogram(found, 20, 4000.0)) + 1e-3)
    low, high = bands.min(), bands.max()
    data = cr.data.from_arrays(((bands - low) / (high - low))[..., None], kind="image")
    assert data.schema.shape == (20, 12, 1)
    stage = moved(models.build("vae", data, latent=120, body="grid", channels=(4, 4)), 0.05)
    model = models.begin("latent-diffusion", stage, data, **SMALL)
    assert isinstance(model, BoundedLatentDiffusion)
    assert model.code_map == (10, 6, 2)
    drawn = np.asarray(model.sample(KEY, 2, steps=2))
    assert drawn.shape == (2, *data.schema.shape)
    x = jnp.asarray(data.val.x[:2])
    assert np.isfinite(eqx.filter_jit(lambda model: model.elbo(x, KEY))(model)).all()
