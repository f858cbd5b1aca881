"""Wrong patterns do not pass, and wrong arguments are named."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError, CapabilityError
from chainrule.derive import sparse
from chainrule.derive.sparse import LocalPatternError, Pattern, PatternError
from tests.derive.sparse.prepared import functions


def without(pattern: Pattern, entry: int) -> Pattern:
    keep = np.arange(pattern.nnz) != entry
    return Pattern(pattern.rows[keep], pattern.cols[keep], pattern.shape)


@pytest.mark.parametrize("method", ["column", "row"])
@pytest.mark.parametrize("entries", [8, pytest.param(50, marks=pytest.mark.slow)])
def test_a_pattern_with_any_entry_deleted_fails_the_certificate(method: str, entries: int) -> None:
    x = np.linspace(0.4, 1.6, 32)
    f = jax.jit(functions.brusselator(4))
    pattern = functions.pattern_of(functions.dense_jacobian(f, x))
    for entry in np.random.default_rng(0).permutation(pattern.nnz)[:entries]:
        with pytest.raises(PatternError, match=r"misses entries in 1 (rows|columns)"):
            sparse.jacobian(f, x, method, pattern=without(pattern, entry), order="natural")


def test_the_error_lists_the_rows() -> None:
    pattern = Pattern(np.arange(2, 20), np.arange(2, 20), (20, 20))
    with pytest.raises(PatternError, match="misses entries in 2 rows: 0, 1"):
        sparse.jacobian(jnp.sin, np.ones(20), pattern=pattern)
    none = Pattern([], [], (20, 20))
    with pytest.raises(PatternError, match=r"20 rows: 0, 1, 2, 3, 4, 5, 6, 7, \.\.\."):
        sparse.jacobian(jnp.sin, np.ones(20), pattern=none)


def complex_pair(z: jax.Array) -> jax.Array:
    """Real on the diagonal, imaginary beside it."""
    return z + 1j * jnp.roll(z, 1) ** 2


def test_a_missing_imaginary_entry_fails_the_certificate() -> None:
    for method in ("column", "row"):
        with pytest.raises(PatternError, match=r"misses entries in 4 (rows|columns)"):
            sparse.jacobian(complex_pair, np.ones(4), method, pattern=Pattern(range(4), range(4), (4, 4)))


@pytest.mark.parametrize("method", ["column", "row", "bidirectional"])
def test_complex_outputs_keep_their_imaginary_parts_in_every_method(method: str) -> None:
    x = np.linspace(1.0, 2.0, 4)
    J = sparse.jacobian(complex_pair, x, method, format="dense")
    np.testing.assert_allclose(J(x), np.eye(4) + 2j * np.roll(np.diag(x), 1, axis=0))


def test_a_pattern_that_is_too_large_is_fine() -> None:
    full = Pattern(*np.nonzero(np.ones((3, 3))), (3, 3))
    J = sparse.jacobian(jnp.sin, np.ones(3), format="dense", pattern=full)
    np.testing.assert_allclose(J(np.ones(3)), np.diag(np.cos(np.ones(3))), atol=1e-15)


def test_a_missing_entry_of_a_hessian_is_found_in_every_method() -> None:
    x = np.linspace(0.5, 1.5, 8)
    full = functions.pattern_of(functions.dense_hessian(functions.hub, x))
    keep = ~(((full.rows == 3) & (full.cols == 4)) | ((full.rows == 4) & (full.cols == 3)))
    fewer = Pattern(full.rows[keep], full.cols[keep], full.shape)
    for method in ("star", "acyclic", "column", "auto"):
        with pytest.raises(PatternError, match="rows"):
            sparse.hessian(functions.hub, x, method, pattern=fewer)


def test_an_uncertified_derivative_says_so_and_can_be_verified_later() -> None:
    J = sparse.jacobian(jnp.sin, np.ones(3), pattern=Pattern([0, 1], [0, 1], (3, 3)), certify=False)
    assert "not certified" in str(J.report)
    with pytest.raises(PatternError, match="1 rows: 2"):
        J.verify(np.ones(3))


def test_points_around_stay_where_the_function_is_defined() -> None:
    J = sparse.jacobian(lambda z: jnp.log(z) * z, np.array([1e-9, 1.0, 2.0]))
    assert J.report.notes == ()


def test_rows_that_are_not_finite_are_reported_as_unchecked() -> None:
    J = sparse.jacobian(lambda z: jnp.sqrt(z), np.array([0.0, -1.0, 2.0]), format="values")
    assert "not finite" in str(J.report)


def chosen(z: jax.Array) -> jax.Array:
    return jnp.where(z[0] > 0, z[0] * z[1], 0.0)[None]


@pytest.mark.parametrize("format", ["dense", "values"])
def test_a_local_pattern_raises_where_a_branch_flips(format: str) -> None:
    J = sparse.jacobian(chosen, np.array([-1.0, 2.0]), format=format, local=True)
    assert J.pattern.nnz == 0
    J(np.array([-3.0, 1.0]))
    for call in (J, J.values, J.value_and_jacobian):
        with pytest.raises(LocalPatternError, match="does not hold here"):
            call(np.array([3.0, 1.0]))


@pytest.mark.parametrize("format", ["dense", "values"])
def test_a_local_pattern_fails_loudly_inside_jit(format: str) -> None:
    J = sparse.jacobian(chosen, np.array([-1.0, 2.0]), format=format, local=True)

    def run() -> None:
        jax.block_until_ready(jax.jit(J)(jnp.array([3.0, 1.0])))
        jax.effects_barrier()

    with pytest.raises(Exception, match="does not hold here"):
        run()


def test_what_analysis_found_can_be_handed_on_with_its_guard() -> None:
    found = sparse.analyse(chosen, np.array([1.0, 2.0]), local=True)
    J = sparse.jacobian(chosen, np.array([1.0, 2.0]), format="dense", pattern=found)
    np.testing.assert_allclose(J(np.array([3.0, 4.0])), [[4.0, 3.0]])
    with pytest.raises(LocalPatternError):
        J(np.array([-3.0, 4.0]))
    with pytest.raises(ArgumentError, match="nothing tells where the given pattern holds"):
        sparse.jacobian(chosen, np.ones(2), pattern=found.pattern, local=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"pattern": Pattern([0], [0], (2, 3))},
            r"pattern has shape \(2, 3\), the jacobian has shape \(3, 3\)",
        ),
        ({"pattern": [[1]]}, "SciPy sparse matrix"),
        ({"method": "star"}, '"column", "row", "bidirectional" or "bidirectional-acyclic"'),
        ({"method": "colunm"}, "did you mean 'column'"),
        ({"format": "coo"}, "format must be"),
        ({"order": "worst", "method": "column"}, "order must be"),
        ({"x": np.arange(3)}, "derivatives need floats"),
        ({"x": {}}, "holds no numbers"),
        ({"f": lambda z: ()}, "returns nothing"),
        ({"f": lambda z: z > 0}, "type bool"),
        ({"f": 3}, "not a function"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, object], message: str) -> None:
    given: dict[str, object] = {"f": jnp.sin, "x": np.ones(3), **arguments}
    with pytest.raises(ArgumentError, match=message):
        sparse.jacobian(**given)  # type: ignore[arg-type]


def test_a_hessian_needs_one_number_and_a_symmetric_pattern() -> None:
    with pytest.raises(ArgumentError, match="not one number"):
        sparse.hessian(jnp.sin, np.ones(3))
    with pytest.raises(ArgumentError, match=r"holds \(0, 1\) but not \(1, 0\)"):
        sparse.hessian(functions.chain, np.ones(3), "star", pattern=Pattern([0], [1], (3, 3)))


def doubled(z: jax.Array) -> jax.Array:
    return jnp.where(z > 0, 2.0 * z, 0.0)


@pytest.mark.parametrize("outside", [jax.jit, jax.vmap, lambda f: jax.grad(lambda z: f(z).sum())])
@pytest.mark.parametrize("local", [False, True])
def test_preparing_inside_a_transformation_says_what_to_do(outside: Any, local: bool) -> None:
    def inside(z: jax.Array) -> jax.Array:
        return sparse.jacobian(doubled, z, format="values", local=local)(z)

    with pytest.raises(
        CapabilityError, match=r"sparse\.jacobian: x is traced .*no numbers to check the pattern with"
    ):
        outside(inside)(np.ones((2, 3)) if outside is jax.vmap else np.ones(3))


def test_the_remedies_for_preparing_inside_a_transformation_work() -> None:
    x = jnp.array([1.0, -1.0, 2.0])
    J = sparse.jacobian(doubled, np.ones(3), format="values")
    unchecked = jax.jit(lambda z: sparse.jacobian(doubled, z, format="values", certify=False)(z))
    for run in (jax.jit(lambda z: J(z)), unchecked):
        np.testing.assert_allclose(run(x), [2.0, 0.0, 2.0])
    with pytest.raises(CapabilityError, match=r"f closes over values that are traced .*\n.*args="):
        jax.jit(lambda p: sparse.jacobian(lambda z: p * z, x, format="values")(x))(2.0)
    with_args = sparse.jacobian(lambda z, p: p * z, x, format="values", args=(2.0,))
    np.testing.assert_allclose(jax.jit(lambda p: with_args(x, p))(3.0), [3.0, 3.0, 3.0])


def test_local_patterns_and_verification_need_numbers() -> None:
    J = sparse.jacobian(doubled, np.ones(3))
    for name, call in (
        (r"detect\(local=True\)", lambda z: sparse.detect(doubled, z, local=True)),
        ("verify", J.verify),
    ):
        with pytest.raises(CapabilityError, match=f"{name}: it runs on numbers, but x is being traced"):
            jax.jit(call)(np.ones(3))


def test_a_function_that_branches_in_python_is_refused_by_name() -> None:
    for prepare, f in (
        (sparse.jacobian, lambda z: z**2 if z[0] > 0 else -z),
        (sparse.hessian, lambda z: z.sum() if z[0] > 0 else -z.sum()),
    ):
        with pytest.raises(ArgumentError, match=r"sparse\.\w+: f branches in Python on a value"):
            prepare(f, np.ones(3))


def test_a_point_of_another_kind_is_refused() -> None:
    J = sparse.jacobian(jnp.sin, np.ones(3))
    for other, message in (
        (np.ones(4), r"shape \(4,\)"),
        (np.ones(3, dtype=np.float32), "float32"),
        (np.ones(3, dtype=int), "int"),
        ([np.ones(3)], "structure"),
    ):
        with pytest.raises(ArgumentError, match=message):
            J(other)


def test_a_pattern_that_holds_for_some_values_of_args_only_is_refused() -> None:
    """The second column is used unless the parameter is one, which it is where the pattern was made."""

    def f(x: Any, p: Any) -> Any:
        return jnp.stack([x[0] * p, jnp.where(p == 1.0, 0.0, x[1]) + x[0]])

    x, narrow = np.array([1.0, 2.0]), Pattern([0, 1], [0, 0], (2, 2))
    with pytest.raises(PatternError, match="misses entries in 1 rows: 1"):
        sparse.jacobian(f, x, args=(1.0,), pattern=narrow)


def test_zeros_of_args_are_kept_and_the_report_says_so() -> None:
    """A matrix among the arguments may be sparse, and a pattern given for it is the user's word."""
    matrix = np.diag([1.0, 2.0, 3.0])
    J = sparse.jacobian(
        lambda x, A: A @ x, np.ones(3), args=(matrix,), pattern=Pattern([0, 1, 2], [0, 1, 2], (3, 3))
    )
    assert J.report.nnz == 3
    assert "other values of args; zeros and whole numbers in args were those given" in J.report.certificate
    found = sparse.jacobian(lambda x, A: A @ x, np.ones(3), args=(matrix,)).report
    assert found.certificate.endswith("points and other values of args")
    still = sparse.jacobian(lambda x, n: n * x, np.ones(3), args=(jnp.asarray(2),)).report
    assert still.certificate.endswith("at 3 points")
