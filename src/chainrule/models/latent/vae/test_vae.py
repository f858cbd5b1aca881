"""The variational auto-encoder where its answers are known: sizes, linear models, codes that are not used."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError, ChainruleError, DataError
from chainrule.data import Batch, Schema, load
from chainrule.models.latent.bodies import coarsened
from chainrule.models.latent.vae import VAE, entry
from chainrule.models.protocol import parameter_count

KEY = jax.random.key(0)
CLOTHES = Schema("image", (28, 28, 1), levels=2)


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def build(schema: Schema, **settings: Any) -> VAE:
    model = models.build("vae", schema, **{"latent": 2, "width": 8, "depth": 1, **settings})
    assert isinstance(model, VAE)
    return model


def shape_of(recipe: str, schema: Schema) -> VAE:
    config = models.configure("vae", **entry.recipes[recipe].model)
    found: VAE = eqx.filter_eval_shape(VAE, config, schema, KEY)
    return found


def weights(layer: Any) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(layer.weight, np.float64), np.asarray(layer.bias, np.float64)


# ---------------------------------------------------------------------- sizes


def count(model: VAE) -> int:
    arrays = jax.tree.leaves(eqx.filter(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct)))
    return sum(int(np.prod(array.shape)) for array in arrays)


def test_the_recipes_have_the_sizes_they_were_published_with() -> None:
    assert count(shape_of("vae-mlp", CLOTHES)) == 415_024
    assert count(shape_of("vae-iwae", CLOTHES)) == 2 * (784 * 200 + 200 * 200) + 3 * 50 * 200 + 4 * 200 + 884
    conv = shape_of("vae-conv", Schema("image", (28, 28, 1), levels=256))
    assert [block.convs[0].weight.shape[-1] for block in conv.networks.encoder.blocks] == [32, 64, 128]  # type: ignore[union-attr]
    assert conv.networks.decoder.sizes == ((7, 7), (14, 14), (28, 28))  # type: ignore[union-attr]


# ---------------------------------------------------------------------- linear models, whose optimum is known


def white(count: int, size: int) -> np.ndarray:
    """Rows of mean zero whose covariance is the identity to the last digit."""
    x = np.random.default_rng(0).normal(size=(count, size))
    x -= x.mean(axis=0)
    return x @ np.linalg.inv(np.linalg.cholesky(x.T @ x / count)).T


def trained(model: VAE, x: np.ndarray, progress: np.ndarray, steps: int) -> VAE:
    """One model for each share of the warm-up, whose weight it is trained with throughout."""
    arrays, rest = eqx.partition(model, eqx.is_inexact_array)
    optimizer = optax.adam(optax.cosine_decay_schedule(0.03, steps))
    batch = Batch(jnp.asarray(x, jnp.float32))

    @jax.jit
    @jax.vmap
    def train(progress: jax.Array) -> Any:
        def step(carry: Any, key: jax.Array) -> Any:
            arrays, state = carry
            slope = jax.grad(lambda a: eqx.combine(a, rest).loss_at(batch, key, progress)[0])(arrays)
            change, state = optimizer.update(slope, state)
            return (optax.apply_updates(arrays, change), state), None

        return jax.lax.scan(step, (arrays, optimizer.init(arrays)), jax.random.split(KEY, steps))[0][0]

    return eqx.combine(train(jnp.asarray(progress, jnp.float32)), rest)


def linear_parts(model: VAE, x: np.ndarray, number: int) -> tuple[float, float, float, np.ndarray]:
    """Rate, squared error, variance of the decoder and variance of each code's mean, without sampling."""
    one = jax.tree.map(lambda leaf: leaf[number], eqx.filter(model, eqx.is_inexact_array))
    encode, decode = (
        weights(one.networks.encoder.network.layers[0]),
        weights(one.networks.decoder.network.layers[0]),
    )
    mean, variance = x @ encode[0] + encode[1], np.exp(np.asarray(one.networks.spread, np.float64))
    rate = 0.5 * (mean**2 + variance - 1 - np.log(variance)).sum(axis=1).mean()
    left = x - mean @ decode[0] - decode[1]
    error = (left**2).sum(axis=1).mean() + (variance[:, None] * decode[0] ** 2).sum()
    scale = eqx.combine(one.networks.output, model.networks.output).scale.of(jnp.zeros((1, 0)))
    return float(rate), float(error), float(scale[0]) ** 2, mean.var(axis=0)


