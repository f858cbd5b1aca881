"""Attention in native code against the plain path in double precision."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.errors import ArgumentError
from chainrule.derive.sparse import detect
from chainrule.nn.attention import Causal, Window, attend
from tests.nn.attention.draws import draw

pytestmark = pytest.mark.usefixtures("lanes")

# batch, heads, queries, keys, size, causal
CASES = {
    "one vector of queries": (2, 3, 16, 16, 16, True),
    "blocks of two vectors": (3, 2, 64, 64, 32, True),
    "large heads": (1, 1, 32, 32, 64, True),
    "as many keys as you like": (2, 2, 32, 56, 16, False),
    "a last vector that is not full": (2, 2, 28, 28, 16, True),
    "a last tile that is not full": (2, 2, 49, 51, 16, False),
    "what fills narrow registers only": (1, 2, 24, 24, 8, True),
}
SCALE = 0.4


def tensors(case: str, *, shift: float = 0.0) -> tuple[Any, ...]:
    """Queries, keys, values and a cotangent, in single precision."""
    batch, count, queries, keys, size, _ = CASES[case]
    shapes = [(batch, count, time, size) for time in (queries, keys, keys, queries)]
    return tuple((shift + draw(*s, seed=i)).astype(jnp.float32) for i, s in enumerate(shapes))


def by(path: str, case: str) -> Any:
    mask = Causal() if CASES[case][-1] else None
    return lambda q, k, v: attend(q, k, v, mask=mask, scale=SCALE, path=path)


def assert_close(found: Any, expected: Any) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=2e-6 * max(1.0, float(np.abs(b).max())))


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_those_of_the_plain_path_and_the_same_every_time(
    case: str, lanes: int
) -> None:
    *x, cotangent = tensors(case)
    if CASES[case][4] % lanes:
        with pytest.raises(ArgumentError, match="no program for queries of shape"):
            by("native", case)(*x)
        return

    def both(path: str) -> Any:
        def run(c: Any, *x: Any) -> Any:
            out, back = jax.vjp(by(path, case), *x)
            return out, back(c)

        return jax.jit(run)

    ours = both("native")
    found = ours(cotangent, *x)
    assert_close(found, both("plain")(*(a.astype(jnp.float64) for a in (cotangent, *x))))
    for _ in range(10):
        jax.tree.map(np.testing.assert_array_equal, ours(cotangent, *x), found)


def test_large_scores_do_not_overflow_and_one_key_can_take_all() -> None:
    q, k, v, _ = tensors("one vector of queries", shift=30.0)
    native, plain = (jax.jit(by(path, "one vector of queries")) for path in ("native", "plain"))
    assert_close(native(q, k, v), plain(*(a.astype(jnp.float64) for a in (q, k, v))))
    assert np.isnan(native(q.at[0, 0, 3].set(jnp.nan), k, v)[0, 0, 3]).all()


def test_forward_mode_and_second_derivatives_are_those_of_the_plain_path() -> None:
    case = "one vector of queries"
    x, t = tensors(case)[:3], tuple(0.5 * a[::-1] for a in tensors(case)[:3])

    def every(path: str) -> Any:
        def loss(x: Any) -> Any:
            return jnp.sin(by(path, case)(*x)).sum()

        def run(x: Any, t: Any) -> Any:
            return (
                jax.jvp(lambda x: by(path, case)(*x), (x,), (t,))[1],
                jax.jvp(jax.grad(loss), (x,), (t,))[1],
                jax.grad(lambda x: jax.jvp(loss, (x,), (t,))[1])(x),
                jax.grad(lambda q: loss((q, *x[1:])))(x[0]),
            )

        return jax.jit(run)(x, t)

    assert_close(every("native"), every("plain"))


def test_a_batch_of_attentions_is_each_of_them() -> None:
    case = "one vector of queries"
    q, k, v, c = tensors(case)
    many = jnp.stack([q, 2 * q])

    def gradient(q: Any, c: Any) -> Any:
        return jax.vjp(by("native", case), q, k, v)[1](c)

    found, single = jax.jit(jax.vmap(gradient, in_axes=(0, None)))(many, c), jax.jit(gradient)
    assert_close(found, jax.tree.map(lambda *x: np.stack(x), single(q, c), single(2 * q, c)))


def test_what_depends_on_what_is_seen_through_the_program() -> None:
    _, k, v, _ = tensors("one vector of queries")
    out = by("native", "one vector of queries")
    pattern = detect(lambda v: out(k[:1, :1], k[:1, :1], v)[0, 0, :, 0], v[:1, :1])
    seen = np.zeros((16, 16, 16), bool)
    seen.reshape(16, -1)[np.asarray(pattern.rows), np.asarray(pattern.cols)] = True
    assert (seen[:, :, 0] >= np.tri(16, dtype=bool)).all()
    assert not seen[:, :, 1:].any()


def test_the_program_is_chosen_where_it_fits_and_refused_elsewhere() -> None:
    q, k, v, _ = tensors("one vector of queries")

    def chosen(*x: Any, **settings: Any) -> bool:
        return "attention[" in str(jax.make_jaxpr(lambda *x: attend(*x, **settings))(*x))

    assert chosen(q, k, v, mask=Causal())
    assert chosen(q, k, v)
    assert not chosen(q, k, v, mask=Window(4))
    assert not chosen(*(a.astype(jnp.float64) for a in (q, k, v)))
    with pytest.raises(ArgumentError, match="no program for queries of shape"):
        attend(q[:, :, :9], k, v, path="native")


def test_no_texts_give_none_and_nothing_to_see_gives_zeros() -> None:
    some, none = jnp.ones((2, 2, 16, 16)), jnp.ones((0, 2, 16, 16))
    assert attend(none, none, none).shape == none.shape
    assert not attend(some, some[:, :, :0], some[:, :, :0]).any()
