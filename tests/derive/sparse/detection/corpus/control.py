"""Loops and branches, calls, custom rules, vmap, trees."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.derive.sparse.detection.corpus.case import Case, sound, tight


def _diffuse(u: jax.Array) -> jax.Array:
    return u + 0.1 * (jnp.pad(u[1:], (0, 1)) - 2 * u + jnp.pad(u[:-1], (1, 0)))


def _scan_steps(steps: int):
    return lambda x: lax.scan(lambda u, _: (_diffuse(u), None), x, None, length=steps)[0]


def _scan_outputs(x: jax.Array) -> jax.Array:
    return lax.scan(lambda u, _: (_diffuse(u), u[0] * 2), x, None, length=3)[1]


def _recurrence(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.scan(lambda c, y: (jnp.tanh(c) + y, c * y), 0.5, x)


def _recurrence_back(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    return lax.scan(lambda c, y: (0.5 * c + y, c + y), 0.0, x, reverse=True)


def _scan_map(x: jax.Array) -> jax.Array:
    return lax.scan(lambda c, y: (c, jnp.sin(y) * y[::-1]), 0.0, x)[1]


def _scan_with_constant(x: jax.Array) -> jax.Array:
    return lax.scan(lambda c, y: (c * x[0], y * x[1]), 1.0, x[2:])[1]


def _delay(x: jax.Array) -> jax.Array:
    return lax.scan(lambda c, y: ((y, c[0]), c[1]), (0.0, 0.0), x)[1]


def _fill(x: jax.Array) -> jax.Array:
    return lax.fori_loop(1, 5, lambda i, u: u.at[i].set(u[i - 1] * x[i]), x)


def _sweep(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 3, lambda i, u: u.at[i].add(x[i + 1] ** 2), jnp.zeros(4))


def _indexed_scan(x: jax.Array) -> jax.Array:
    return lax.scan(lambda c, i: (c, x[i] * x[3]), 0.0, jnp.array([0, 2]))[1]


def _long_fill(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 3000, lambda i, u: u.at[i % 4].add(0.001 * x[i % 4]), x)


def _while_in_condition(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda s: s[0] < jnp.abs(x[0]) + 3, lambda s: (s[0] + 1, s[1] * 0.9), (0.0, x))[1]


def _while_in_body(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1] + x[::-1] * 0.1), (0, x))[1]


def _while_in_both(x: jax.Array) -> jax.Array:
    return lax.while_loop(
        lambda s: jnp.sum(s) < 20 + jnp.abs(x[1]), lambda s: s + jnp.abs(x) + 0.1, jnp.abs(x)
    )


def _while_shifting(x: jax.Array) -> jax.Array:
    return lax.while_loop(
        lambda s: s[0] < 3 + jnp.abs(x[0]), lambda s: (s[0] + 1, jnp.roll(s[1], 1) * x), (0.0, x)
    )[1]


def _newton(x: jax.Array) -> jax.Array:
    def step(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        root, _ = state
        update = (root**2 - x) / (2 * root)
        return root - update, jnp.max(jnp.abs(update))

    return lax.while_loop(lambda s: s[1] > 1e-9, step, (jnp.ones_like(x), jnp.asarray(1.0)))[0]


def _nested_loops(x: jax.Array) -> jax.Array:
    def outer(u: jax.Array, _: None) -> tuple[jax.Array, None]:
        return lax.fori_loop(0, 2, lambda i, v: v.at[i].multiply(x[2]), u), None

    return lax.scan(outer, x, None, length=2)[0]


def _branch(x: jax.Array) -> jax.Array:
    return lax.cond(x[0] > 0, lambda z: z[1:] ** 2, lambda z: z[:-1] * 3, x)


def _branch_known(x: jax.Array) -> jax.Array:
    return lax.cond(jnp.arange(3)[1] == 1, lambda z: z * 2, lambda z: z[::-1], x)


def _switch(x: jax.Array) -> jax.Array:
    return lax.switch((x[0] > 0).astype(int) + (x[1] > 0), [jnp.sin, lambda z: z[::-1], jnp.zeros_like], x)


def _cond_in_scan(x: jax.Array) -> jax.Array:
    def step(c: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return lax.cond(y > 0, lambda: (c + y, c), lambda: (c, y * 2)), None

    def body(c: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return step(c, y)[0]

    return lax.scan(body, x[0], x[1:])[1]


@jax.custom_jvp
def _straight(x: jax.Array) -> jax.Array:
    return jnp.round(x)


_straight.defjvp(lambda primals, tangents: (_straight(primals[0]), tangents[0]))


@jax.custom_jvp
def _coupled(x: jax.Array) -> jax.Array:
    return x * 2


_coupled.defjvp(
    lambda primals, tangents: (_coupled(primals[0]), tangents[0][::-1] + jnp.sum(tangents[0][:2]))
)


@jax.custom_vjp
def _straight_back(x: jax.Array) -> jax.Array:
    return jnp.sign(x)


_straight_back.defvjp(lambda x: (_straight_back(x), None), lambda _, g: (g,))


@jax.custom_vjp
def _clipped_back(x: jax.Array) -> jax.Array:
    return x * 3


_clipped_back.defvjp(lambda x: (x * 3, x), lambda x, g: (jnp.clip(g, -0.1, 0.1) * x,))


@jax.custom_vjp
def _mixed_back(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    return x * y, jnp.sum(x)


_mixed_back.defvjp(
    lambda x, y: (_mixed_back(x, y), (x, y)),
    lambda kept, g: (g[0] * kept[1] + g[1], jnp.roll(g[0], 1) * kept[0]),
)


@jax.custom_vjp
def _normalised_back(x: jax.Array) -> jax.Array:
    return x


_normalised_back.defvjp(lambda x: (x, None), lambda _, g: (g / (1 + jnp.linalg.norm(g)),))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def _scaled_back(x: jax.Array, scale: float) -> jax.Array:
    return x


_scaled_back.defvjp(
    lambda x, scale: (x, None), lambda scale, _, g: (jnp.where(jnp.abs(g) > 0.5, g * scale, g),)
)


def _root(x: jax.Array) -> jax.Array:
    return lax.custom_root(
        lambda w: w**3 - x,
        jnp.ones_like(x),
        lambda f, w: lax.fori_loop(0, 20, lambda _, v: v - f(v) / (3 * v**2 + 1e-9), w),
        lambda g, y: y / g(jnp.ones_like(y)),
    )


_STRAIGHT = {
    "alone": lambda g, x: g(x),
    "in a product": lambda g, x: g(x) * x[::-1],
    "under jit": lambda g, x: jax.jit(g)(x),
    "under vmap": lambda g, x: jax.vmap(g)(x.reshape(2, 2)).reshape(-1),
    "in a scan": lambda g, x: lax.scan(lambda c, _: (g(c) + x[0], None), x, None, length=3)[0],
    "in a branch": lambda g, x: lax.cond(x[0] > 0, g, lambda z: z * 2, x),
    "twice": lambda g, x: g(jnp.sin(g(x))),
    "under checkpoint": lambda g, x: jax.checkpoint(g)(x) + x[0],
}

LOOPS: list[Case] = [
    tight("scan of one step", _scan_steps(1), (6,)),
    tight("scan of two steps", _scan_steps(2), (7,)),
    tight("scan of a hundred steps", _scan_steps(100), (8,)),
    tight("scan of no steps", _scan_steps(0), (4,)),
    tight("scan with outputs", _scan_outputs, (6,)),
    tight("recurrence", _recurrence, (5,)),
    tight("recurrence backwards", _recurrence_back, (5,)),
    tight("scan as a map", _scan_map, (3, 2)),
    tight("scan with constants", _scan_with_constant, (5,)),
    tight("delay line", _delay, (5,)),
    tight("loop filling an array", _fill, (5,)),
    tight("loop over positions", _sweep, (4,)),
    tight("scan over indices", _indexed_scan, (4,)),
    sound("loop too long to write out", _long_fill, (4,)),
    tight("map", lambda x: lax.map(lambda row: jnp.cumsum(row), x), (2, 3)),
    tight("map of batches", lambda x: lax.map(jnp.sin, x, batch_size=2), (5,)),
    sound("while with input in the condition", _while_in_condition, (4,), mode="forward"),
    tight("while with input in the body", _while_in_body, (4,), mode="forward"),
    sound("while with input in both", _while_in_both, (3,), mode="forward"),
    sound("while that shifts", _while_shifting, (4,), mode="forward"),
    tight("newton iteration", _newton, (3,), low=0.5, mode="forward"),
    tight("nested loops", _nested_loops, (4,)),
    sound("branch", _branch, (4,)),
    tight("branch on a constant", _branch_known, (4,)),
    sound("switch", _switch, (4,)),
    sound("branch in a scan", _cond_in_scan, (5,)),
    tight(
        "fori with a traced bound",
        lambda x: lax.fori_loop(0, jnp.int32(3), lambda i, u: u * x, x),
        (3,),
        mode="forward",
    ),
    tight("custom root", _root, (3,), low=0.5),
]

RULES: list[Case] = [
    *(
        sound(f"straight-through forward rule {name}", functools.partial(f, _straight), (4,))
        for name, f in _STRAIGHT.items()
    ),
    *(
        sound(f"straight-through reverse rule {name}", functools.partial(f, _straight_back), (4,))
        for name, f in _STRAIGHT.items()
    ),
    tight("forward rule that couples", _coupled, (4,)),
    tight("reverse rule that clips", _clipped_back, (4,)),
    tight("reverse rule with several operands", lambda x: _mixed_back(x[:3], x[3:]), (6,)),
    sound("reverse rule that normalises", _normalised_back, (3,)),
    tight("reverse rule with a setting", lambda x: _scaled_back(x, 2.0) * x, (3,)),
    tight("reverse rule in a loop", lambda x: lax.fori_loop(0, 2, lambda i, u: _clipped_back(u), x), (3,)),
]

CALLS: list[Case] = [
    tight("jit in jit", lambda x: jax.jit(lambda y: jax.jit(jnp.sin)(y) * y[::-1])(x), (4,)),
    tight("checkpoint", jax.checkpoint(lambda x: jnp.sin(x) * x[0]), (3,)),
    tight("vmap", jax.vmap(lambda row: row[0] * row), (3, 2)),
    tight("vmap of a product", jax.vmap(lambda a: jnp.asarray(np.tril(np.ones((2, 2)))) @ a), (3, 2)),
    sound("vmap of sorting", jax.vmap(jnp.sort), (2, 3)),
    tight("vmap of solve", jax.vmap(lambda b: jnp.linalg.solve(jnp.eye(2) * 3 + 1, b)), (2, 2)),
    tight("vmap of a scan", jax.vmap(_scan_steps(2)), (2, 4)),
    tight("vmap of a gather", jax.vmap(lambda r: r[np.array([2, 0])]), (2, 3)),
    sound("vmap of a branch", jax.vmap(lambda r: lax.cond(r[0] > 0, jnp.sin, jnp.cos, r)), (2, 3)),
    sound("vmap of a while", jax.vmap(_while_in_condition), (2, 2), mode="forward"),
    sound("vmap of eigenvalues", jax.vmap(lambda a: jnp.linalg.eigvalsh(a + a.T)), (2, 2, 2)),
    tight("vmap of fft", jax.vmap(lambda r: jnp.abs(jnp.fft.fft(r))), (2, 3)),
    tight("vmap of convolution", jax.vmap(lambda r: jnp.convolve(r, jnp.array([1.0, -1.0]))), (2, 3)),
    tight("vmap over columns", jax.vmap(jnp.cumsum, in_axes=1, out_axes=1), (3, 2)),
    tight("derivative inside", lambda x: jax.grad(lambda y: jnp.sum(y[1:] * y[:-1] ** 2))(x), (5,)),
    tight("jacobian inside", lambda x: jnp.sum(jax.jacobian(jnp.sin)(x), axis=0), (3,)),
    tight("forward derivative inside", lambda x: jax.jvp(jnp.sin, (x,), (jnp.ones_like(x),))[1], (3,)),
    tight("tree in and out", lambda t: {"s": t["a"][0] * t["b"], "r": [t["a"][1:]]}, {"a": (3,), "b": ()}),
    tight("tuple of arrays", lambda t: (t[0] @ t[1], t[1] * 2), ((2, 3), (3,))),
    tight("integer output", lambda x: (x * 2, jnp.arange(3), x[0] > 0), (3,)),
    tight(
        "mixed precision",
        lambda t: t[0].astype(jnp.float64) * t[1],
        (jax.ShapeDtypeStruct((2,), np.float32), jax.ShapeDtypeStruct((2,), np.float64)),
    ),
    tight("complex result", lambda x: jnp.exp(1j * x) * x[0], (3,), mode="forward"),
    tight("linear transpose inside", lambda x: jax.linear_transpose(lambda v: v[1:] * 2, x)(x[1:])[0], (4,)),
]

CASES = [*LOOPS, *RULES, *CALLS]