def test_a_linear_one_reaches_the_likelihood_of_probabilistic_pca() -> None:
    x = white(64, 4) * np.sqrt([4, 2, 1, 0.5])
    model = build(Schema("points", (4,)), depth=0, warmup=1.0, draws=8)
    rate, error, variance, _ = linear_parts(trained(model, x, np.ones(1), 4000), x, 0)
    distortion = error / (2 * variance) + 2 * np.log(2 * np.pi * variance)
    assert rate + distortion == pytest.approx(6.427793, abs=1e-3)
    assert variance == pytest.approx(0.75, abs=0.01)
    assert rate == pytest.approx(1.327403, abs=0.01)


def test_beta_decides_which_directions_a_linear_one_keeps() -> None:
    """Active are those with lambda > beta s²; rates and errors are those of reverse water-filling."""
    x = white(64, 5) * np.sqrt([4, 2, 1, 0.5, 0.2])
    model = build(
        Schema("points", (5,)),
        **{
            "latent": 5,
            "depth": 0,
            "scale": "fixed",
            "sigma": 0.3**0.5,
            "beta": 4.0,
            "warmup": 1.0,
            "draws": 8,
        },
    )
    found = trained(model, x, np.array([0.25, 0.5, 1.0]), 4000)
    for number, (error, rate, active) in enumerate(
        [(1.4, 3.101093, 4), (2.5, 1.805959, 3), (4.1, 0.857399, 2)]
    ):
        rate_found, error_found, _, spread = linear_parts(found, x, number)
        assert error_found == pytest.approx(error, abs=0.02)
        assert rate_found == pytest.approx(rate, abs=0.02)
        assert (spread > 0.01).sum() == active


# ---------------------------------------------------------------------- the loss


def test_the_loss_is_distortion_plus_the_weighted_rate_and_the_weight_rises() -> None:
    model = build(Schema("table", (3,)), beta=2.0, warmup=0.5)
    batch = Batch(jnp.asarray(np.random.default_rng(0).normal(size=(8, 3)), jnp.float32))
    losses = eqx.filter_jit(lambda p: model.loss_at(batch, KEY, p))
    for progress, weight in ((0.0, 0.0), (0.25, 1.0), (0.5, 2.0), (1.0, 2.0)):
        loss, parts = losses(jnp.asarray(progress))
        assert float(loss) == pytest.approx(float(parts["distortion"] + weight * parts["rate"]), rel=1e-5)
    x, given = batch.x, model.networks.given(None, 8)
    mean, spread = np.split(np.asarray(model.networks.posterior_parameters(x, given), np.float64), 2, axis=1)
    rate = 0.5 * (mean**2 + np.exp(spread) - 1 - spread).sum(axis=1)
    np.testing.assert_allclose(model.rate_and_distortion(batch, KEY)[0], rate, rtol=1e-5)


