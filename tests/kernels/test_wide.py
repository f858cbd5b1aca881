"""Double precision in arrays of single precision, and functions in it inside compiled code."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from chainrule.kernels.wide import Wide, WideTriangle, doubled

RNG = np.random.default_rng(0)
LOWER = np.tril(RNG.normal(size=(6, 6))) + 4 * np.eye(6)
B = RNG.normal(size=(6, 2))


def test_two_arrays_of_single_precision_hold_one_of_double() -> None:
    with jax.enable_x64(True):
        for values, found in (
            (B, Wide.of(B, np.float32).double()),
            (LOWER, WideTriangle.of(LOWER, np.float32).double()),
        ):
            np.testing.assert_allclose(found, values, rtol=2e-14)
        np.testing.assert_array_equal(WideTriangle.of(LOWER, np.float64).double(), LOWER)


def test_solutions_and_their_gradients_are_those_of_double_precision() -> None:
    def solved(lower: WideTriangle, b: Wide) -> jax.Array:
        return jnp.square(jax.scipy.linalg.solve_triangular(lower.double(), b.double(), lower=True)).sum()

    with jax.enable_x64(False):
        arguments = WideTriangle.of(LOWER, np.float32), Wide.of(B, np.float32)
        assert arguments[1].high.dtype == jnp.float32

        @eqx.filter_jit
        def judged(arguments: tuple) -> tuple:
            return eqx.filter_value_and_grad(lambda a: 1e6 * doubled(solved, *a, dtype=jnp.float32))(
                arguments
            )

        value, slope = judged(arguments)
        assert value.dtype == slope[1].high.dtype == jnp.float32
    x = np.linalg.solve(LOWER, B)
    np.testing.assert_allclose(value, 1e6 * np.square(x).sum(), rtol=1e-7)
    back = np.linalg.solve(LOWER.T, 2e6 * x)
    np.testing.assert_allclose(slope[1].high, back, rtol=1e-6)
    np.testing.assert_allclose(np.tril(slope[0].packed), np.tril(-back @ x.T), rtol=1e-5)


def test_derivatives_of_compiled_code_take_flags_of_a_model_along() -> None:
    def switched(on: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.where(on, jnp.square(x), 0.0).sum()

    compiled = jax.jit(lambda on, x: doubled(switched, on, x, dtype=jnp.float32))
    with jax.enable_x64(False):
        x = jnp.arange(3.0, dtype=jnp.float32)
        for on in (True, False):
            slope = jax.grad(lambda x, on=on: compiled(jnp.array(on), x))
            np.testing.assert_array_equal(slope(x), 2 * on * x)
            np.testing.assert_array_equal(jax.jit(slope)(x), 2 * on * x)
