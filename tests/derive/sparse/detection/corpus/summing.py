"""Reductions, cumulative operations, sorting, windows, transforms, products, convolutions, linear algebra."""

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import lax
from jax.experimental import sparse

from tests.derive.sparse.detection.corpus.case import Case, sound, tight

_BANDED = np.diag(np.full(5, 2.0)) - np.diag(np.ones(4), 1) - np.diag(np.ones(4), -1)
_BLOCKS = np.kron(np.eye(2), np.array([[2.0, 1.0], [1.0, 3.0]]))
_FULL = np.random.default_rng(3).uniform(1.0, 2.0, (5, 5))
_KERNEL = np.array([[0.0, 1.0, 0.0], [1.0, -4.0, 1.0], [0.0, 1.0, 0.0]])
_SPARSE = sparse.BCOO.fromdense(jnp.asarray(_BANDED))


def _spd(x: jax.Array) -> jax.Array:
    return x @ x.T + 4 * jnp.eye(x.shape[0])


def _image(x: jax.Array, kernel: jax.Array, **more: object) -> jax.Array:
    return lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **more
    )


def _grouped(x: jax.Array) -> jax.Array:
    kernel = jnp.broadcast_to(jnp.arange(1.0, 5.0), (2, 1, 1, 4))
    return _image(x.reshape(1, 3, 1, 2), kernel, feature_group_count=2)


def _batch_grouped(x: jax.Array) -> jax.Array:
    kernel = jnp.broadcast_to(jnp.arange(1.0, 5.0), (2, 1, 2, 4))
    return _image(x.reshape(2, 3, 1, 2), kernel, batch_group_count=2)


def _attention(x: jax.Array) -> jax.Array:
    q, k, v = jnp.split(x, 3, axis=-1)
    scores = q @ k.T
    causal = np.tril(np.ones((3, 3), bool))
    return jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1) @ v


def _conjugate_gradient(x: jax.Array) -> jax.Array:
    return jax.scipy.sparse.linalg.cg(lambda v: jnp.asarray(_BLOCKS) @ v, x, maxiter=8)[0]


def _max_pool(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, -jnp.inf, lax.max, (2,), (2,), "VALID")


def _sum_pool(x: jax.Array) -> jax.Array:
    return lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME")


def _layer_norm(x: jax.Array) -> jax.Array:
    mean, variance = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + 1e-3)


