"""Networks of infinite width: published numbers, recursions written out, and random networks of finite width."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.kernels import check
from chainrule.kernels.infinite import (
    NNGP,
    NTK,
    Activate,
    Add,
    Affine,
    Attend,
    AttendLinearly,
    AttendTied,
    AveragePool,
    Concatenate,
    Convolutional,
    Convolve,
    Dense,
    DropUnits,
    Flatten,
    GlobalAveragePool,
    Identity,
    InfiniteNetwork,
    MaxPool,
    NormalizeChannels,
    Serial,
    monte_carlo_kernel,
)
from tests.tiers import tiers

X, Y = np.array([1.0, 0.0]), np.array([0.6, 0.8])
SEQUENCE, OTHER = np.array([[1.0], [2.0], [0.0], [-1.0]]), np.array([[0.0], [1.0], [1.0], [3.0]])
RNG = np.random.default_rng(0)


def test_deep_rectifiers_have_the_published_kernels() -> None:
    found = np.array([[float(k) for k in Dense(depth, "relu").both(X, Y)] for depth in (1, 2, 3)])
    np.testing.assert_allclose(found[:, 0], [0.677548, 0.733434, 0.775312], atol=5e-7)
    np.testing.assert_allclose(found[:, 1], [1.100447, 1.544416, 1.952287], atol=5e-7)
    own = [float(Dense(depth, "relu").ntk(X, X)) for depth in (0, 1, 2, 3)]
    np.testing.assert_allclose(own, [1, 2, 3, 4], rtol=1e-12)
    assert float(Dense(3, "relu").ntk(np.array([1.0, 0.0]), np.array([0.0, 1.0]))) == pytest.approx(
        1.060388, abs=5e-7
    )


@pytest.mark.parametrize("activation", ["relu", "erf"])
def test_the_tangent_kernel_is_the_sum_over_layers_written_out(activation: str) -> None:
    depth = 4
    layer = Activate(activation, normalized=True)
    c = float(layer.constant())
    variance, covariance, slopes = [np.array([1.0, 1.0])], [0.6], [np.nan]
    for _ in range(depth):
        (a, b), k = variance[-1], covariance[-1]
        own, slope = layer.activation.dual(*map(jnp.asarray, (a, k, b)))
        diagonal = [float(layer.activation.second_moment(jnp.asarray(v))) for v in (a, b)]
        variance.append(c * np.array(diagonal))
        covariance.append(c * float(own))
        slopes.append(c * float(slope))
    unrolled = covariance[depth] + sum(
        covariance[h - 1] * np.prod(slopes[h : depth + 1]) for h in range(1, depth + 1)
    )
    np.testing.assert_allclose(Dense(depth, activation).ntk(X, Y), unrolled, rtol=1e-12)


def test_one_hidden_layer_with_biases() -> None:
    s_w, s_b = 1.3, 0.4
    network = Dense(1, "erf", weight_std=s_w, bias_std=s_b, normalized=False)
    k, a = s_w**2 * (X @ Y) + s_b**2, s_w**2 + s_b**2
    expected = s_w**2 * 2 / np.pi * np.arcsin(2 * k / (1 + 2 * a)) + s_b**2
    np.testing.assert_allclose(network.nngp(X, Y), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("gather", "nngp", "ntk"), [("pool", 1.258756, 2.368418), ("flatten", 0.938920, 1.243190)]
)
def test_convolutions_have_the_published_kernels(gather: str, nngp: float, ntk: float) -> None:
    network = Convolutional(
        2, "relu", window=3, weight_std=2**0.5, bias_std=0.1, padding="circular", gather=gather
    )
    found = [float(k) for k in network.both(SEQUENCE, OTHER)]
    np.testing.assert_allclose(found, [nngp, ntk], atol=5e-7)


IMAGES = RNG.normal(size=(3, 4, 5, 2))


def by_loops(network: Convolve, kernel: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """The kernel of all pairs of positions behind a convolution with zeros around, position by position."""
    height, width = size
    found = np.zeros_like(kernel)
    for p in np.ndindex(size):
        for q in np.ndindex(size):
            for o in np.ndindex(3, 3):
                (a, b), (c, d) = ((r[0] + o[0] - 1, r[1] + o[1] - 1) for r in (p, q))
                if 0 <= a < height and 0 <= c < height and 0 <= b < width and 0 <= d < width:
                    found[p][q] += kernel[a, b, c, d] / 9
    return float(network.weight_std) ** 2 * found


def test_all_pairs_of_positions_move_together_under_a_convolution() -> None:
    layer = Convolve((3, 3), 1.5)
    network = Serial(layer, GlobalAveragePool(), Affine(1.0))
    products = np.einsum("abc,dec->abde", IMAGES[0], IMAGES[1]) / 2
    expected = by_loops(layer, products, (4, 5)).mean()
    found = network.nngp(IMAGES[:1], IMAGES[1:2])[0, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(network.ntk(IMAGES[:1], IMAGES[1:2])[0, 0], 2 * expected, rtol=1e-12)


def test_flattened_kernels_need_equal_positions_only_and_agree_with_all_pairs() -> None:
    body = (Convolve((3, 3), 1.2, 0.1, stride=2), Activate("relu"), Convolve((2, 2), 1.2), Activate("erf"))
    small = Serial(*body, Flatten(), Affine(1.0))
    assert not small.needs_pairs(False)
    large = Serial(
        *body, AveragePool((1, 1)), Flatten(), Affine(1.0)
    )  # a pool of one position asks for all pairs
    assert large.needs_pairs(False)
    for one, other in zip(small.both(IMAGES), large.both(IMAGES), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


WIDE: dict[str, Callable[[], InfiniteNetwork]] = {
    "everything": lambda: Serial(
        Convolve(3, 1.3, 0.3),
        Activate("relu"),
        Add(Serial(Convolve(3, 1.2, 0.2), NormalizeChannels()), Convolve(1, 0.7)),
        Concatenate(Activate("erf"), Activate("tanh")),
        AveragePool(2),
        Convolve(2, 1.4, 0.2, padding="circular"),
        Activate("gelu"),
        GlobalAveragePool(),
        Affine(1.3, 0.1),
    ),
    "strides and borders": lambda: Serial(
        Convolve(3, 1.3, 0.2, stride=2),
        Activate("relu"),
        Convolve(2, 1.3, padding="valid"),
        Flatten(),
        Affine(1.0),
    ),
    "residual": lambda: Serial(
        Affine(1.2, 0.2),
        Add(Identity(), Serial(Activate("relu"), Affine(1.3))),
        Activate("sin"),
        Flatten(),
        Affine(),
    ),
    "normalised over positions": lambda: Serial(
        Convolve(3, 1.5), NormalizeChannels(over_positions=True), Activate("relu"), Flatten(), Affine(1.0)
    ),
    "linear attention": lambda: Serial(
        Affine(1.2, 0.2),
        Activate("relu"),
        AttendLinearly(0.8, 1.1, 0.1),
        Activate("erf"),
        Flatten(),
        Affine(),
    ),
    "tied attention": lambda: Serial(
        Affine(1.2, 0.2),
        Activate("relu"),
        AttendTied(1.5, 1.2),
        Activate("relu"),
        GlobalAveragePool(),
        Affine(),
    ),
    "functions of the inputs": lambda: Serial(
        Activate("tanh"), AveragePool(2), Flatten(), Affine(), Activate("relu"), Affine()
    ),
}
BATCH = RNG.normal(size=(2, 5, 3))


@pytest.mark.parametrize("name", tiers(WIDE, slow=set(WIDE) - {"everything"}))
def test_kernels_are_those_of_random_networks(name: str) -> None:
    network = WIDE[name]()
    width, draws = 96, 30
    x = BATCH[:, :4] if name == "everything" else BATCH
    found = monte_carlo_kernel(
        lambda key: network.finite(width, key, x.shape[1:], outputs=64), x, key=jax.random.key(1), draws=draws
    )
    exact = network.both(x)
    # Standard errors, and a relative error of a few over the width.
    np.testing.assert_array_less(
        np.abs(found.nngp - exact.nngp), 3.5 * found.nngp_error + 4 / width * np.abs(exact.nngp).max()
    )
    np.testing.assert_array_less(
        np.abs(found.ntk - exact.ntk), 3.5 * found.ntk_error + 4 / width * np.abs(exact.ntk).max()
    )


def test_attention_of_inputs_is_as_written_out() -> None:
    """Of the inputs themselves, where every kernel is a product of theirs."""
    x, y = BATCH
    K = {name: a @ b.T / 3 for name, (a, b) in {"xx": (x, x), "xy": (x, y), "yy": (y, y)}.items()}
    linear = Serial(AttendLinearly(0.8, 1.1, 0.1), Flatten(), Affine())
    behind = 1.1**2 * 0.8**4 * K["xy"] * np.square(K["xy"]).sum() + 0.1**2
    np.testing.assert_allclose(linear.nngp(BATCH)[0, 1], np.trace(behind) / 5, rtol=1e-10)
    tangent = 4 * (behind - 0.1**2) + 0.1**2
    np.testing.assert_allclose(linear.ntk(BATCH)[0, 1], np.trace(behind + tangent) / 5, rtol=1e-10)

    def softmax(scores: np.ndarray) -> np.ndarray:
        return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)

    tied = Serial(AttendTied(1.5, 1.2), GlobalAveragePool(), Affine())
    behind = 1.2**2 * softmax(1.5**2 * K["xx"]) @ K["xy"] @ softmax(1.5**2 * K["yy"]).T
    np.testing.assert_allclose(tied.nngp(BATCH)[0, 1], behind.mean(), rtol=1e-10)
    np.testing.assert_allclose(tied.ntk(BATCH)[0, 1], 3 * behind.mean(), rtol=1e-10)
    np.testing.assert_allclose(tied.variance(BATCH), np.diag(tied.nngp(BATCH)), rtol=1e-10)


def test_the_usual_attention_has_finite_networks_and_estimated_kernels() -> None:
    """Without scores it averages positions, which is known."""
    network = Serial(Attend(0.0), Flatten(), Affine())
    found = monte_carlo_kernel(
        lambda key: network.finite(32, key, (5, 3), outputs=64), BATCH, key=jax.random.key(0), draws=20
    )
    means = BATCH.mean(axis=1)
    exact = means @ means.T / 3
    np.testing.assert_array_less(np.abs(found.nngp - exact), 3.5 * found.nngp_error + 4 / 32)
    standard = network.finite(32, jax.random.key(0), (5, 3), standard=True)
    np.testing.assert_allclose(
        standard(BATCH), network.finite(32, jax.random.key(0), (5, 3))(BATCH), rtol=1e-5
    )


@pytest.mark.slow
def test_wide_convolutions_agree_within_three_standard_errors() -> None:
    for gather in ("pool", "flatten"):
        network = Convolutional(
            2, window=3, weight_std=2**0.5, bias_std=0.1, padding="circular", gather=gather
        )
        found = monte_carlo_kernel(
            lambda key, network=network: network.finite(512, key, (4, 1), outputs=128),
            SEQUENCE[None],
            OTHER[None],
            key=jax.random.key(0),
            draws=30,
        )
        nngp, ntk = (float(k) for k in network.both(SEQUENCE, OTHER))
        assert abs(found.nngp[0, 0] - nngp) < 3 * found.nngp_error[0, 0]
        assert abs(found.ntk[0, 0] - ntk) < 3 * found.ntk_error[0, 0]


def test_the_standard_parameterisation_has_the_kernel_of_its_width() -> None:
    network = Dense(1, "relu", bias_std=0.3, scaled_inputs=True)
    x = RNG.normal(size=(2, 3))
    width = 256
    found = monte_carlo_kernel(
        lambda key: network.finite(width, key, 3, outputs=32, standard=True),
        x,
        key=jax.random.key(0),
        draws=40,
    )
    exact = network.both(x, standard_width=width)
    np.testing.assert_array_less(np.abs(found.ntk - exact.ntk), 3.5 * found.ntk_error)
    np.testing.assert_array_less(np.abs(found.nngp - exact.nngp), 3.5 * found.nngp_error + 0.02)


def test_dropout_adds_variance_to_an_example_and_not_to_two() -> None:
    p, x = 0.25, RNG.normal(size=(2, 4))
    plain = Serial(Affine(), Activate("relu"), Affine())
    dropped = Serial(Affine(), Activate("relu"), DropUnits(p), Affine())
    for one, other in zip(plain.both(x), dropped.both(x), strict=True):
        np.testing.assert_allclose(other[0, 1], one[0, 1], rtol=1e-12)
    np.testing.assert_allclose(np.diag(dropped.nngp(x)), np.diag(plain.nngp(x)) / (1 - p), rtol=1e-12)
    np.testing.assert_allclose(dropped.variance(x), np.diag(dropped.nngp(x)), rtol=1e-12)
    network = dropped.finite(64, jax.random.key(0), 4, outputs=4096)
    key = jax.random.key(1)
    assert not np.allclose(network(x, key), network(x))
    np.testing.assert_array_equal(network(x), network(x))


def test_networks_are_kernels_for_every_machine() -> None:
    x = RNG.normal(size=(12, 3))
    for kernel in (NNGP(Dense(2, "relu")), NTK(Dense(2, "erf"))):
        assert check(kernel, x)
        np.testing.assert_allclose(kernel.diagonal(jnp.asarray(x)), np.diag(kernel.gram(x)), rtol=1e-10)
    flat = IMAGES.reshape(3, -1)
    network = Convolutional(1, gather="pool")
    np.testing.assert_allclose(NTK(network, (4, 5, 2)).gram(flat), network.ntk(IMAGES), rtol=1e-10)
    with pytest.raises(ArgumentError, match="do not have the shape"):
        NTK(network, (4, 5)).gram(flat)


def test_kernels_are_differentiable_in_the_deviations_of_weights() -> None:
    network = Dense(2, "relu", weight_std=1.2, bias_std=0.3)

    def total(network: InfiniteNetwork) -> jax.Array:
        return network.nngp(X, Y)

    gradient = eqx.filter_grad(total)(network)
    slopes = [float(leaf) for leaf in jax.tree.leaves(gradient)]
    step = 1e-5

    def moved(by: float) -> float:
        layers = eqx.tree_at(lambda n: n.layers[0].weight_std, network, network.layers[0].weight_std + by)  # type: ignore[attr-defined]
        return float(layers.nngp(X, Y))

    assert slopes[0] == pytest.approx((moved(step) - moved(-step)) / (2 * step), rel=1e-6)


def test_one_description_gives_networks_of_any_size() -> None:
    description = Dense(2, "relu", bias_std=0.1)
    x = RNG.normal(size=(4, 3))
    key = jax.random.key(0)
    sized = description.finite(16, key, 3, outputs=2)
    assert sized(x).shape == (4, 2)
    assert sized(x[0]).shape == (2,)
    later = description.finite(16, key, outputs=2)
    np.testing.assert_array_equal(later(x), sized(x))
    with pytest.raises(ArgumentError, match="inputs end with the shape"):
        sized(x[:, :2])
    with pytest.raises(ArgumentError, match="no parameters"):
        monte_carlo_kernel(lambda key: description.finite(16, key), x, key=key)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Serial(Convolve(3), MaxPool(2), Flatten(), Affine()).nngp(BATCH),
            "MaxPool: no rule .*\n.*monte_carlo",
        ),
        (lambda: Serial(Attend(), Flatten(), Affine()).ntk(BATCH), "Attend: no rule .*\n.*monte_carlo"),
        (lambda: Serial(AttendTied(), Affine()).nngp(BATCH[:, 0]), "no positions to attend to"),
        (
            lambda: Serial(AttendTied(), Flatten(), Affine()).ntk(BATCH, standard_width=8),
            "leave standard_width out",
        ),
        (
            lambda: Serial(Affine(), Activate("relu"), Activate("relu"), Affine()).nngp(BATCH[:, 0]),
            "must be Gaussian",
        ),
        (lambda: Serial(Convolve(3), Activate("relu"), Affine()).nngp(BATCH), "ends with positions"),
        (lambda: Serial(Affine(), Affine(scaled=False)).nngp(BATCH[:, 0]), "would be infinite"),
        (lambda: Serial(Add(Identity(), Affine()), Affine()).nngp(BATCH[:, 0]), "different shapes"),
        (
            lambda: Serial(Convolve(9, padding="valid"), Flatten(), Affine()).nngp(BATCH),
            "larger than the input",
        ),
        (lambda: Serial(Convolve((3, 3)), Flatten(), Affine()).nngp(BATCH[None]), None),
        (lambda: Serial(Convolve((3, 3, 3)), Flatten(), Affine()), "one or two axes"),
        (lambda: Convolve(3, padding="reflect"), "padding must be"),
        (lambda: Serial("relu"), "not a layer"),
        (lambda: Add(Identity()), "two or more"),
        (lambda: DropUnits(1.0), "must lie in"),
        (lambda: Dense(1).nngp(BATCH[:, 0], BATCH[:, 0, :2]), "both need the same"),
        (lambda: Dense(1).nngp([[np.nan, 1.0]]), "must be finite"),
    ],
)
def test_what_cannot_be_built_is_named(call: Callable[[], object], message: str | None) -> None:
    if message is None:
        call()
        return
    with pytest.raises(ArgumentError, match=message):
        call()
