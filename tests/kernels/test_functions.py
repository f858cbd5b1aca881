"""Every kernel function: symmetric, positive semi-definite, in tiles or whole, differentiable at equal points."""

import itertools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process import kernels as peers

from chainrule.core.errors import ArgumentError
from chainrule.kernels import (
    RBF,
    ArcCosine,
    Brownian,
    Composed,
    Constant,
    Cosine,
    Kernel,
    Linear,
    Matern,
    Normalized,
    OnColumns,
    OrnsteinUhlenbeck,
    Periodic,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    White,
    check,
)
from chainrule.kernels.kernel import _gram
from chainrule.kernels.regression import KernelRidge

KERNELS: dict[str, Callable[[], Kernel]] = {
    "rbf": lambda: RBF(0.8),
    "rbf of six scales": lambda: RBF([0.5, 1.0, 2.0, 1.0, 1.5, 0.7]),
    "ornstein-uhlenbeck": lambda: OrnsteinUhlenbeck(0.7),
    "matern 1/2": lambda: Matern(0.5, 0.7),
    "matern 3/2": lambda: Matern(1.5, 1.3),
    "matern 5/2": lambda: Matern(2.5, 1.3),
    "rational quadratic": lambda: RationalQuadratic(1.2, alpha=0.7),
    "linear": lambda: Linear(0.5),
    "polynomial": lambda: Polynomial(3, 0.2),
    "arc-cosine 0": lambda: ArcCosine(0),
    "arc-cosine 1": lambda: ArcCosine(1),
    "arc-cosine 2": lambda: ArcCosine(2),
    "periodic": lambda: Periodic(0.9, period=1.7),
    "cosine": lambda: Cosine(2.3),
    "constant": lambda: Constant(1.4),
    "white": lambda: White(0.3),
    "on columns": lambda: OnColumns(RBF(0.6), [0, 3]),
    "composed": lambda: Composed(RBF(0.6), lambda x: jnp.tanh(x[:, :2])),
    "normalised": lambda: Normalized(Polynomial(2, 1.0)),
    "brownian": lambda: OnColumns(Composed(Brownian(), jnp.abs), [1]),
    "sum and product": lambda: 2.0 * RBF(0.5) * Linear() + Matern(1.5, 2.0) + 0.1,
}
SMOOTH = set(KERNELS) - {"white", "brownian"}


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    """Points in six dimensions, two of them equal and one the origin."""
    points = np.random.default_rng(0).normal(size=(11, 6))
    points[7] = points[2]
    points[9] = 0.0
    return points


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_symmetric_and_positive_semi_definite(name: str, x: np.ndarray) -> None:
    found = check(KERNELS[name](), x)
    assert found, found


