"""What is known about numbers: bounds hold, exact ones are exact, masks hide no number."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from chainrule.derive.sparse.detection import detect, values
from chainrule.derive.sparse.detection.analysis import Analysis, Dependence, Notes, Tracked
from chainrule.derive.sparse.detection.values import TrackedValue

_I = np.arange(-3, 5)
_J = np.array([2, 3, 1, 5, 2, 7, 1, 3])
_F = np.array([0.0, 0.1, -0.2, 1.5, 3.0, -4.0, 0.3, 7.0])


def _value(f: object, *operands: object, unknown: tuple[int, ...] = ()) -> TrackedValue:
    program = jax.make_jaxpr(f)(*operands)  # type: ignore[arg-type]
    cells = [
        Tracked(values.source(v.aval) if n in unknown else values.constant(v.aval, np.asarray(o)), None)
        for n, (v, o) in enumerate(zip(program.jaxpr.invars, operands, strict=True))
    ]
    return Analysis(1, Dependence.SLOPES, Notes()).walk(program, cells)[0].value


_WHOLE = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b * 2,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: lax.div(a, b),
    "floor divide": lambda a, b: a // b,
    "remainder": lambda a, b: lax.rem(a, b),
    "modulo": lambda a, b: a % b,
    "power": lambda a, b: a**2 + b**3,
    "compare": lambda a, b: (a < b) & (a >= -b) | (a == b) ^ (a != 2),
    "select": lambda a, b: jnp.where(a > 0, a, b),
    "clip": lambda a, b: jnp.clip(a, 0, b),
    "absolute": lambda a, b: jnp.abs(a) - jnp.sign(b),
    "bits": lambda a, b: (a & b) | (a << 1) ^ ~b,
    "cumulative sum": lambda a, b: jnp.cumsum(a) + b,
    "sort": lambda a, b: jnp.sort(b)[::-1] + jnp.argsort(a),
    "reductions": lambda a, b: jnp.max(a) + jnp.min(b) + jnp.sum(a) + jnp.argmax(b) + a,
    "truth reductions": lambda a, b: jnp.all(a > 9) | jnp.any(b > 3) | (a > 2),
    "moves": lambda a, b: (
        jnp.concatenate([jnp.roll(a, 3)[:4], jnp.pad(b[1:4], (1, 0))]).reshape(2, 4).T.ravel()
    ),
    "gather": lambda a, b: a[b] + b[jnp.flip(jnp.arange(8))],
    "scatter": lambda a, b: a.at[b].set(b),
    "casts": lambda a, b: a.astype(jnp.int8).astype(float).astype(int) + (b > 2),
    "overflow": lambda a, b: (a.astype(jnp.int8) * jnp.int8(100)).astype(int) + b,
    "unsigned": lambda a, b: (a.astype(jnp.uint32) * jnp.uint32(2654435761)).astype(int) + b,
    "loop": lambda a, b: lax.fori_loop(0, 3, lambda i, c: c * 2 + a, b),
    "search": lambda a, b: jnp.searchsorted(a, b),
}


@pytest.mark.parametrize("name", _WHOLE)
def test_whole_numbers_that_depend_on_nothing_are_known_exactly(name: str) -> None:
    known = _value(_WHOLE[name], _I, _J).known()
    assert known is not None
    assert (known == np.asarray(_WHOLE[name](jnp.asarray(_I), jnp.asarray(_J)))).all()


_REAL = {
    "arithmetic": lambda x: (x + 0.1) * 3 - x / 7,
    "square": lambda x: x**2 - 0.3,
    "extremes": lambda x: jnp.maximum(0.0, 1 - jnp.abs(x)),
    "selection": lambda x: jnp.where(x > 0.2, x * 0.1, 0.0),
    "sum": lambda x: x - jnp.sum(x),
    "single precision": lambda x: (x.astype(jnp.float32) * jnp.float32(0.1)).astype(float),
    "half precision": lambda x: x.astype(jnp.bfloat16).astype(float) + 1,
    "functions": lambda x: jnp.sin(x) * jnp.exp(x),
    "rounding": lambda x: jnp.floor(x * 3) + jnp.round(x) - jnp.ceil(x),
    "infinities": lambda x: jnp.where(x > 0, x, -jnp.inf),
}


@pytest.mark.parametrize("name", _REAL)
def test_bounds_of_real_numbers_hold_however_they_are_computed(name: str) -> None:
    bounds = _value(_REAL[name], _F).bounds()
    assert bounds is not None
    for compute in (jax.jit(_REAL[name]), _REAL[name]):
        actual = np.asarray(compute(jnp.asarray(_F)), dtype=float)
        assert ((bounds[0] <= actual) & (actual <= bounds[1])).all()


def test_rounded_numbers_are_not_taken_for_zero_and_exact_ones_are() -> None:
    difference = _value(lambda x: x * 3 - jnp.array([0.3, 0.75]), np.array([0.1, 0.25]))
    mask = difference.mask()
    assert mask is not None
    assert mask.tolist() == [True, False]


@pytest.mark.parametrize(
    ("f", "low", "high"),
    [
        (lambda x: jnp.argmax(x), 0, 4),
        (lambda x: jnp.clip(x[0].astype(jnp.int32), 2, 3), 2, 3),
        (lambda x: jnp.maximum(x[0].astype(jnp.int32), 0) % 3, 0, 2),
        (lambda x: jnp.where(x[0] > 0, 4, 1), 1, 4),
        (lambda x: (x[0] > 0).astype(int) * 5, 0, 5),
        (lambda x: jnp.minimum(jnp.argmin(x), 2) + 1, 1, 3),
        (lambda x: jnp.argsort(x)[0], 0, 4),
        (lambda x: lax.top_k(x, 2)[1][0], 0, 4),
        (lambda x: jnp.arange(5)[jnp.argmax(x)] * 2, 0, 8),
        (lambda x: jnp.abs(jnp.argmax(x) - 3), 0, 3),
    ],
)
def test_whole_numbers_that_depend_on_the_input_have_ranges(f: object, low: int, high: int) -> None:
    bounds = _value(f, np.ones(5), unknown=(0,)).bounds()
    assert bounds is not None
    assert (int(bounds[0]), int(bounds[1])) == (low, high)


@pytest.mark.parametrize(
    ("f", "mask"),
    [
        (lambda x: x * np.array([0.0, 1.0, 2.0]), [False, True, True]),
        (lambda x: jnp.pad(x[:2], (1, 0)), [False, True, True]),
        (lambda x: jnp.where(np.arange(3) < 1, x, 0.0), [True, False, False]),
        (lambda x: jnp.zeros(3).at[1].set(x[0]), [False, True, False]),
        (lambda x: jnp.zeros(3).at[np.array([0, 0])].add(x[:2]), [True, False, False]),
        (lambda x: (x * np.array([0.0, 0.0, 1.0])).at[1].apply(jnp.cos), [False, True, True]),
        (lambda x: np.diag([1.0, 0.0, 1.0]) @ x, [True, False, True]),
        (lambda x: jnp.sin(x * np.array([1.0, 0.0, 1.0])) ** 2, [True, False, True]),
        (lambda x: jnp.cumsum(x * np.array([0.0, 1.0, 0.0])), [False, True, True]),
        (lambda x: lax.dynamic_update_slice(jnp.zeros(3), x[:1], (2,)), [False, False, True]),
        (lambda x: jnp.diag(x)[1], [False, True, False]),
        (lambda x: (jnp.arange(3) == 2) * x, [False, False, True]),
        (lambda x: jnp.triu(jnp.outer(x, x)).sum(0) * np.array([1.0, 0.0, 0.0]), [True, False, False]),
    ],
)
def test_zeros_that_hold_for_every_input_are_found(f: object, mask: list[bool]) -> None:
    found = _value(f, np.ones(3), unknown=(0,)).mask()
    assert found is not None
    assert found.tolist() == mask


@pytest.mark.parametrize(
    "f", [lambda x: x - x, lambda x: jnp.cos(x * 0.0), lambda x: x / 3 + 0.0, lambda x: jnp.exp(x)]
)
def test_numbers_that_are_not_certainly_zero_have_no_mask(f: object) -> None:
    assert _value(f, np.ones(3), unknown=(0,)).mask() is None


def test_a_program_longer_than_the_recursion_limit_is_answered() -> None:
    def f(x: jax.Array) -> jax.Array:
        scale = jnp.arange(3)
        for _ in range(3000):
            scale = scale + 1
        return scale * x

    assert _value(f, np.ones(3), unknown=(0,)).mask() is None


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(
    ("draw", "count"),
    [
        (lambda key, x: jax.random.permutation(key, x), 6),
        (lambda key, x: jax.jit(jax.random.permutation)(jax.random.fold_in(key, 3), x), 6),
        (lambda key, x: jax.vmap(jax.random.permutation)(jax.random.split(key, 2), x.reshape(2, 3)), 6),
        (lambda key, x: jax.random.permutation(key, x.reshape(3, 2), independent=True), 6),
        (lambda key, x: jax.random.choice(key, x, (4,), replace=False), 4),
        (lambda key, x: x * jax.random.bernoulli(key, 0.5, (6,)), None),
    ],
    ids=["permutation", "in a call", "lanes", "independent", "choice", "dropout"],
)
def test_random_numbers_of_a_constant_key_are_known(draw: Any, count: int | None, bits: int) -> None:
    with jax.enable_x64(bits == 64):
        f = lambda x: draw(jax.random.key(7), x)  # noqa: E731
        x = np.arange(1.0, 7.0)
        found = detect(f, x).to_scipy().toarray() != 0
        truth = np.asarray(jax.jacobian(f)(x)).reshape(found.shape) != 0
    np.testing.assert_array_equal(found, truth)
    assert count is None or found.sum() == count


def test_equal_keys_of_an_unstable_sort_leave_the_order_open() -> None:
    keys = np.array([1, 1, 0])
    sort = lambda x: jax.lax.sort((keys, x), num_keys=1, is_stable=False)[1]  # noqa: E731
    assert detect(sort, jnp.ones(3)).nnz == 9
    assert detect(lambda x: jax.lax.sort((keys, x), num_keys=1)[1], jnp.ones(3)).nnz == 3
