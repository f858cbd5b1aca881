"""Convolution layers: definition, adjointness, symmetries, tables, and errors that show the arithmetic."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.signal

from chainrule import derive, nn
from chainrule.core.errors import ArgumentError
from chainrule.nn.convolution.functions import convolve

KEY = jax.random.key(0)


@pytest.fixture(scope="module", autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module", autouse=True)
def _quick_compilation() -> Iterator[None]:
    """Programs here run once: compiling them is what takes time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def normal(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def test_layers_correlate_the_textbook_example() -> None:
    x, w = jnp.array([[2.0, 7, 1], [2, 8, 1]])[..., None], jnp.array([[3.0, 1], [4, 5]])[..., None, None]
    out = convolve(x, w, stride=(1, 1), padding=((0, 0), (0, 0)), dilation=(1, 1))
    assert out[..., 0].tolist() == [[61.0, 59.0]]


def test_a_flipped_kernel_and_full_padding_give_the_convolution_of_signals() -> None:
    for a, b in (([1.0, 2, 4], [1.0, 1, 1, 1]), ([1.0, 2, -1], [1.0, 2, -1])):
        n = len(b) - 1
        out = convolve(
            jnp.array(a)[:, None],
            jnp.array(b)[::-1, None, None],
            stride=(1,),
            padding=((n, n),),
            dilation=(1,),
        )
        np.testing.assert_allclose(out[:, 0], scipy.signal.convolve(a, b))


def test_any_leading_axes_are_carried_along() -> None:
    layer, x = nn.Conv(2, 2, 3, 3, key=KEY), normal(2, 3, 5, 4, 2)
    call = eqx.filter_jit(layer)
    whole = call(x)
    assert whole.shape == (2, 3, 5, 4, 3)
    np.testing.assert_allclose(whole[1, 2], call(x[1, 2]), rtol=1e-10)


@pytest.mark.filterwarnings("ignore:.*checkerboards")
@pytest.mark.parametrize(
    ("size", "stride", "padding", "dilation", "groups"),
    [((9, 8), 2, 1, 1, 1), ((7, 9), 1, 2, 2, 2), ((8, 8), 3, 0, 1, 1), ((9, 7), 2, 3, 2, 2)],
)
def test_transposed_convolutions_are_adjoint_to_convolutions(
    size: tuple[int, int], stride: int, padding: int, dilation: int, groups: int
) -> None:
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups, "bias": False}
    conv = nn.Conv(2, 4, 6, 3, key=KEY, **settings)
    x = normal(2, *size, 4)
    y = eqx.filter_jit(conv)(x)
    # What the stride floors away at the end comes back by output padding.
    extra = [(n + 2 * padding - 2 * dilation - 1) % stride for n in size]
    adjoint = nn.ConvTranspose(2, 6, 4, 3, output_padding=extra, key=KEY, **settings)
    object.__setattr__(adjoint, "weight", conv.weight)
    z = normal(*y.shape, seed=1)
    back = eqx.filter_jit(adjoint)(z)
    assert back.shape == x.shape
    np.testing.assert_allclose(np.vdot(y, z), np.vdot(x, back), rtol=1e-10)


def test_same_padding_divides_and_multiplies_sizes_by_the_stride() -> None:
    for n in (7, 8):
        out = nn.Conv(1, 1, 1, 4, stride=2, key=KEY)(jnp.zeros((n, 1)))
        assert out.shape == (4, 1)
        assert nn.ConvTranspose(1, 1, 1, 4, stride=2, key=KEY)(out).shape == (8, 1)


def test_kernels_that_are_no_multiple_of_the_stride_warn_of_checkerboards() -> None:
    with pytest.warns(UserWarning, match="checkerboards"):
        nn.ConvTranspose(2, 1, 1, 3, stride=2, key=KEY)


def test_raw_sizes_follow_the_formula() -> None:
    layer = nn.Conv(2, 1, 1, 3, stride=2, padding=1, key=KEY)
    assert layer(jnp.zeros((5, 5, 1))).shape == (3, 3, 1)
    assert layer(jnp.zeros((7, 7, 1))).shape == (4, 4, 1)


def test_the_table_of_a_stack_and_what_it_gives_away() -> None:
    widths = (1, 4, 8, 16, 32, 2)
    layers = [nn.Conv(2, a, b, 3, stride=2, padding=1, key=KEY) for a, b in itertools.pairwise(widths)]
    table = nn.conv_table(layers, (28, 28, 1))
    assert [row.shape for row in table] == [(14, 14, 4), (7, 7, 8), (4, 4, 16), (2, 2, 32), (1, 1, 2)]
    assert [row.parameters for row in table] == [40, 296, 1168, 4640, 578]
    assert table[-1].receptive_field == (63, 63)
    assert [row.kernel for row in table] == [(b, a, 3, 3) for a, b in itertools.pairwise(widths)]
    assert "(16, 8, 3, 3)" in str(table)
    assert "6,722" in str(table).splitlines()[-2]
    shapes = [(28, 1), *((row.shape[0], row.shape[-1]) for row in table)]
    for found in nn.infer_layers(shapes, [row.parameters for row in table]):
        assert any((c.kernel, c.stride, c.padding, c.bias) == (3, 2, 1, True) for c in found)