def test_free_bits_are_not_held_against_a_code_and_labels_and_discrepancies_are_added() -> None:
    schema = Schema("image", (4, 4, 1), "class", classes=("a", "b"), levels=2)
    settings = {"free_bits": 0.5, "info_alpha": 1.0, "info_lambda": 3.0, "label_weight": 2.0, "coarse": 2}
    model = build(schema, **settings, warmup=0.0)
    draw = np.random.default_rng(0)
    x = draw.integers(0, 2, (6, 4, 4, 1)).astype(np.float32)
    batch = Batch(jnp.asarray(x), jnp.asarray([0, 1, 0, 1, 1, 1]))
    loss, parts = eqx.filter_jit(model.loss)(batch, KEY)
    assert float(loss) == pytest.approx(
        float(parts["distortion"] + 3 * parts["discrepancy"] + 2 * parts["label_entropy"]), rel=1e-5
    )
    assert set(eqx.filter_jit(model.scores)(batch, KEY)) == {"label_entropy", "label_accuracy"}
    free = build(schema, free_bits=0.5, warmup=0.0)
    still = eqx.tree_at(lambda m: m.networks.encoder.network.layers[-1].weight, free, jnp.zeros((8, 4)))
    loss, parts = eqx.filter_jit(still.loss)(batch, KEY)
    assert float(parts["rate"]) == 0
    assert float(loss) == pytest.approx(float(parts["distortion"]) + 2 * 0.5)
    np.testing.assert_allclose(coarsened(jnp.asarray(x), 2)[:, 0, 0, 0], x[:, :2, :2, 0].mean(axis=(1, 2)))
    with pytest.raises(CapabilityError, match="label_weight=1: these data have no classes"):
        build(CLOTHES, label_weight=1.0)


# ---------------------------------------------------------------------- codes


def test_codes_of_two_kinds_of_examples_hold_one_bit_and_the_rest_of_the_rate_is_far_from_the_prior() -> None:
    """Means of -10 and 10 with variance one: I = log 2, rate 50, and entries that know nothing of each other."""
    model = build(Schema("points", (2,)), depth=0)
    apart = eqx.tree_at(
        lambda m: m.networks.encoder.network.layers[0].weight, model, jnp.asarray([[10.0, 0.0], [0.0, 0.0]])
    )
    x = np.tile([[-1.0, 0.0], [1.0, 0.0]], (32, 1))
    use = eqx.filter_jit(apart.latent_use)(Batch(jnp.asarray(x, jnp.float32)), KEY)
    np.testing.assert_allclose(use.divergence, [50, 0], atol=1e-4)
    np.testing.assert_allclose(use.spread, [100, 0], atol=1e-4)
    assert float(use.information) == pytest.approx(np.log(2), abs=1e-4)
    assert float(use.marginal_divergence) == pytest.approx(50 - np.log(2), abs=1e-3)
    assert float(use.total_correlation) == pytest.approx(0, abs=1e-4)
    assert np.asarray(use.active).tolist() == [True, False]


def test_a_code_that_is_ignored_has_no_active_unit_and_no_rate() -> None:
    model = build(Schema("image", (4, 4, 1), levels=17))
    deaf = eqx.tree_at(
        lambda m: (m.networks.encoder.network.layers[-1].weight, m.networks.decoder.network.layers[0].weight),
        model,
        (jnp.zeros((8, 4)), jnp.zeros((2, 8))),
    )
    x = np.random.default_rng(0).integers(0, 17, (32, 4, 4, 1)) / 16
    use = eqx.filter_jit(deaf.latent_use)(Batch(jnp.asarray(x, jnp.float32)), KEY)
    assert int(use.active.sum()) == 0
    np.testing.assert_allclose(use.divergence, 0, atol=1e-6)
    assert float(use.sensitivity) == pytest.approx(0, abs=1e-9)
    assert float(use.information) == pytest.approx(0, abs=1e-5)


def test_codes_are_centres_or_draws_and_temperature_scales_those_of_the_prior() -> None:
    model = build(Schema("points", (2,)), depth=0)
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 2)), jnp.float32)
    centre = model.encode(x)
    np.testing.assert_allclose(
        centre, model.networks.posterior_parameters(x, model.networks.given(None, 4))[:, :2]
    )
    assert not np.allclose(model.encode(x, key=KEY), centre)
    np.testing.assert_allclose(model.reconstruct(x), model.decode(centre))
    cold = model.sample(KEY, 3, temperature=0.0, entries="mean")
    np.testing.assert_allclose(cold, np.broadcast_to(model.decode(jnp.zeros((1, 2))), (3, 2)), atol=1e-6)
    with pytest.raises(ArgumentError, match="temperature=-1"):
        model.sample(KEY, 3, temperature=-1.0)
    assert model.with_beta(4.0).config.beta == 4
    assert parameter_count(model.with_beta(4.0)) == parameter_count(model)


