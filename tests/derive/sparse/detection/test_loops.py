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