@pytest.mark.parametrize(
    ("size", "wanted", "kernel"), [(7, 4, 3), (5, 1, 4), (4, 2, 1), (6, 9, 5), (2, 3, 2)]
)
def test_every_stride_and_padding_that_fits_is_inferred(size: int, wanted: int, kernel: int) -> None:
    (found,) = nn.infer_layers([(size, 1), (wanted, 1)], [kernel**2])
    tried = itertools.product(range(1, max(kernel, size) + 1), range(kernel))
    fits = [(s, p) for s, p in tried if size + 2 * p >= kernel and (size + 2 * p - kernel) // s + 1 == wanted]
    assert [(c.stride, c.padding) for c in found if not c.bias] == fits


def test_strides_larger_than_the_kernel_are_inferred_too() -> None:
    shortcut = nn.Conv(2, 64, 128, 1, stride=2, padding=0, bias=False, key=KEY)
    (found,) = nn.infer_layers([(56, 64), (28, 128)], [shortcut.weight.size])
    assert [(c.kernel, c.stride, c.padding, c.bias) for c in found] == [(1, 2, 0, False)]


def test_matrices_reproduce_layers_and_are_toeplitz_or_circulant() -> None:
    banded = nn.Conv(1, 1, 1, 3, padding="valid", key=KEY)
    matrix, x = np.asarray(nn.as_matrix(banded, (6, 1))), normal(6, 1)
    assert matrix.shape == (4, 6)
    np.testing.assert_allclose(matrix @ np.ravel(x), np.ravel(banded(x)), rtol=1e-10)
    for row in range(4):
        np.testing.assert_array_equal(matrix[row, row : row + 3], np.ravel(banded.weight))
    around = nn.Conv(1, 1, 1, 3, padding=1, padding_mode="circular", key=KEY)
    circulant = np.asarray(nn.as_matrix(around, (6, 1)))
    np.testing.assert_allclose(circulant[1], np.roll(circulant[0], 1))
    picture = nn.Conv(2, 2, 3, 3, stride=2, key=KEY)
    y = normal(5, 4, 2)
    np.testing.assert_allclose(
        nn.as_matrix(picture, (5, 4, 2)) @ jnp.ravel(y), jnp.ravel(picture(y)), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: nn.Conv(2, 3, 4, 3, groups=2, key=KEY), "2 groups cannot share 3 inputs and 4 outputs"),
        (lambda: nn.Conv(4, 3, 4, 3, key=KEY), "dimensions must be 1, 2 or 3"),
        (lambda: nn.Conv(2, 3, 4, 3, padding_mode="mirror", key=KEY), "padding_mode must be"),
        (lambda: nn.Conv(2, 3, 4, 3, padding="full", key=KEY), 'padding must be "same", "valid"'),
        (lambda: nn.Conv(2, 3, 4, 3, stride=(1, 2, 3), key=KEY), "3 numbers for 2 axes"),
        (lambda: nn.Conv(2, 3, 4, 3, key=KEY)(jnp.zeros((5, 5, 2))), "has 2 channels .* takes 3"),
        (lambda: nn.Conv(2, 3, 4, 3, key=KEY)(jnp.zeros((5, 3))), "no 2 axes before its channels"),
        (
            lambda: nn.Conv(2, 3, 4, 7, padding=1, key=KEY)(jnp.zeros((4, 9, 3))),
            r"floor\(\(4 \+ 1 \+ 1 - 1·\(7 - 1\) - 1\) / 1\) \+ 1 = 0",
        ),
        (
            lambda: nn.Conv(1, 1, 1, 9, padding_mode="reflect", key=KEY)(jnp.zeros((4, 1))),
            "4 entries cannot be made from an axis of 4",
        ),
        (
            lambda: nn.ConvTranspose(1, 1, 1, 2, stride=2, output_padding=2, key=KEY),
            "output_padding must be smaller",
        ),
        (lambda: nn.max_pool(jnp.zeros((4, 4, 1)), 2, padding=2), "padding alone"),
        (lambda: nn.pixel_shuffle(jnp.zeros((4, 4, 3)), 2), "3 channels are no multiple of 4"),
        (
            lambda: nn.residual(lambda x: x[:, :2])(jnp.zeros((2, 3))),
            r"shape \(2, 2\), the shortcut \(2, 3\)",
        ),
        (lambda: nn.GroupNorm(6, groups=4), "6 features cannot be split evenly"),
        (lambda: nn.SelfAttention(6, heads=4, key=KEY), "a width of 6 cannot be split evenly"),
    ],
)
def test_what_cannot_work_is_refused_with_the_numbers(make, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        make()


def test_the_gradient_of_a_maximum_goes_to_the_first_of_equal_entries() -> None:
    x = jnp.array([[1.0, 1.0], [1.0, 0.0]])[..., None]
    grad = jax.grad(lambda x: nn.max_pool(x, 2).sum())(x)[..., 0]
    assert grad.tolist() == [[1.0, 0.0], [0.0, 0.0]]


def test_maxima_side_by_side_agree_with_sliding_ones_in_every_mode() -> None:
    x, v = normal(2, 7, 6, 3), normal(2, 7, 6, 3, seed=1)

    def stock(x: jax.Array) -> jax.Array:
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 2, 1), (1, 3, 2, 1), "VALID")

    def pooled(x: jax.Array) -> jax.Array:
        return nn.max_pool(x, (3, 2))

    @functools.partial(jax.jit, static_argnums=0)
    def both(f, x, v):
        grad = jax.grad(lambda x: jnp.sin(f(x)).sum())
        return f(x), jax.jvp(f, (x,), (v,))[1], grad(x), jax.jvp(grad, (x,), (v,))[1]

    for ours, theirs in zip(both(pooled, x, v), both(stock, x, v), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["basic", "bottleneck"])
