"""What happens where detection cannot look: it says so and stays on the safe side."""

import tracemalloc
import warnings
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad

from chainrule.core.errors import ArgumentError
from chainrule.derive import MemoryBudgetError
from chainrule.derive.sparse import detection
from chainrule.derive.sparse.detection import DenseDetectionWarning, analyse, detect, register
from chainrule.derive.sparse.detection.analysis import CUSTOM
from chainrule.derive.sparse.patterns import Pattern


def _new_primitive(name: str) -> Primitive:
    """The elementwise square, as an operation nobody has heard of."""
    primitive = Primitive(name)
    primitive.def_abstract_eval(lambda x: x)
    return primitive


@pytest.fixture
def unknown() -> Iterator[Primitive]:
    yield _new_primitive("unheard_of")
    CUSTOM.pop("unheard_of", None)


def test_an_unknown_operation_is_dense_and_named_in_a_warning(unknown: Primitive) -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.concatenate([unknown.bind(x[:2]), x[2:] ** 2])

    with pytest.warns(DenseDetectionWarning, match=r"'unheard_of'.*sparse\.register\('unheard_of', rule\)"):
        found = analyse(f, jnp.ones(4))
    assert found.dense == ("unheard_of",)
    assert (
        found.pattern.to_scipy().toarray() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    ).all()


def test_an_unknown_linear_operation_is_dense_along_what_it_touches(unknown: Primitive) -> None:
    ad.deflinear2(unknown, lambda ct, _: [ct])
    with pytest.warns(DenseDetectionWarning, match="unheard_of"):
        assert detect(lambda x: unknown.bind(jnp.sin(x[:2])), jnp.ones(3)).nnz == 4


def test_a_registered_rule_replaces_the_dense_answer(unknown: Primitive) -> None:
    def rule(operands: object, params: object) -> list[list[Pattern]]:
        size = operands[0].size  # type: ignore[index]
        return [[Pattern(range(size), range(size), (size, size))]]

    register(unknown, rule)
    found = analyse(lambda x: unknown.bind(x[::-1]), jnp.ones(3))
    assert found.dense == ()
    assert (found.pattern.to_scipy().toarray() == np.eye(3)[::-1]).all()


def test_a_registered_pattern_of_the_wrong_shape_is_refused(unknown: Primitive) -> None:
    register("unheard_of", lambda operands, params: [[Pattern([], [], (2, 2))]])
    with pytest.raises(ArgumentError, match=r"\(2, 2\).*\(3, 3\)"):
        detect(unknown.bind, jnp.ones(3))


@pytest.mark.parametrize(("primitive", "rule"), [(3, lambda o, p: []), ("name", "no function")])
def test_registering_something_else_is_refused(primitive: object, rule: object) -> None:
    with pytest.raises(ArgumentError, match="register"):
        register(primitive, rule)  # type: ignore[arg-type]


def test_a_callback_in_a_custom_reverse_rule_is_dense() -> None:
    @jax.custom_vjp
    def f(x: jax.Array) -> jax.Array:
        return x**2

    def back(x: jax.Array, g: jax.Array) -> tuple[jax.Array]:
        return (jax.pure_callback(lambda a, b: 2 * a * b, jax.ShapeDtypeStruct(x.shape, x.dtype), x, g),)

    f.defvjp(lambda x: (x**2, x), back)
    with pytest.warns(DenseDetectionWarning, match="pure_callback"):
        assert detect(f, jnp.ones(3)).nnz == 9


def test_a_callback_on_numbers_alone_does_not_disturb() -> None:
    def f(x: jax.Array) -> jax.Array:
        y = jax.lax.stop_gradient(x)
        return x * jax.pure_callback(np.cos, jax.ShapeDtypeStruct(y.shape, y.dtype), y)

    assert detect(f, jnp.ones(3)).nnz == 3


