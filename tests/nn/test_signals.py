"""Convolution of plain signals against SciPy, its matrix, and smoothing before pixels are left out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
import scipy.ndimage
import scipy.signal

from chainrule.core.errors import ArgumentError
from chainrule.nn import as_matrix, blur_pool, convolve_signal, max_pool

NOISE = np.random.default_rng(0)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("shapes", [((9,), (4,)), ((7,), (3,)), ((6, 8), (3, 2))], ids=str)
def test_convolution_and_correlation_are_those_of_scipy(mode: str, shapes: tuple) -> None:
    x, h = (NOISE.normal(size=shape).astype(np.float32) for shape in shapes)
    found, turned = jax.jit(
        lambda x, h: (convolve_signal(x, h, mode=mode), convolve_signal(x, h, mode=mode, flip=False))
    )(x, h)
    np.testing.assert_allclose(found, scipy.signal.convolve(x, h, mode=mode), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(turned, scipy.signal.correlate(x, h, mode=mode), rtol=1e-4, atol=1e-5)


def test_circular_convolution_is_a_product_of_spectra() -> None:
    x, h = NOISE.normal(size=(2, 9)), NOISE.normal(size=4)
    found = convolve_signal(jnp.asarray(x, jnp.float32), jnp.asarray(h, jnp.float32), mode="circular")
    expected = np.fft.ifft(np.fft.fft(x) * np.fft.fft(h, 9)[None]).real
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    around = convolve_signal(
        jnp.asarray(x, jnp.float32), jnp.asarray(h, jnp.float32), mode="circular", flip=False
    )
    expected = np.fft.ifft(np.fft.fft(x) * np.fft.fft(h, 9).conj()[None]).real
    np.testing.assert_allclose(around, expected, rtol=1e-4, atol=1e-5)


def test_known_convolutions() -> None:
    assert convolve_signal(jnp.array([1.0, 2.0, -1.0]), jnp.array([1.0, 2.0, -1.0])).tolist() == [
        1,
        4,
        2,
        -4,
        1,
    ]
    x, h = NOISE.normal(size=(5, 6)), NOISE.normal(size=(3, 4))
    assert float(convolve_signal(jnp.asarray(x), jnp.asarray(h)).sum()) == pytest.approx(
        x.sum() * h.sum(), rel=1e-4
    )


def test_the_matrix_of_a_convolution_is_toeplitz_with_the_reversed_filter_in_its_rows() -> None:
    h = jnp.array([1.0, 2.0, 3.0])
    found = as_matrix(lambda x: convolve_signal(x, h, mode="valid"), (6,))
    first = np.array([3.0, 2.0, 1.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(found, [np.roll(first, k) for k in range(4)])
    circular = as_matrix(lambda x: convolve_signal(x, h, mode="circular"), (6,))
    np.testing.assert_array_equal(circular, scipy.linalg.circulant([1.0, 2.0, 3.0, 0.0, 0.0, 0.0]))


@pytest.mark.parametrize(
    ("signal", "kernel", "mode", "message"),
    [
        ((3,), (4,), "valid", "a kernel of 4 entries is longer than the axis of 3"),
        ((3,), (2, 2), "full", "does not fit a signal of shape"),
        ((3,), (2,), "half", "mode must be"),
    ],
)
def test_signals_that_do_not_fit_are_refused(signal: tuple, kernel: tuple, mode: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        convolve_signal(jnp.zeros(signal), jnp.zeros(kernel), mode=mode)


def test_blurring_before_pixels_are_left_out_is_a_mirrored_binomial_filter() -> None:
    x = NOISE.normal(size=(2, 8, 7, 3)).astype(np.float32)
    for size in (2, 3, 5):
        w = np.array([1.0])
        for _ in range(size - 1):
            w = np.convolve(w, [0.5, 0.5])
        smooth = x
        for axis in (1, 2):
            smooth = scipy.ndimage.correlate1d(
                smooth, w, axis=axis, mode="mirror", origin=-1 if size == 2 else 0
            )
        np.testing.assert_allclose(
            jax.jit(lambda x, size=size: blur_pool(x, size=size))(x),
            smooth[:, ::2, ::2],
            rtol=1e-4,
            atol=1e-5,
        )
    with pytest.raises(ArgumentError, match="no mirror image"):
        blur_pool(jnp.zeros((2, 2, 1)), size=5)


def test_a_shift_changes_blurred_pooling_less_than_plain_pooling() -> None:
    x = jnp.asarray(NOISE.normal(size=(4, 16, 16, 1)), jnp.float32)

    def change(pool: object) -> float:
        compiled = jax.jit(pool)
        a, b = (np.asarray(compiled(one)) for one in (x, np.roll(x, 1, axis=2)))
        return float(np.linalg.norm(a - b) / np.linalg.norm(a))

    assert change(lambda x: blur_pool(max_pool(x, 2, stride=1))) < 0.7 * change(lambda x: max_pool(x, 2))


def test_blurred_pooling_keeps_constants_and_its_gradient_spreads_evenly() -> None:
    np.testing.assert_allclose(blur_pool(jnp.full((5, 5, 1), 3.0)), np.full((3, 3, 1), 3.0), rtol=1e-6)
    slope = jax.jit(jax.grad(lambda x: blur_pool(x).sum()))(jnp.zeros((6, 6, 1)))
    assert float(slope.sum()) == pytest.approx(9.0)
