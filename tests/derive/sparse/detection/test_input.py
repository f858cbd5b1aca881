"""What goes in, what comes out, and what is refused."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.derive import sparse
from chainrule.derive.sparse.detection import analyse, detect
from chainrule.derive.sparse.patterns import Pattern


def test_detection_is_part_of_the_public_names() -> None:
    assert sparse.detect is detect
    assert sparse.analyse is analyse


def test_rows_and_columns_follow_the_flat_order_of_trees() -> None:
    x = {"b": jnp.ones(2), "a": jnp.ones(())}
    found = detect(lambda t: [t["b"] * 2, t["a"]], x)
    assert found == Pattern([0, 1, 2], [1, 2, 0], (3, 3))


@pytest.mark.parametrize("of", ["jacobian", "hessian"])
def test_numbers_of_the_point_do_not_matter(of: str) -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(x > 0, x**2, x**3) * x[::-1])

    assert detect(f, jnp.zeros(4), of=of) == detect(f, jnp.arange(4.0) - 2, of=of)


def test_plain_numbers_and_numpy_arrays_are_accepted() -> None:
    assert detect(lambda x: x * 2, 3.0).shape == (1, 1)
    assert detect(lambda x: x * 2, np.ones(3)).nnz == 3


@pytest.mark.parametrize("of", ["jacobian", "hessian"])
def test_single_precision_is_accepted(of: str) -> None:
    with jax.enable_x64(False):
        assert detect(lambda x: jnp.sum(x**2), jnp.ones(3), of=of).nnz == 3


def test_a_hessian_pattern_is_symmetric_even_if_a_rule_is_not() -> None:
    @jax.custom_jvp
    def lopsided(x: jax.Array) -> jax.Array:
        return jnp.sum(x)

    lopsided.defjvp(lambda primals, tangents: (lopsided(*primals), primals[0][0] * tangents[0][1]))
    found = detect(lopsided, jnp.ones(2), of="hessian")
    assert found == Pattern([0, 1], [1, 0], (2, 2))


@pytest.mark.parametrize(
    ("f", "x", "of", "says"),
    [
        (jnp.sin, jnp.arange(3), "jacobian", "derivatives need floats"),
        (jnp.sin, jnp.ones(3) + 1j, "jacobian", "complex"),
        (jnp.sin, "text", "jacobian", "not a number"),
        (jnp.sin, jnp.ones(3), "gradient", 'of must be "jacobian" or "hessian"'),
        (jnp.sin, jnp.ones(3), "hessian", "not one number"),
        (3, jnp.ones(3), "jacobian", "must be a function"),
        (lambda x: x if x[0] > 0 else -x, jnp.ones(3), "jacobian", "branches in Python"),
        (lambda x: x[x > 0], jnp.ones(3), "jacobian", "branches in Python"),
        (lambda x: x[0] * float(x[1]), jnp.ones(3), "hessian", "branches in Python"),
        (lambda x: jnp.argmax(x), jnp.ones(3), "hessian", "zero or undefined"),
    ],
)
def test_bad_input_is_refused_with_a_reason(f: object, x: object, of: str, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        detect(f, x, of=of)  # type: ignore[arg-type]


def test_errors_of_the_function_itself_come_through() -> None:
    def f(x: jax.Array) -> jax.Array:
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        detect(f, jnp.ones(2))


def test_functions_that_cannot_be_hashed_are_accepted() -> None:
    class Scale:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return False

        def __call__(self, x: jax.Array) -> jax.Array:
            return 2 * x

    assert detect(Scale(), jnp.ones(3)).nnz == 3


def test_detection_inside_a_compiled_function_uses_shapes_only() -> None:
    def f(scale: jax.Array) -> jax.Array:
        return scale * detect(lambda x: x * scale, np.ones(3)).nnz

    assert jax.jit(f)(jnp.ones(3)).tolist() == [3.0, 3.0, 3.0]


def test_time_is_reported_by_phase() -> None:
    assert set(analyse(jnp.sin, jnp.ones(2)).seconds) == {"trace", "walk"}


def test_axes_that_vmap_has_renumbered_are_understood() -> None:
    def rows(x: jax.Array) -> jax.Array:
        gradient = jax.grad(lambda z: jnp.sum(z**3))
        return jax.vmap(lambda v: jax.jvp(gradient, (x,), (v,))[1].sum())(np.eye(3))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert detect(rows, jnp.ones(3)).nnz == 3
        assert detect(lambda x: jax.vmap(jnp.sum)(x.reshape(2, 3)), jnp.ones(6)).nnz == 6