@pytest.mark.parametrize("name", KERNELS)
def test_matrix_diagonal_and_pair_agree_compiled_or_not_in_tiles_or_whole(name: str, x: np.ndarray) -> None:
    kernel = KERNELS[name]()
    y = x[::2] + 0.1
    whole = np.asarray(kernel.gram(x, y))
    assert whole.shape == (11, 6)
    np.testing.assert_allclose(np.asarray(kernel.gram(x, y, block=4)), whole, rtol=1e-12, atol=1e-13)
    with jax.disable_jit():
        np.testing.assert_allclose(
            np.asarray(kernel.tile(jnp.asarray(x), jnp.asarray(y))), whole, rtol=1e-10, atol=1e-12
        )
    np.testing.assert_allclose(float(kernel(x[1], y[2])), whole[1, 2], rtol=1e-10, atol=1e-12)
    own = np.diagonal(np.asarray(kernel.gram(x)))
    np.testing.assert_allclose(np.asarray(kernel.diagonal(jnp.asarray(x))), own, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_derivatives_are_finite_at_equal_points_and_right_elsewhere(name: str, x: np.ndarray) -> None:
    kernel = KERNELS[name]()
    gradient = jax.jit(jax.grad(lambda a, b: kernel.tile(a[None], b[None])[0, 0]))
    for point in (x[2], x[9]):
        assert np.isfinite(np.asarray(gradient(jnp.asarray(point), jnp.asarray(point)))).all()
    a, b = x[0], x[1]
    found, step = np.asarray(gradient(jnp.asarray(a), jnp.asarray(b))), 1e-6
    for i in range(len(a)):
        moved = np.zeros_like(a)
        moved[i] = step
        exact = (float(kernel(a + moved, b)) - float(kernel(a - moved, b))) / (2 * step)
        np.testing.assert_allclose(found[i], exact, rtol=1e-5, atol=1e-8)


def test_sums_and_products_of_any_two_kernels_are_kernels(x: np.ndarray) -> None:
    few = list(itertools.islice(KERNELS, 0, None, 4))
    for first, second in itertools.combinations(few, 2):
        a, b = KERNELS[first](), KERNELS[second]()
        one, other = np.asarray(a.gram(x)), np.asarray(b.gram(x))
        np.testing.assert_allclose(np.asarray((a + b).gram(x)), one + other, rtol=1e-12)
        np.testing.assert_allclose(np.asarray((a * b).gram(x)), one * other, rtol=1e-12)
        assert check(a + b, x)
        assert check(a * b, x)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (RBF(0.7), peers.RBF(0.7)),
        (RBF([0.7, 1.0, 2.0, 0.5, 3.0, 1.0]), peers.RBF([0.7, 1.0, 2.0, 0.5, 3.0, 1.0])),
        (Matern(0.5, 0.7), peers.Matern(0.7, nu=0.5)),
        (Matern(1.5, 0.7), peers.Matern(0.7, nu=1.5)),
        (Matern(2.5, 0.7), peers.Matern(0.7, nu=2.5)),
        (RationalQuadratic(0.7, 1.7), peers.RationalQuadratic(0.7, 1.7)),
        (Linear(0.25), peers.DotProduct(0.5)),
        (2.0 * RBF(0.7) + 0.5, peers.ConstantKernel(2.0) * peers.RBF(0.7) + peers.ConstantKernel(0.5)),
    ],
    ids=repr,
)
def test_kernels_are_those_of_scikit_learn(ours: Kernel, theirs: peers.Kernel, x: np.ndarray) -> None:
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), ours)
        np.testing.assert_allclose(np.asarray(wide.gram(x)), theirs(x), rtol=1e-6, atol=1e-8)


def test_the_periodic_kernel_is_that_of_scikit_learn_in_one_dimension() -> None:
    x = np.linspace(0, 3, 7)[:, None]
    theirs = peers.ExpSineSquared(length_scale=0.9, periodicity=1.7)(x)
    np.testing.assert_allclose(np.asarray(Periodic(0.9, 1.7).gram(x)), theirs, rtol=1e-12)


def test_the_arc_cosine_kernel_is_twice_the_mean_product_of_a_random_layer() -> None:
    generator = np.random.default_rng(1)
    a, b = np.array([1.0, 0.5]), np.array([-0.2, 0.9])
    w = generator.normal(size=(400_000, 2))
    for order in (0, 1, 2):
        one, other = (np.where(w @ v > 0, (w @ v) ** order if order else 1.0, 0.0) for v in (a, b))
        drawn = 2 * one * other
        error = drawn.std() / np.sqrt(len(w))
        assert abs(float(ArcCosine(order)(a, b)) - drawn.mean()) < 5 * error


def test_gradients_at_equal_points_are_the_true_ones_for_smooth_kernels() -> None:
    point = jnp.array([0.3, -0.2, 0.8, 0.1, 0.5])
    rectified = jax.grad(lambda a: ArcCosine(1)(a, point))(point)
    np.testing.assert_allclose(np.asarray(rectified), np.asarray(point), rtol=1e-9)  # half the slope of |x|²
    second = jax.hessian(lambda a: RBF(0.5)(a, point))(point)
    np.testing.assert_allclose(np.asarray(second), -4 * np.eye(5), atol=1e-9)


def test_equal_points_far_from_the_origin_have_distance_zero_in_either_precision() -> None:
    far = np.random.default_rng(2).normal(size=(5, 8)) + 1000
    for wide in (False, True):
        with jax.enable_x64(wide):
            dtype = jnp.float64 if wide else jnp.float32
            found = np.asarray(OrnsteinUhlenbeck(1.0).gram(jnp.asarray(far, dtype)))
            np.testing.assert_array_equal(np.diagonal(found), 1.0)


