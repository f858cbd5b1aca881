"""Group normalisation in native code: the same numbers as the formula, and derivatives of every mode."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chainrule.core.types import Array
from chainrule.nn import GroupNorm, grouped

pytestmark = pytest.mark.usefixtures("lanes")

SHAPES = {
    "groups of four": (3, 64, 32, 8),
    "groups of twelve": (2, 16, 96, 8),
    "an odd number of positions": (2, 49, 64, 16),
    "one position": (2, 1, 64, 4),
    "one group": (2, 9, 16, 1),
    "a group for each channel": (2, 9, 16, 16),
}


call = eqx.filter_jit(lambda norm, *a: norm(*a))


def given(batch: int, positions: int, channels: int) -> tuple[Array, ...]:
    draw = np.random.default_rng(0)
    x, cotangent = (3 + draw.normal(size=(batch, positions, channels)) for _ in range(2))
    scale, shift = (draw.normal(size=(batch, channels)) for _ in range(2))
    return tuple(jnp.asarray(a, jnp.float32) for a in (x, scale, shift, cotangent))


@functools.partial(jax.jit, static_argnums=0)
def both(function: Callable[..., Array], cotangent: Array, *operands: Array) -> tuple[Array, ...]:
    """Value and gradients."""
    out, pull = jax.vjp(function, *operands)
    return out, *pull(cotangent)


@functools.cache
def exact(shape: tuple[int, ...], silu: bool) -> list[np.ndarray]:
    """Value and gradients by the formula in double precision; the same for every width of registers."""
    *sizes, groups = shape
    with jax.enable_x64(True):
        *operands, cotangent = (jnp.asarray(np.asarray(a), jnp.float64) for a in given(*sizes))
        how = {"groups": groups, "eps": 1e-5, "silu": silu}
        found = both(functools.partial(grouped._formula, **how), cotangent, *operands)
        return [np.asarray(a) for a in found]


@pytest.mark.parametrize("silu", [False, True], ids=["plain", "silu"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_programs_agree_with_the_formula_in_double_precision(shape: tuple[int, ...], silu: bool) -> None:
    *sizes, groups = shape
    *operands, cotangent = given(*sizes)
    assert grouped.fast(operands[0], groups)
    how = {"groups": groups, "eps": 1e-5, "silu": silu}
    found = both(functools.partial(grouped.normalised, **how), cotangent, *operands)
    for got, want in zip(found, exact(shape, silu), strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5 * np.abs(want).max(), rtol=0)


def test_forward_mode_and_second_derivatives_agree_with_the_formula() -> None:
    x, scale, shift, moved = given(2, 4, 16)
    how = {"groups": 4, "eps": 1e-5, "silu": True}

    def energies(function):  # type: ignore[no-untyped-def]
        def energy(x: Array) -> Array:
            return jnp.sum(jnp.sin(function(x, scale, shift, **how)))

        def along(x: Array) -> tuple[Array, Array]:
            return jax.jvp(energy, (x,), (moved,))[1], jax.jvp(jax.grad(energy), (x,), (moved,))[1]

        return jax.jit(along)(x)

    for got, want in zip(energies(grouped.normalised), energies(grouped._formula), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-4)


def test_mapped_over_an_axis_it_is_the_same_as_one_by_one() -> None:
    x, scale, shift, _ = given(3, 4, 16)
    one = lambda x, scale: grouped.normalised(x[None], scale[None], shift[:1], groups=2, eps=1e-5, silu=True)  # noqa: E731
    mapped, single = jax.jit(jax.vmap(one))(x, scale), jax.jit(one)
    np.testing.assert_array_equal(mapped, np.stack([single(*pair) for pair in zip(x, scale, strict=True)]))


def test_the_layer_gives_the_same_with_programs_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    x, scale, shift, _ = given(2, 16, 32)
    norm = GroupNorm(32, groups=8)
    image = x.reshape(2, 4, 4, 32)
    fast = call(norm, image, (scale, shift), "silu")
    monkeypatch.setattr(grouped, "fast", lambda x, groups: False)
    jax.clear_caches()
    np.testing.assert_allclose(fast, call(norm, image, (scale, shift), "silu"), atol=2e-5)
    plain = (1 + np.asarray(scale)[:, None, None]) * call(norm, image) + np.asarray(shift)[:, None, None]
    np.testing.assert_allclose(fast, plain / (1 + np.exp(-plain)), atol=2e-5)


def test_what_is_not_a_number_does_not_stay_hidden() -> None:
    x, scale, shift, _ = given(2, 4, 16)
    out = grouped.normalised(x.at[0, 1, 2].set(jnp.nan), scale, shift, groups=2, eps=1e-5, silu=True)
    assert bool(jnp.isnan(out[0, :, :8]).all())
    assert bool(jnp.isfinite(out[1]).all())


@pytest.mark.parametrize("of", [jnp.bfloat16, jnp.float64])
def test_scales_and_conditions_of_another_type_are_read_as_the_numbers_they_are(of: type) -> None:
    with jax.enable_x64(True):
        x, *film, _ = given(2, 16, 32)
        norm = GroupNorm(32, groups=8, dimensions=1)
        single, other = (jax.tree.map(lambda a, t=t: a.astype(t), norm) for t in (jnp.float32, of))
        conditions = [c.astype(of) for c in film]
        expected = call(single, x, tuple(c.astype(jnp.float32) for c in conditions))
        found = call(other, x, tuple(conditions))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected, atol=0.05 if of == jnp.bfloat16 else 1e-5)


def test_no_examples_give_none() -> None:
    assert call(GroupNorm(32), jnp.zeros((0, 4, 4, 32))).shape == (0, 4, 4, 32)