REDUCTIONS: list[Case] = [
    tight("sum", jnp.sum, (4,)),
    tight("sum of rows", lambda x: jnp.sum(x, axis=1), (3, 4)),
    tight("sum of columns kept", lambda x: jnp.sum(x, axis=0, keepdims=True), (3, 12)),
    tight("sum of many", lambda x: jnp.sum(x.reshape(2, 20), axis=1), (40,)),
    tight("mean", jnp.mean, (5,)),
    tight("variance", jnp.var, (5,)),
    tight("standard deviation of columns", lambda x: jnp.std(x, axis=0), (4, 2)),
    tight("product", jnp.prod, (4,)),
    tight("product of rows", lambda x: jnp.prod(x, axis=1), (2, 3)),
    sound("maximum of rows", lambda x: jnp.max(x, axis=1), (3, 4)),
    sound("minimum", jnp.min, (5,)),
    sound("median", jnp.median, (5,)),
    sound("quantile", lambda x: jnp.quantile(x, 0.3), (5,)),
    tight("norm", jnp.linalg.norm, (4,)),
    sound("largest norm", lambda x: jnp.linalg.norm(x, ord=jnp.inf), (4,)),
    tight("log-sum-exp of rows", lambda x: jax.nn.logsumexp(x, axis=1), (2, 3)),
    tight("softmax of rows", lambda x: jax.nn.softmax(x, axis=1), (2, 3)),
    tight("log-softmax", jax.nn.log_softmax, (4,)),
    tight("layer norm of rows", _layer_norm, (2, 4)),
    tight("cumulative sum", jnp.cumsum, (5,)),
    tight("cumulative sum reversed", lambda x: lax.cumsum(x, axis=1, reverse=True), (2, 4)),
    tight("cumulative product", jnp.cumprod, (4,)),
    sound("cumulative maximum", lax.cummax, (5,)),
    sound("cumulative minimum", lambda x: lax.cummin(x, axis=0), (3, 2)),
    tight("cumulative log-sum-exp", lax.cumlogsumexp, (5,)),
    tight("associative scan", lambda x: lax.associative_scan(jnp.add, x), (5,)),
    tight("differences", lambda x: jnp.diff(x, n=2), (6,)),
    tight("gradient along a grid", jnp.gradient, (5,)),
    tight("trapezoid", jnp.trapezoid, (5,)),
    sound("sort", jnp.sort, (5,)),
    sound("sort of rows", lambda x: jnp.sort(x, axis=1), (2, 3)),
    sound("sort by key", lambda x: lax.sort((x[:3], x[3:]), num_keys=1)[1], (6,)),
    sound("argsort used", lambda x: x[jnp.argsort(-x)][:2], (5,)),
    sound("top k of rows", lambda x: lax.top_k(x, 2)[0], (2, 4)),
    sound("general reduce", lambda x: lax.reduce(x, 0.0, lambda a, b: a + b, (0,)), (4,)),
    sound("sum pooling", _sum_pool, (3, 3)),
    sound("max pooling", _max_pool, (6,)),
    sound("average pooling", lambda x: lax.reduce_window(x, 0.0, lax.add, (3,), (2,), "VALID") / 3, (7,)),
    sound("min pooling", lambda x: -_max_pool(-x), (6,)),
    sound(
        "dilated window",
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "SAME", window_dilation=(2,)),
        (6,),
    ),
    tight("fft of rows", lambda x: jnp.real(jnp.fft.fft(x)), (2, 3)),
    tight("real fft", lambda x: jnp.abs(jnp.fft.rfft(x)), (4,)),
    tight("inverse fft", lambda x: jnp.real(jnp.fft.ifft(x)), (3,)),
    sound("inverse real fft", lambda x: jnp.fft.irfft(x + 0j), (3,)),
    tight("fft of two axes", lambda x: jnp.abs(jnp.fft.fft2(x)), (2, 2, 2)),
    sound(
        "fft convolution",
        lambda x: jax.scipy.signal.fftconvolve(x, jnp.array([1.0, 2.0]), mode="valid"),
        (3,),
    ),
    tight("cosine transform", lambda x: jax.scipy.fft.dct(x, axis=1), (2, 3)),
    sound(
        "histogram-like smoothing",
        lambda x: jnp.exp(-((x[:, None] - jnp.arange(3.0)[None]) ** 2)).sum(0),
        (4,),
    ),
    sound("pairwise differences", lambda x: x[:, None] - x[None, :], (3,)),
    tight("pairwise sum of squares", lambda x: ((x[:, None] - x[None, :]) ** 2).sum(1), (3,)),
]

