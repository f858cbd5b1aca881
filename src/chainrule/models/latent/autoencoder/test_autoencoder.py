"""The auto-encoder: its sizes, its loss and penalties by other routes, and what it refuses or warns of."""

import warnings
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule import models
from chainrule.core.errors import ArgumentError, CapabilityError, DataError
from chainrule.core.pictures import Images, Scatter
from chainrule.data import Batch, Schema
from chainrule.models.latent.autoencoder import Autoencoder, entry
from chainrule.models.latent.autoencoder.contraction import contraction
from chainrule.models.latent.code_pictures import plane_of, sweep
from chainrule.models.protocol import CanSample, HasBound, HasLogProb, parameter_count

KEY = jax.random.key(0)
PIXELS = Schema("image", (4, 4, 1), levels=17)
ROWS = Schema("table", (3,))


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once or twice on few numbers: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def build(schema: Schema, **settings: Any) -> Autoencoder:
    model = models.build("autoencoder", schema, **{"latent": 2, "width": 8, "depth": 1, **settings})
    assert isinstance(model, Autoencoder)
    return model


def pixels(count: int = 6) -> np.ndarray:
    return (np.random.default_rng(0).integers(0, 17, (count, 4, 4, 1)) / 16).astype(np.float32)


def weights(body: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.asarray(one.weight, np.float64), np.asarray(one.bias)) for one in body.network.layers]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_the_recipe_for_clothes_has_the_size_it_was_published_with() -> None:
    clothes = Schema("image", (28, 28, 1), levels=256)
    model = models.build("autoencoder", clothes, **entry.recipes["ae-mlp"].model)
    assert parameter_count(model) == 808_722
    conv = models.configure("autoencoder", **entry.recipes["ae-conv"].model)
    shapes: Any = eqx.filter_eval_shape(Autoencoder, conv, clothes, KEY)
    assert shapes.decoder.sizes == ((7, 7), (14, 14), (28, 28))


def test_one_hidden_layer_is_two_affine_maps_with_a_sigmoid_after_each() -> None:
    model = build(PIXELS, depth=0, code_activation="sigmoid", final_activation="sigmoid")
    x = pixels()
    ((v, b1),), ((w, b2),) = weights(model.encoder), weights(model.decoder)
    code = sigmoid((2 * x.reshape(6, -1) - 1) @ v + b1)
    back = sigmoid(code @ w + b2)
    np.testing.assert_allclose(model.encode(jnp.asarray(x)), code, rtol=1e-5)
    np.testing.assert_allclose(model.decode(jnp.asarray(code, jnp.float32)).reshape(6, -1), back, rtol=1e-5)
    loss, metrics = model.loss(Batch(jnp.asarray(x)), KEY)
    squares = np.square(back - x.reshape(6, -1))
    assert float(loss) == pytest.approx(squares.sum(axis=1).mean(), rel=1e-5)
    assert float(metrics["squared_error"]) == pytest.approx(squares.mean(), rel=1e-5)
    scored = model.scores(Batch(jnp.asarray(x)), KEY)
    assert list(scored) == ["squared_error"]
    np.testing.assert_allclose(scored["squared_error"].values, squares.mean(axis=1), rtol=1e-5)
    assert scored["squared_error"].unit == "per entry, entries from 0 to 1"
    assert not isinstance(model, HasLogProb | HasBound | CanSample)