def test_array_references_are_dense() -> None:
    def f(x: jax.Array) -> jax.Array:
        reference = jax.new_ref(jnp.zeros(2))
        reference[0] = x[0]
        return reference[...]

    with pytest.warns(DenseDetectionWarning, match="reference"):
        assert detect(f, jnp.ones(2)).nnz == 4


def test_a_rule_that_breaks_is_reported_and_the_answer_is_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a parameter with a new name")

    monkeypatch.setitem(detection.analysis.RULES, "sin", broken)
    with pytest.warns(
        DenseDetectionWarning, match="'sin' could not be looked into.*a parameter with a new name"
    ):
        assert detect(jnp.sin, jnp.ones(2)).nnz == 4


def test_the_warning_points_at_the_caller(unknown: Primitive) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        detect(unknown.bind, jnp.ones(2))
    assert [one.filename for one in caught] == [__file__]


def _coupled(x: jax.Array) -> jax.Array:
    """Dense on the way, diagonal at the end."""
    return (jnp.outer(x, x) @ np.eye(len(x)) * np.eye(len(x))).sum(0) + jnp.cumsum(x)[:1] * 0.0


def test_too_little_memory_is_answered_by_following_fewer_inputs_at_once() -> None:
    x = jnp.ones(40)
    generous = detect(_coupled, x)
    assert detect(_coupled, x, memory=60_000) == generous


def test_far_too_little_memory_gives_every_entry_and_says_so() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.cumsum(x)) * jnp.ones(1)

    with pytest.warns(DenseDetectionWarning, match="bytes"):
        assert detect(f, jnp.ones(200), memory=9_000).nnz == 200


def test_a_pattern_larger_than_the_memory_is_refused_with_the_number_of_bytes() -> None:
    with pytest.raises(MemoryBudgetError, match="160 000 bytes"):
        detect(jnp.cumsum, jnp.ones(100), memory=1_000)


def test_the_entries_found_so_far_tell_early_that_a_pattern_is_too_large() -> None:
    with pytest.raises(
        MemoryBudgetError, match=r"400,000 entries in the first 100 of 400 columns.* 25 600 000 bytes"
    ):
        detect(lambda x: jax.nn.softmax(x[:, None] * np.ones((1, 10)), axis=0), jnp.ones(400), memory="5MB")


def test_memory_is_counted_before_it_is_used() -> None:
    matrix = np.ones((1000, 1000))
    for f in (lambda x: matrix @ x, jnp.cumsum, lambda x: lax.linalg.triangular_solve(matrix, x[None])):
        tracemalloc.start()
        with pytest.raises(MemoryBudgetError, match="16 000 000 bytes"):
            detect(f, jnp.ones(1000), memory="1MB")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 12e6


CALLS: list[int] = []


def _reported(result: np.ndarray) -> np.ndarray:
    CALLS.append(1)
    return result


def _called_back(x: jax.Array) -> jax.Array:
    shape = jax.ShapeDtypeStruct((3,), np.int64)
    return x[jax.pure_callback(lambda i: _reported(np.asarray(i)[::-1]), shape, jnp.arange(3))] ** 2


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize(
    "f",
    [
        _called_back,
        jax.jit(_called_back),
        lambda x: lax.scan(lambda c, _: (c, _called_back(c)), x, None, length=2)[1],
        lambda x: eqx.error_if(x**2, jnp.arange(3).sum() > 0, "an error of the user's own"),
        lambda x: eqx.error_if(x**2, x[0] > 0, "an error of the user's own"),
    ],
    ids=["callback", "in a call", "in a loop", "error that is due", "error that may come"],
)
def test_callbacks_are_not_called_and_nothing_is_printed(
    f: object, local: bool, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    CALLS.clear()
    assert analyse(f, jnp.ones(3), local=local).pattern.nnz in (3, 9, 18)
    assert not CALLS
    assert capfd.readouterr() == ("", "")
    assert not [one for one in recwarn if one.category is DenseDetectionWarning]
