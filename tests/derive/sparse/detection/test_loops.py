"""Loops: the same pattern whichever way the steps are taken, and never too small."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from chainrule.derive.sparse.detection import detect, stepping
from chainrule.derive.sparse.detection.rules import looping


def _diffuse(u: jax.Array) -> jax.Array:
    return u + 0.1 * (jnp.pad(u[1:], (0, 1)) - 2 * u + jnp.pad(u[:-1], (1, 0)))


@pytest.mark.parametrize("length", [1, 2, 5])
@pytest.mark.parametrize("way", ["bits", "reach"])
def test_a_scan_has_the_pattern_of_its_steps_written_out(
    monkeypatch: pytest.MonkeyPatch, length: int, way: str
) -> None:
    if way == "reach":
        monkeypatch.setattr(stepping, "_ROOM", 0)

    def scanned(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return lax.scan(lambda u, _: (_diffuse(u), u[:2] * u[2]), x, None, length=length)

    def written(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        outputs = []
        for _ in range(length):
            outputs.append(x[:2] * x[2])
            x = _diffuse(x)
        return x, jnp.stack(outputs)

    assert detect(scanned, jnp.ones(7)) == detect(written, jnp.ones(7))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("way", ["bits", "reach", "at once"])
def test_slices_enter_at_their_step(monkeypatch: pytest.MonkeyPatch, way: str, reverse: bool) -> None:
    if way != "bits":
        monkeypatch.setattr(stepping, "_ROOM", 0)
    if way == "at once":
        monkeypatch.setattr(stepping, "_STEPS", 0)

    def f(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return lax.scan(lambda c, y: (0.5 * c + y[0], c * y[1]), 1.0, x.reshape(4, 2), reverse=reverse)

    dense = [np.asarray(part).reshape(-1, 8) for part in jax.jacobian(f)(jnp.arange(1.0, 9.0))]
    truth = np.concatenate(dense) != 0
    pattern = detect(f, jnp.ones(8)).to_scipy().toarray() != 0
    assert not (truth & ~pattern).any()
    if way != "at once":
        assert (truth == pattern).all()


def test_uniting_at_once_keeps_blocks_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping, "_ROOM", 0)
    monkeypatch.setattr(stepping, "_STEPS", 0)

    def f(x: jax.Array) -> jax.Array:
        return lax.scan(lambda u, _: (u * u[:, ::-1], None), x, None, length=100)[0]

    assert (detect(f, jnp.ones((3, 2))).to_scipy().toarray() == np.kron(np.eye(3), np.ones((2, 2)))).all()


@pytest.mark.parametrize("room", [stepping._ROOM, 0])
def test_a_while_loop_ends_at_its_fixed_point(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(stepping, "_ROOM", room)

    def f(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda u: u[0] < 9, lambda u: u.at[1:].add(u[:-1] ** 2), x)

    pattern = detect(f, jnp.ones(5)).to_scipy().toarray()
    assert (pattern[np.tril_indices(5)] == 1).all()
    if room:
        assert (pattern == np.tril(np.ones((5, 5)))).all()


def test_a_counting_index_is_followed_step_by_step_while_the_loop_is_short() -> None:
    def f(x: jax.Array) -> jax.Array:
        return lax.fori_loop(1, 6, lambda i, u: u.at[i].set(x[i - 1] * x[i]), x)

    expected = np.eye(6) + np.eye(6, k=-1)
    assert (detect(f, jnp.ones(6)).to_scipy().toarray() == expected).all()


def test_a_counting_index_of_a_long_loop_is_anywhere_in_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looping, "_WRITTEN_OUT", 0)

    def f(x: jax.Array) -> jax.Array:
        return lax.fori_loop(2, 4, lambda i, u: u.at[i].add(x[i]), jnp.zeros(6))

    pattern = detect(f, jnp.ones(6)).to_scipy().toarray()
    assert (np.flatnonzero(pattern.any(axis=0)) == [2, 3]).all()
    assert (np.flatnonzero(pattern.any(axis=1)) == [2, 3]).all()


def test_the_body_of_a_long_loop_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    walked = []
    walk = stepping.Analysis.walk_open

    def counting(self: object, program: object, *rest: object) -> object:
        walked.append(program)
        return walk(self, program, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(stepping.Analysis, "walk_open", counting)
    f = functools.partial(lax.scan, lambda u, _: (_diffuse(u), None), length=1000)
    detect(lambda x: f(x, None)[0], jnp.ones(20))
    assert len(walked) < 10


LANES = np.array([1, 2, 3, 1])


def test_lanes_of_a_loop_with_bounds_of_their_own_stay_apart() -> None:
    run = jax.vmap(lambda a, n: lax.fori_loop(0, n, lambda i, s: jnp.sin(s) * a[i], a[0]))
    found = detect(lambda x: run(x.reshape(4, 3), LANES), jnp.ones(12)).to_scipy().toarray() != 0
    expected = np.zeros((4, 12), dtype=bool)
    for lane, count in enumerate(LANES):
        expected[lane, 3 * lane : 3 * lane + count] = True
    np.testing.assert_array_equal(found, expected)


def _grown(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda s: s.sum() < 100, lambda s: 1.5 * s + jnp.sin(s), x)


def _nested(x: jax.Array) -> jax.Array:
    grow = lambda s: lax.while_loop(lambda u: u.sum() < s.sum() * 2 + 1, lambda u: 1.3 * u + jnp.sin(s), s)  # noqa: E731
    return lax.while_loop(lambda s: s.sum() < 100, grow, x)


def _in_steps(x: jax.Array) -> jax.Array:
    climb = lambda c, a: lax.while_loop(lambda u: u < 5, lambda u: 2 * u + jnp.sin(a), c * a)  # noqa: E731
    return jax.vmap(lambda a: lax.scan(lambda c, _: (climb(c, a), None), 1.0, None, length=2)[0])(x)


def _chain(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda s: s.sum() < 1000, lambda s: s.at[1:].add(s[:-1] ** 2), x)[-1:]


def _from_constants(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda s: s.sum() < 100, lambda s: s + x**2, jnp.ones_like(x))


_FIVE = np.eye(5, dtype=bool)
_PAIRS = _FIVE | np.eye(5, k=1, dtype=bool) | np.eye(5, k=-1, dtype=bool)
_BUT_LAST = np.pad(np.ones((4, 4), dtype=bool), (0, 1))


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: _grown(x).sum(), _FIVE),
        (lambda x: jax.jit(_grown)(x).sum(), _FIVE),
        (lambda x: _grown(x) @ x[::-1], _FIVE | _FIVE[::-1]),
        (lambda x: _nested(x).sum(), _FIVE),
        (lambda x: _in_steps(x).sum(), _FIVE),
        (lambda x: _chain(x).sum(), _BUT_LAST),
        (lambda x: _from_constants(x).sum(), _FIVE),
        (lambda x: lax.cond(x[0] > 0, lambda y: _grown(y).sum(), lambda y: y[1:] @ y[:-1], x), _PAIRS),
    ],
    ids=["while", "in a call", "times others", "nested", "in a scan", "chain", "constants", "in a branch"],
)
def test_hessians_through_open_loops_are_as_sparse_as_what_the_loop_couples(
    f: object, expected: object
) -> None:
    np.testing.assert_array_equal(detect(f, jnp.ones(5), "hessian").to_scipy().toarray() != 0, expected)


def test_functions_with_rules_of_their_own_may_stand_beside_and_inside_open_loops() -> None:
    def loop(x: jax.Array) -> jax.Array:
        step = lambda s: (s[0] + 1.0, jax.nn.relu(s[1]) * x)  # noqa: E731
        return lax.while_loop(lambda s: s[0] < 3.0, step, (0.0, x))[1]

    found = detect(lambda x: jnp.sum(jax.nn.silu(loop(x))), jnp.ones(4), of="hessian")
    assert (found.to_scipy().toarray() == np.eye(4)).all()


def test_a_loop_that_couples_slowly_gives_every_pair_of_what_it_reads() -> None:
    f = lambda x: lax.while_loop(lambda s: s.sum() < 9, lambda s: s.at[1:].add(s[:-1] ** 2), x)[-1]  # noqa: E731
    assert detect(f, jnp.ones(60), "hessian").nnz >= 59**2