@pytest.mark.parametrize("order", ["post", "pre"])
def test_residual_blocks_project_where_the_shape_changes_and_move_their_statistics(
    kind: str, order: str
) -> None:
    x = normal(2, 6, 6, 8)
    changing = nn.ResidualBlock(8, 16, stride=2, kind=kind, order=order, key=KEY)
    out, moved = eqx.filter_jit(changing.advance)(x)
    assert out.shape == eqx.filter_eval_shape(changing, x).shape == (2, 3, 3, 16)
    assert len(moved.state()) == len(changing.state()) > 0
    assert any((a != b).any() for a, b in zip(moved.state(), changing.state(), strict=True))
    same = nn.ResidualBlock(8, 8, kind=kind, order=order, zero_last=True, key=KEY)
    assert same.projection is None
    if order == "post":  # the last scale starts at zero: only the shortcut is left
        np.testing.assert_allclose(eqx.filter_jit(same.advance)(x)[0], np.maximum(x, 0))


def test_dropped_channels_and_branches_are_dropped_whole() -> None:
    x = jnp.ones((64, 3, 3, 8))
    channels = nn.ChannelDropout(0.5)(x, KEY)
    assert set(np.unique(channels)) == {0.0, 2.0}
    assert (np.ptp(channels, axis=(1, 2)) == 0).all()
    branches = nn.StochasticDepth(0.5)(x, KEY)
    assert (np.ptp(branches, axis=(1, 2, 3)) == 0).all()
    assert set(np.unique(branches)) == {0.0, 2.0}
    assert nn.ChannelDropout(0.5, inference=True)(x, KEY) is x
    mean, std = nn.monte_carlo(lambda key: nn.Dropout(0.5)(jnp.ones(2000), key), KEY, 100)
    assert float(mean.mean()) == pytest.approx(1, abs=0.02)
    assert float(std.mean()) == pytest.approx(1, abs=0.05)


def test_patterns_of_derivatives_are_found_through_convolutions() -> None:
    layer = nn.Conv(1, 1, 1, 3, padding=1, key=KEY)
    f = lambda x: layer(x[:, None])[:, 0] ** 2  # noqa: E731
    assert derive.sparse.detect(f, jnp.ones(8)).nnz == 22  # three diagonals
    assert derive.sparse.detect(lambda x: f(x).sum(), jnp.ones(8), of="hessian").nnz == 34  # five


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (lambda: nn.Conv(2, 6, 8, 3, groups=4, key=KEY), (), r"6 / 4 = 1.5, 8 / 4 = 2"),
        (lambda: nn.Conv(2, 6, 8, 3, groups=2, key=KEY), (5, 5, 3), r"takes 6 = 2 groups · 3"),
        (
            lambda: nn.Conv(2, 1, 1, 3, padding=0, key=KEY),
            (2, 5, 1),
            r"\(2 \+ 0 \+ 0 - 1·\(3 - 1\) - 1\) / 1\) \+ 1 = 0",
        ),
        (
            lambda: nn.ConvTranspose(2, 1, 1, 2, stride=2, padding=2, key=KEY),
            (1, 1, 1),
            r"\(1 - 1\)·2 - 2 - 2 .* = -2",
        ),
    ],
)
def test_errors_show_the_arithmetic(layer: Any, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        layer()(jnp.zeros(shape))