PRODUCTS: list[Case] = [
    tight("matrix times vector", lambda x: np.arange(1.0, 13.0).reshape(3, 4) @ x, (4,)),
    tight("banded matrix times vector", lambda x: _BANDED @ x, (5,)),
    tight("banded matrix times matrix", lambda x: _BANDED @ x, (5, 2)),
    tight("vector times banded matrix", lambda x: x @ _BANDED, (5,)),
    tight("block matrix times vector", lambda x: _BLOCKS @ x, (4,)),
    tight("matrix product of inputs", lambda x: x @ x.T, (2, 3)),
    tight("dot of halves", lambda x: jnp.dot(x[:3], x[3:]), (6,)),
    tight("batched products", lambda x: jnp.einsum("bij,bjk->bik", x, x), (2, 2, 2)),
    tight("einsum over a constant", lambda x: jnp.einsum("ij,jk->ki", _BANDED, x), (5, 2)),
    tight("trilinear einsum", lambda x: jnp.einsum("i,j,ij->i", x, x, _BLOCKS), (4,)),
    tight("diagonal matrix times matrix", lambda x: jnp.diag(x[:3]) @ x[3:].reshape(3, 2), (9,)),
    tight(
        "tensordot", lambda x: jnp.tensordot(x, np.arange(1.0, 5.0).reshape(2, 2), axes=[[1], [0]]), (3, 2)
    ),
    tight("matrix power", lambda x: jnp.linalg.matrix_power(x, 3), (2, 2)),
    tight("upper times upper", lambda x: jnp.triu(x) @ jnp.triu(x), (3, 3)),
    tight("sparse matrix times vector", lambda x: _SPARSE @ x, (5,)),
    tight(
        "sparse values", lambda x: sparse.BCOO((x, np.array([[0, 1], [2, 0]])), shape=(3, 3)).todense(), (2,)
    ),
    tight("convolution", lambda x: jnp.convolve(x, jnp.array([1.0, 2.0, -1.0])), (5,)),
    tight("convolution of inputs", lambda x: jnp.convolve(x[:4], x[4:], mode="same"), (7,)),
    tight("correlation", lambda x: jnp.correlate(x, jnp.array([1.0, 0.0, -1.0]), mode="valid"), (6,)),
    tight("stencil convolution", lambda x: jax.scipy.signal.convolve2d(x, _KERNEL, mode="same"), (3, 4)),
    tight("image convolution", lambda x: _image(x.reshape(1, 3, 3, 1), jnp.ones((2, 2, 1, 2))), (9,)),
    tight(
        "strided convolution",
        lambda x: lax.conv(x.reshape(1, 1, 7), jnp.ones((1, 1, 3)), (2,), "VALID"),
        (7,),
    ),
    tight(
        "dilated convolution",
        lambda x: lax.conv_general_dilated(
            x.reshape(1, 1, 6), jnp.ones((1, 1, 2)), (1,), [(1, 2)], lhs_dilation=(2,), rhs_dilation=(3,)
        ),
        (6,),
    ),
    tight("grouped convolution", _grouped, (6,)),
    tight("batch-grouped convolution", _batch_grouped, (12,)),
    tight("kernel of a convolution", lambda x: _image(jnp.ones((1, 3, 3, 2)), x.reshape(2, 2, 2, 1)), (8,)),
    tight(
        "transposed convolution",
        lambda x: lax.conv_transpose(
            x.reshape(1, 4, 1), jnp.ones((3, 1, 2)), (2,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
        ),
        (4,),
    ),
    sound("causal attention", _attention, (3, 6)),
    tight("two-layer network", lambda x: jnp.tanh(x @ np.ones((3, 4))) @ np.ones((4, 2)), (2, 3)),
    tight("image resize", lambda x: jax.image.resize(x, (6,), "linear"), (3,)),
    sound("image resize cubic", lambda x: jax.image.resize(x, (2, 5), "cubic"), (3, 4)),
]

ALGEBRA: list[Case] = [
    tight("solve", lambda x: jnp.linalg.solve(_BANDED, x), (5,)),
    tight("solve with blocks", lambda x: jnp.linalg.solve(_BLOCKS, x), (4,)),
    tight("solve several", lambda x: jnp.linalg.solve(_BANDED, x), (5, 2)),
    tight(
        "solve for the matrix", lambda x: jnp.linalg.solve(x + 5 * jnp.eye(3), jnp.arange(1.0, 4.0)), (3, 3)
    ),
    tight(
        "batched solve",
        lambda x: jnp.linalg.solve(_spd(jnp.eye(2))[None] * jnp.ones((2, 1, 1)) + 0.1, x),
        (2, 2, 1),
    ),
    sound("matrix inverse", lambda x: jnp.linalg.inv(x + 5 * jnp.eye(2)), (2, 2)),
    tight("determinant", lambda x: jnp.linalg.det(x), (3, 3)),
    sound("log-determinant", lambda x: jnp.linalg.slogdet(_spd(x))[1], (2, 2)),
    tight(
        "lower triangular solve", lambda x: jsl.solve_triangular(np.tril(_FULL[:4, :4]), x, lower=True), (4,)
    ),
    tight("upper triangular solve", lambda x: jsl.solve_triangular(np.triu(_FULL[:3, :3]), x), (3, 2)),
    tight(
        "transposed triangular solve",
        lambda x: jsl.solve_triangular(np.tril(np.ones((3, 3)) + np.eye(3)), x, lower=True, trans=1),
        (3,),
    ),
    tight(
        "bidiagonal solve",
        lambda x: jsl.solve_triangular(np.eye(4) + np.diag(np.ones(3), -1), x, lower=True),
        (4,),
    ),
    tight("block triangular solve", lambda x: jsl.solve_triangular(np.triu(_BLOCKS), x), (4,)),
    sound(
        "triangular solve for the matrix",
        lambda x: jsl.solve_triangular(x + 3 * jnp.eye(3), jnp.ones(3)),
        (3, 3),
    ),
    sound(
        "right-side triangular solve",
        lambda x: lax.linalg.triangular_solve(jnp.triu(jnp.ones((3, 3))) + jnp.eye(3), x, left_side=False),
        (2, 3),
    ),
    sound("cholesky", lambda x: jnp.linalg.cholesky(_spd(x)), (3, 3)),
    sound("cholesky solve", lambda x: jsl.cho_solve((np.linalg.cholesky(_BANDED), True), x), (5,)),
    sound("qr", lambda x: jnp.linalg.qr(x + 3 * jnp.eye(3))[1], (3, 3)),
    sound("lu", lambda x: jsl.lu(x + 3 * jnp.eye(3))[2], (3, 3)),
    sound("singular values", lambda x: jnp.linalg.svd(x, compute_uv=False), (3, 2)),
    sound("singular vectors", lambda x: jnp.linalg.svd(x + 2 * jnp.eye(2), full_matrices=False)[0], (2, 2)),
    sound("symmetric eigenvalues", lambda x: jnp.linalg.eigvalsh(x + x.T), (3, 3)),
    sound("symmetric eigenvectors", lambda x: jnp.linalg.eigh(x + x.T)[1], (3, 3)),
    sound("batched eigenvalues", lambda x: jnp.linalg.eigvalsh(x + jnp.swapaxes(x, 1, 2)), (2, 2, 2)),
    sound("matrix exponential", lambda x: jsl.expm(0.3 * x), (2, 2)),
    sound("pseudo-inverse", lambda x: jnp.linalg.pinv(x), (3, 2)),
    sound("least squares", lambda x: jnp.linalg.lstsq(np.eye(3, 2) + 0.5, x)[0], (3,)),
    sound(
        "tridiagonal solve",
        lambda x: lax.linalg.tridiagonal_solve(
            jnp.array([0.0, 1.0, 1.0, 1.0]), jnp.full(4, 4.0), jnp.array([1.0, 1.0, 1.0, 0.0]), x[:, None]
        ),
        (4,),
    ),
    sound(
        "tridiagonal solve for the matrix",
        lambda x: lax.linalg.tridiagonal_solve(
            jnp.array([0.0, 1.0, 1.0]), 4.0 + x, jnp.array([1.0, 1.0, 0.0]), jnp.ones((3, 1))
        ),
        (3,),
    ),
    sound("conjugate gradients", _conjugate_gradient, (4,)),
    sound("fixed-size root", lambda x: jnp.linalg.norm(_spd(x), "nuc"), (2, 2)),
    sound("rank-one inverse", lambda x: jnp.linalg.inv(jnp.eye(3) + jnp.outer(x, x)) @ x, (3,)),
    sound("toeplitz solve", lambda x: jnp.linalg.solve(jsl.toeplitz(jnp.array([3.0, 1.0, 0.5])), x), (3,)),
    sound(
        "block diagonal solve",
        lambda x: jnp.linalg.solve(jsl.block_diag(jnp.eye(2) * 2, jnp.ones((1, 1))), x),
        (3,),
    ),
    sound("polar factor", lambda x: jsl.polar(x + 3 * jnp.eye(2))[0], (2, 2), mode="forward"),
    sound("square root of a matrix", lambda x: jnp.real(jnp.linalg.eigh(_spd(x))[0] ** 0.5), (2, 2)),
]

CASES = [*REDUCTIONS, *PRODUCTS, *ALGEBRA]