def test_batch_normalisation_trains_by_the_batch_and_encodes_by_running_statistics() -> None:
    torch = pytest.importorskip("torch")
    model = build(ROWS, latent=2, normalization="batch")
    x = np.random.default_rng(0).normal(1.0, 2.0, size=(16, 3)).astype(np.float32)

    def twin(body: Any) -> Any:
        first, norm, _, last = body.network.layers
        layers = [torch.nn.Linear(*layer.weight.shape) for layer in (first, last)]
        with torch.no_grad():
            for ours, theirs in zip((first, last), layers, strict=True):
                theirs.weight.copy_(torch.tensor(np.asarray(ours.weight).T.copy()))
                theirs.bias.copy_(torch.tensor(np.asarray(ours.bias).copy()))
        normal = torch.nn.BatchNorm1d(len(norm.scale))
        return torch.nn.Sequential(layers[0], normal, torch.nn.ReLU(), layers[1])

    encoder, decoder = twin(model.encoder), twin(model.decoder)
    given = torch.tensor(x)
    expected = (decoder(encoder(given)) - given).square().sum(dim=1).mean().detach()
    step = eqx.filter_jit(lambda model, batch: model.loss_and_state(batch, KEY))
    loss, _, moved = step(model, Batch(jnp.asarray(x)))
    assert float(loss) == pytest.approx(float(expected), rel=1e-4)
    np.testing.assert_allclose(
        moved.encoder.network.layers[1].mean, encoder[1].running_mean.numpy(), rtol=1e-4, atol=1e-6
    )
    # Ours stores the biased variance.
    var = (encoder[1].running_var.numpy() - 0.9) * 15 / 16 + 0.9
    np.testing.assert_allclose(moved.encoder.network.layers[1].var, var, rtol=1e-4)
    encode = eqx.filter_jit(lambda model, x: model.encode(x))
    alone, together = encode(moved, jnp.asarray(x[:1])), encode(moved, jnp.asarray(x))
    np.testing.assert_allclose(alone, together[:1], rtol=1e-5, atol=1e-6)
    still = eqx.nn.inference_mode(moved)
    judged, _, after = step(still, Batch(jnp.asarray(x)))
    back = np.asarray(moved.decode(together))
    assert float(judged) == pytest.approx(np.square(back - x).sum(axis=1).mean(), rel=1e-4)
    np.testing.assert_array_equal(after.encoder.network.layers[1].mean, still.encoder.network.layers[1].mean)


def test_the_contractive_penalty_is_the_closed_form_of_one_layer_and_its_estimate_is_right_on_average() -> (
    None
):
    settings = {"depth": 0, "code_activation": "sigmoid", "contractive": 0.5, "l1": 0.25}
    model = build(PIXELS, latent=3, **settings)
    x = pixels()
    ((v, b1),) = weights(model.encoder)
    code = sigmoid((2 * x.reshape(6, -1) - 1) @ v + b1)
    # Pixels from 0 to 1 are seen from -1 to 1: twice the slope.
    exact = (np.square(code * (1 - code)) * np.square(2 * v).sum(axis=0)[None]).sum(axis=1)
    found = eqx.filter_jit(lambda x: contraction(model.encode, x, KEY))(jnp.asarray(x))
    np.testing.assert_allclose(found, exact, rtol=1e-4)
    loss, metrics = eqx.filter_jit(model.loss)(Batch(jnp.asarray(x)), KEY)
    assert float(metrics["contraction"]) == pytest.approx(exact.mean(), rel=1e-4)
    assert float(metrics["l1"]) == pytest.approx(code.sum(axis=1).mean(), rel=1e-4)
    whole = 16 * float(metrics["squared_error"]) + 0.5 * exact.mean() + 0.25 * code.sum(axis=1).mean()
    assert float(loss) == pytest.approx(whole, rel=1e-4)
    estimates = eqx.filter_jit(lambda x: contraction(model.encode, x, KEY, 4000))(jnp.asarray(x))
    np.testing.assert_allclose(estimates, exact, rtol=0.1)


def test_convolutions_contract_as_their_jacobian_says() -> None:
    model = build(PIXELS, body="conv", channels=(4,), contractive=0.1, final_activation="sigmoid")
    x = jnp.asarray(pixels(2))
    jacobian = eqx.filter_jit(jax.jacfwd(lambda x: model.encode(x)))(x)
    own = np.stack([np.asarray(jacobian)[i, :, i] for i in range(2)])
    found = eqx.filter_jit(lambda x: contraction(model.encode, x, KEY))(x)
    np.testing.assert_allclose(found, np.square(own).reshape(2, -1).sum(axis=1), rtol=1e-3)


def test_a_likelihood_is_maximised_where_one_is_named() -> None:
    binary = Schema("image", (4, 4, 1), levels=2)
    model = build(binary, likelihood="auto")
    x = np.random.default_rng(0).integers(0, 2, (6, 4, 4, 1)).astype(np.float32)
    batch = Batch(jnp.asarray(x))
    p = np.asarray(model.decode(model.encode(batch.x)), np.float64)
    nats = -(x * np.log(p) + (1 - x) * np.log(1 - p)).reshape(6, -1).sum(axis=1)
    loss, _ = eqx.filter_jit(model.loss)(batch, KEY)
    assert float(loss) == pytest.approx(nats.mean(), rel=1e-4)
    scored = eqx.filter_jit(model.scores)(batch, KEY)
    np.testing.assert_allclose(scored["nats_given_code"].values, nats, rtol=1e-4)
    numbers = build(ROWS, likelihood="gaussian", scale="fixed", sigma=2.0)
    rows = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    apart = np.square(np.asarray(numbers.reconstruct(jnp.asarray(rows))) - rows).sum(axis=1)
    expected = apart / 8 + 1.5 * np.log(2 * np.pi * 4)
    found, _ = eqx.filter_jit(numbers.loss)(Batch(jnp.asarray(rows)), KEY)
    assert float(found) == pytest.approx(expected.mean(), rel=1e-4)


