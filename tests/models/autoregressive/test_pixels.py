"""Networks over pixels: what a pixel sees, samples with what is carried along, classes."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chainrule as cr
from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.data import Batch, Schema
from chainrule.models.autoregressive.conditionals import Conditionals, Continuation
from chainrule.models.autoregressive.vector_pictures import influence, receptive_field
from chainrule.models.autoregressive.vectors import VectorModel

KEY = jax.random.key(0)
SMALL: dict[str, Any] = {"width": 6, "first_kernel": 3}
NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "gated": ("pixel-cnn", {**SMALL, "blocks": 3}),
    "plain": ("pixel-cnn", {**SMALL, "blocks": 2, "variant": "plain"}),
    "diagonal": ("pixel-rnn", {**SMALL, "depth": 1}),
    "row": ("pixel-rnn", {**SMALL, "depth": 1, "variant": "row"}),
    "raster": ("pixel-rnn", {**SMALL, "depth": 2, "variant": "raster"}),
}
CLASSES = ("a", "b", "c")


def moved(name: str, schema: Schema, **config: Any) -> VectorModel:
    """A model in double precision some way off its start, where all conditionals differ."""
    noise = np.random.default_rng(0)
    model = cr.models.build(name, schema, **config)
    assert isinstance(model, VectorModel)
    return jax.tree.map(
        lambda leaf: (
            jnp.asarray(np.asarray(leaf, np.float64) + 0.3 * noise.normal(size=leaf.shape))
            if eqx.is_inexact_array(leaf)
            else leaf
        ),
        model,
    )


@eqx.filter_jit
def _both(network: Conditionals, x: jax.Array, given: jax.Array) -> tuple[jax.Array, jax.Array]:
    how = Continuation(given, KEY, jnp.asarray(0.8))
    return network.continued(x, how), Conditionals.continued(network, x, how)


@pytest.mark.parametrize("name", NETWORKS)
def test_what_is_carried_along_gives_the_samples_of_whole_passes(name: str) -> None:
    schema = Schema("image", (3, 4, 3), "class", levels=5, classes=CLASSES)
    model = moved(NETWORKS[name][0], schema, condition="class", **NETWORKS[name][1])
    network = model.members[0].of_classes(jnp.asarray([0, 1, 2, 1]))
    x = jnp.asarray(np.random.default_rng(1).integers(5, size=(4, 36)) / 4)
    for given in (0, 17):
        quick, slow = _both(network, x, jnp.asarray(given))
        np.testing.assert_array_equal(quick, slow)
        np.testing.assert_array_equal(quick[:, :given], x[:, :given])
    assert len(np.unique(np.asarray(quick)[:, 17:])) == 5


def _through(offsets: list[tuple[int, int]], seen: np.ndarray) -> np.ndarray:
    """What outputs see that read these neighbours, where `seen` says what each of them sees."""
    height, width = seen.shape[:2]
    out = np.zeros_like(seen)
    for row in range(height):
        for column in range(width):
            for down, right in offsets:
                if row + down >= 0 and 0 <= column + right < width:
                    out[row, column] |= seen[row + down, column + right]
    return out


ABOVE, LEFT, HERE = [(-1, -1), (-1, 0), (-1, 1)], [(0, -1)], [(0, 0)]


def _plain(first: np.ndarray) -> np.ndarray:
    """Two residual blocks of masked 3×3 convolutions."""
    for _ in range(2):
        first = _through(ABOVE + LEFT + HERE, first)
    return first


def _row(first: np.ndarray) -> np.ndarray:
    """States come from the three nearest above, and read features to the left and here."""
    seen = _through(LEFT + HERE, first)
    for row in range(1, len(seen)):
        seen[row] |= _through(ABOVE, seen)[row]
    return seen | first


def _all(first: np.ndarray) -> np.ndarray:
    count = first.shape[0] * first.shape[1]
    return np.tri(count, count, -1, bool).reshape(first.shape)


SEEN: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gated": _all,
    "plain": _plain,
    "diagonal": _all,
    "row": _row,
    "raster": _all,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_pixel_sees_what_its_layers_let_through_and_nothing_later(name: str) -> None:
    model = moved(NETWORKS[name][0], Schema("image", (4, 5, 1), levels=3), **NETWORKS[name][1])
    x = jnp.asarray(np.random.default_rng(2).random((24, 20)))
    slopes = jax.vmap(jax.jacrev(lambda x: model.members[0](x[None])[0].sum(axis=-1)))
    found = np.abs(np.asarray(jax.jit(slopes)(x))).max(axis=0) > 0
    pixels = np.eye(20, dtype=bool).reshape(4, 5, 4, 5)
    expected = SEEN[name](_through(ABOVE + LEFT, pixels)).reshape(20, 20)
    np.testing.assert_array_equal(found, expected)
    blind = ~expected & np.tri(20, 20, -1, dtype=bool)
    assert blind.any() == (name in ("plain", "row"))


def test_the_picture_of_what_a_pixel_sees_is_blank_where_it_sees_nothing() -> None:
    model = moved("pixel-cnn", Schema("image", (4, 6, 1), levels=2), **NETWORKS["plain"][1])
    x = jnp.asarray(np.random.default_rng(3).integers(2, size=(5, 4, 6, 1)).astype(float))
    shades = receptive_field(model, x).values
    strength = np.asarray(influence(model, x, 2 * 6 + 3)).reshape(4, 6)
    np.testing.assert_array_equal(shades > 0, strength > 0)
    assert shades[2, 3:].max() == shades[3].max() == 0
    assert shades[1, 5] == 0, "the wedge to the upper right"


@pytest.fixture(scope="module")
def of_classes() -> VectorModel:
    schema = Schema("image", (2, 3, 1), "class", levels=2, classes=CLASSES)
    return moved("pixel-cnn", schema, width=4, blocks=1, first_kernel=3, condition="class")


def _every(entries: int) -> np.ndarray:
    return (np.arange(2**entries)[:, None] >> np.arange(entries)[::-1] & 1).astype(float)


def test_classes_are_summed_over_by_their_frequency(of_classes: VectorModel) -> None:
    x = jnp.asarray(_every(6).reshape(-1, 2, 3, 1))
    network, prior = of_classes.members[0], np.asarray(jax.nn.softmax(of_classes.prior))

    @jax.jit
    def given(label: jax.Array) -> jax.Array:
        flat = x.reshape(len(x), -1)
        conditional = network.of_classes(jnp.full(len(x), label))
        return conditional.output.log_prob(conditional(flat), flat).sum(axis=-1)

    by_class = np.exp([np.asarray(given(jnp.asarray(label))) for label in range(3)])
    np.testing.assert_allclose(by_class.sum(axis=1), 1, atol=1e-12)
    assert np.abs(by_class[0] - by_class[1]).max() > 1e-3
    total = np.exp(np.asarray(eqx.filter_jit(VectorModel.log_prob)(of_classes, x)))
    np.testing.assert_allclose(total, prior @ by_class, atol=1e-12)

    labels = jnp.asarray(np.arange(len(x)) % 3)
    loss, metrics = eqx.filter_jit(VectorModel.loss)(of_classes, Batch(x, labels), KEY)
    own = np.log(by_class[np.asarray(labels), np.arange(len(x))])
    assert float(metrics["nats_given_class"]) == pytest.approx(-own.mean())
    assert float(loss) == pytest.approx(-(own + np.log(prior)[np.asarray(labels)]).mean())
    scores = eqx.filter_jit(VectorModel.scores)(of_classes, Batch(x, labels), KEY)
    np.testing.assert_allclose(scores["nll_given_class"].values, -own, atol=1e-12)
    likeliest = (np.log(prior)[:, None] + np.log(by_class)).argmax(axis=0)
    np.testing.assert_array_equal(scores["class_accuracy"].values, likeliest == np.asarray(labels))


def test_a_class_can_be_asked_for_and_otherwise_follows_from_what_is_given(of_classes: VectorModel) -> None:
    x = jnp.asarray(_every(6).reshape(-1, 2, 3, 1))
    p = np.exp(np.asarray(eqx.filter_jit(VectorModel.log_prob)(of_classes, x)))
    n = 8192
    drawn = np.asarray(of_classes.sample(KEY, n)).reshape(n, 6)
    counts = np.bincount((drawn @ 2 ** np.arange(5, -1, -1)).astype(int), minlength=64)
    assert np.abs((counts / n - p) / np.sqrt(p / n)).max() < 5
    # Completed from three pixels on, they follow the conditional of the sum over classes.
    known = jnp.asarray(np.repeat(np.asarray(x)[40:41], n, axis=0))
    completed = np.asarray(of_classes.complete(known, 3, KEY)).reshape(n, 6)
    np.testing.assert_array_equal(completed[:, :3], np.asarray(known).reshape(n, 6)[:, :3])
    tails = np.bincount((completed[:, 3:] @ [4, 2, 1]).astype(int), minlength=8)
    conditional = p[40:48] / p[40:48].sum()
    assert np.abs((tails / n - conditional) / np.sqrt(conditional / n)).max() < 5
    np.testing.assert_array_equal(
        of_classes.sample(KEY, 9, condition="b"), of_classes.sample(KEY, 9, condition=np.full(9, 1))
    )
    with pytest.raises(ArgumentError, match="unknown class 'd'"):
        of_classes.sample(KEY, 1, condition="d")


def test_temperature_sharpens_to_the_likeliest_entries(of_classes: VectorModel) -> None:
    cold = np.asarray(of_classes.sample(KEY, 6, condition=2, temperature=0.0))
    assert (cold == cold[:1]).all()
    blank = jnp.asarray(cold[:1])
    network = of_classes.members[0].of_classes(jnp.asarray([2]))
    logits = np.asarray(eqx.filter_jit(network)(blank.reshape(1, 6)))[0, :, 0]
    np.testing.assert_array_equal(cold[0].ravel(), logits > 0)
    with pytest.raises(ArgumentError, match=r"temperature=-1.*at least 0"):
        of_classes.sample(KEY, 1, temperature=-1.0)


def test_classes_that_are_not_there_are_refused() -> None:
    plain = Schema("image", (4, 4, 1), levels=2)
    with pytest.raises(CapabilityError, match="condition=class: these data have no classes"):
        cr.models.build("pixel-rnn", plain, condition="class")
    with pytest.raises(CapabilityError, match=r"(?s)trained without them.*condition=class"):
        cr.models.build("pixel-rnn", plain, width=2, depth=1).sample(KEY, 1, condition=0)


def test_pixel_rnn_refuses_what_it_cannot_be_built_for() -> None:
    with pytest.raises(CapabilityError, match="pixel-rnn needs pixels with levels"):
        cr.models.build("pixel-rnn", Schema("image", (4, 4, 1)))
    colours = Schema("image", (4, 4, 3), levels=256)
    with pytest.raises(ArgumentError, match=r"(?s)width=32: 3 channels share.*use width=33"):
        cr.models.build("pixel-rnn", colours, width=32)
    with pytest.raises(ArgumentError, match="first_kernel=4: a kernel has a middle"):
        cr.models.build("pixel-rnn", colours, first_kernel=4)