@pytest.mark.parametrize(
    ("settings", "schema", "error", "message"),
    [
        (
            {"likelihood": "bernoulli"},
            Schema("image", (4, 4, 1), levels=256),
            CapabilityError,
            "no likelihood of data",
        ),
        ({"likelihood": "categorical"}, Schema("points", (2,)), DataError, "for data with levels"),
        ({"body": "conv"}, Schema("points", (2,)), ArgumentError, "no rows and columns of pixels"),
        ({"posterior": "flow", "latent": 1}, Schema("points", (2,)), ArgumentError, "use latent=2"),
        ({"latent": 0}, Schema("points", (2,)), ArgumentError, "latent"),
    ],
)
def test_settings_that_do_not_fit_the_data_are_refused(
    settings: Any, schema: Schema, error: type[ChainruleError], message: str
) -> None:
    with pytest.raises(error) as found:
        build(schema, **settings)
    assert message in str(found.value)


def test_levels_have_a_probability_or_noise_that_fills_their_gaps() -> None:
    """A wide density gives every cell its width: log 17 nats of a level, whatever the noise."""
    model = build(Schema("image", (2, 2, 1), levels=17), likelihood="gaussian", scale="fixed", sigma=1.0)
    assert model.likelihood_note == "uniform dequantisation"
    assert build(Schema("image", (2, 2, 1), levels=17)).likelihood_note == ""
    wide = eqx.tree_at(lambda m: m.networks.decoder.network.layers[-1].weight, model, jnp.zeros((8, 4)))
    x = jnp.asarray(np.full((1, 2, 2, 1), 8 / 16), jnp.float32)
    rate, distortion = wide.rate_and_distortion(Batch(x), KEY)
    del rate
    # -log N(y; 0, 1) with y in the cell [8/17, 9/17), plus log 17 for each entry
    nats = float(wide.nats(-distortion)[0]) / 4
    low, high = (np.log(17) + 0.5 * np.log(2 * np.pi) + 0.5 * edge**2 for edge in (8 / 17, 9 / 17))
    assert low <= nats <= high


@pytest.mark.parametrize("coarse", [1, 2])
def test_training_begins_with_centred_inputs_and_outputs_at_the_mean_of_the_data(coarse):
    data = load("binary-digits")
    model = models.build("vae", data, latent=2, width=8, coarse=coarse)
    x = np.asarray(data.train.x, np.float64)
    seen = 2 * x - 1
    if coarse == 2:
        seen = seen.reshape(-1, 4, 2, 4, 2, 1).mean(axis=(2, 4), keepdims=True)
        seen = np.broadcast_to(seen, (len(x), 4, 2, 4, 2, 1)).reshape(x.shape)
    first = model.networks.encoder.network.layers[0]
    hidden = seen.reshape(len(x), -1) @ np.asarray(first.weight) + np.asarray(first.bias)
    assert np.abs(hidden.mean(axis=0)).max() < 1e-4
    last = model.networks.decoder.network.layers[-1]
    share = 1 / (1 + np.exp(-np.asarray(last.bias)))
    np.testing.assert_allclose(share, np.clip(x.mean(axis=0).ravel(), 1e-3, 1 - 1e-3), atol=1e-5)


def test_a_start_at_the_mean_is_one_for_every_likelihood():
    data = load("digits")
    mean = np.asarray(data.train.x, np.float64).mean(axis=0)
    for name in ("discretized_logistic", "gaussian", "laplace", "categorical", "poisson"):
        networks = models.build("vae", data, latent=2, width=8, likelihood=name).networks
        last = networks.decoder.network.layers[-1]
        said = networks.output.mean(last.bias.reshape(*mean.shape, -1))
        assert np.isfinite(said).all()
        if name in ("gaussian", "laplace"):
            np.testing.assert_allclose(said, mean, atol=1e-6)


def test_a_likelihood_that_there_is_not_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(
        ArgumentError, match=r"likelihood='gausian': input should be 'auto', .*did you mean 'gaussian'"
    ):
        models.build("vae", Schema("points", (2,)), likelihood="gausian")