def test_a_code_that_can_copy_is_warned_of_before_training() -> None:
    data = cr.data.load("moons", n=100)
    with pytest.warns(UserWarning, match=r"latent=2: examples have 2 entries(.|\n)*use latent=1 or less"):
        models.build("autoencoder", data, latent=2, width=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for settings in ({"latent": 1}, {"latent": 2, "l1": 0.1}, {"latent": 2, "contractive": 0.1}):
            models.build("autoencoder", data, width=4, **settings)


@pytest.mark.parametrize(
    ("schema", "settings", "message"),
    [
        (PIXELS, {"final_activation": "sigmoid", "likelihood": "auto"}, "have ranges of their own"),
        (ROWS, {"final_activation": "sigmoid"}, "these data do not lie between 0 and 1"),
        (PIXELS, {"body": "conv", "normalization": "batch"}, "normalises groups of channels"),
        (PIXELS, {"contractive": 1.0, "normalization": "batch"}, "depends on the whole batch"),
        (PIXELS, {"probe_vectors": 3}, "no contractive penalty to estimate"),
        (ROWS, {"body": "conv"}, "no rows and columns of pixels"),
        (PIXELS, {"likelihood": "bernoulli"}, "no likelihood of data with 17 levels"),
    ],
)
def test_what_contradicts_itself_or_the_data_is_refused(
    schema: Schema, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises((ArgumentError, CapabilityError), match=message):
        build(schema, **settings)


def test_examples_that_a_likelihood_cannot_have_are_refused() -> None:
    with pytest.raises(DataError, match="outside"):
        models.build("autoencoder", cr.data.load("moons", n=100), latent=1, likelihood="continuous_bernoulli")


def test_the_sweep_goes_from_the_first_to_the_last_percentile_of_the_codes() -> None:
    codes = np.stack([np.linspace(0, 100, 1001), np.linspace(-10, 10, 1001)], axis=1)
    asked: list[np.ndarray] = []

    def decode(z: Any) -> Any:
        asked.append(np.asarray(z))
        return jnp.zeros((len(z), 4, 4, 1))

    plane = plane_of(codes)
    picture = sweep(decode, plane, plane.coordinates(codes))
    assert isinstance(picture, Images)
    corners = asked[0].reshape(12, 12, 2)
    np.testing.assert_allclose(corners[-1, 0], [1, -9.8], rtol=1e-5)  # below left
    np.testing.assert_allclose(corners[0, -1], [99, 9.8], rtol=1e-5)
    assert "from 1 to 99 to the right" in picture.caption


def test_long_codes_are_shown_along_the_directions_in_which_they_vary_most() -> None:
    draw = np.random.default_rng(0)
    mix = np.linalg.qr(draw.normal(size=(4, 4)))[0]
    codes = draw.normal(size=(500, 4)) * [5, 3, 0.1, 0.1] @ mix + 7
    plane = plane_of(codes)
    coordinates = plane.coordinates(codes)
    np.testing.assert_allclose(coordinates.std(axis=0), [5, 3], rtol=0.1)
    np.testing.assert_allclose(plane.codes(coordinates), codes, atol=0.6)
    short = plane_of(codes[:, :1])
    assert sweep(lambda z: jnp.zeros((len(z), 4, 4, 1)), short, codes[:, :1]).images.shape[0] == 12


def test_pictures_show_what_is_rebuilt_the_codes_by_class_and_a_sweep() -> None:
    data = cr.data.load("digits")
    model = models.build("autoencoder", data, latent=3, width=4)
    assert isinstance(model, Autoencoder)
    rebuilt, codes, walk = model.pictures(data, KEY)
    assert isinstance(rebuilt, Images)
    assert rebuilt.images.shape == (30, 8, 8, 1)
    assert isinstance(codes, Scatter)
    assert list(codes.groups) == list(data.schema.classes)
    assert isinstance(walk, Images)
    assert walk.images.shape == (144, 8, 8, 1)