def test_parameters_are_found_by_gradients_like_those_of_a_network() -> None:
    x = np.linspace(0, 1, 5)[:, None]
    target = RBF(0.37).gram(x)

    @eqx.filter_jit
    def loss(kernel: RBF) -> jax.Array:
        return jnp.square(kernel.gram(x) - target).sum()

    kernel = RBF(1.0)
    for _ in range(300):
        slope = eqx.filter_grad(loss)(kernel)
        kernel = eqx.tree_at(lambda k: k.log_scale, kernel, kernel.log_scale - 0.05 * slope.log_scale)
    np.testing.assert_allclose(float(kernel.scale), 0.37, rtol=1e-3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RBF(0.0), "scale is 0; scale must be positive"),
        (lambda: RBF(-1.0), "must be positive"),
        (lambda: RBF(1.0, gamma=2.0), "give one of scale and gamma"),
        (lambda: Matern(2.0), "nu must be 0.5, 1.5 or 2.5"),
        (lambda: Polynomial(0), "degree must be a whole number of at least 1"),
        (lambda: Polynomial(2, -1.0), "offset must be at least 0"),
        (lambda: ArcCosine(3), "order must be 0, 1 or 2"),
        (lambda: RBF([1.0, 2.0]).gram(np.zeros((3, 5))), "2 scales for points of 5 features"),
        (lambda: OnColumns(RBF(), [4]).gram(np.zeros((3, 2))), "column 4 of points of 2 features"),
        (lambda: RBF().gram(np.zeros((3, 2)), np.zeros((3, 4))), "x has 2 features and y has 4"),
        (lambda: RBF().gram(np.zeros((3, 2, 2))), "reshape"),
        (lambda: RBF().gram([[np.nan]]), r"x\[0, 0\] is nan"),
        (lambda: Brownian().gram([-1.0, 2.0]), "at least 0"),
        (lambda: (2.0 * OnColumns(Brownian(), [0]) + Linear()).gram([[-1.0, 2.0]]), "at least 0"),
        (
            lambda: Precomputed(np.eye(2)).gram([0, 2]),
            r"item\[1, 0\] is 2; item must be a whole number from 0 to 1",
        ),
        (lambda: Precomputed(np.zeros((2, 3))), "square matrix"),
        (
            lambda: Precomputed([[1.0, 0.5], [0.2, 1.0]]),
            r"matrix\[0, 1\] is 0.5 and matrix\[1, 0\] is 0.2",
        ),
        (lambda: Precomputed([[1.0, np.nan], [0.2, 1.0]]), r"matrix\[0, 1\] is nan; entries must be finite"),
        (lambda: Precomputed([[1.0, 0.5], [np.inf, 1.0]]), r"matrix\[1, 0\] is inf; entries must be finite"),
        (lambda: OnColumns(RBF(), []), r"columns=\[\]\): the numbers of one column or more are needed"),
        (lambda: RBF().gram(["ACGT"]), "points are rows of numbers"),
    ],
)
def test_what_cannot_be_a_kernel_is_refused_in_words(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        make()


def test_beside_the_matrix_the_compiled_program_holds_a_few_blocks() -> None:
    x = jnp.asarray(np.random.default_rng(3).normal(size=(2048, 8)))
    for kernel in (RBF(2.0), Matern(2.5, 2.0), Periodic(2.0), Polynomial(3)):
        compiled = _gram.lower(kernel, x, x, 64).compile()
        memory = compiled.compiled.memory_analysis()
        assert memory.output_size_in_bytes >= 2048 * 2048 * 8
        assert memory.temp_size_in_bytes <= 6 * 64 * 2048 * 8


def test_derivatives_pass_through_tiles() -> None:
    x = np.random.default_rng(4).normal(size=(7, 2))
    whole, tiled = (
        jax.jit(jax.grad(lambda s, block=block: jnp.square(RBF(s).gram(x, block=block)).sum()))(0.7)
        for block in (7, 2)
    )
    np.testing.assert_allclose(float(tiled), float(whole), rtol=1e-12)


def test_a_matrix_of_double_precision_is_not_rounded_where_single_is_the_default() -> None:
    matrix = np.array([[1.0, 1.0 - 1e-9], [1.0 - 1e-9, 1.0]])
    with jax.enable_x64(False):
        fitted = KernelRidge(Precomputed(matrix), 0.0).fit([[0], [1]], [1.0, -1.0])
    np.testing.assert_allclose(fitted.coefficients, [1e9, -1e9], rtol=1e-6)  # type: ignore[union-attr]
